# What both scenarios share: a server, a router and a client in a row, and what is told at the end.

Agent/TCP set window_ 100000
Agent/TCP set windowInit_ 10
Agent/TCP set tcpTick_ 0.001
Agent/TCP set minrto_ 0.2
Agent/TCP set overhead_ 0

set ns [new Simulator]
set server [$ns node]
set router [$ns node]
set client [$ns node]
set completions {}

# A last hop of this rate and delay, with a drop-tail queue of so many packets in each direction.
proc last_hop {lan rate delay limit monitored} {
    global ns server router client monitor
    $ns duplex-link $server $router $lan 0ms DropTail
    $ns queue-limit $server $router 1000000
    $ns duplex-link $router $client $rate $delay DropTail
    $ns queue-limit $router $client $limit
    $ns queue-limit $client $router $limit
    if {$monitored} {
        set monitor [$ns monitor-queue $router $client ""]
        count_bytes
    }
}

# Adds up what has crossed the last hop: the monitor's own count has 32 bits.
set bytes 0
proc count_bytes {} {
    global ns monitor bytes
    incr bytes [expr {int([$monitor set bdepartures_])}]
    $monitor set bdepartures_ 0
    $ns at [expr {[$ns now] + 100}] count_bytes
}

# A flow of TCP with SACK and an ACK for each segment.
proc download {payload start bytes} {
    global ns server client completions
    set tcp [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1]
    $tcp set packetSize_ $payload
    $ns attach-agent $server $tcp
    $ns attach-agent $client $sink
    $ns connect $tcp $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    if {$bytes == 0} {
        $ns at $start "$ftp start"
    } else {
        $ns at $start "$ftp send $bytes"
        $tcp proc done {} "global ns completions end; set end \[\$ns now\]; lappend completions \[expr {\[\$ns now\] - $start}\]"
    }
    return $tcp
}

# One line of JSON: packets that crossed the last hop towards the client, drops and bytes there, completion times and
# the last completion.
proc finish {monitored} {
    global ns monitor bytes completions end
    if {[llength $completions] == 0} { set end [$ns now] }
    if {$monitored} {
        count_bytes
        puts "{\"data\": [$monitor set pdepartures_], \"drops\": [$monitor set pdrops_],\
            \"bytes\": $bytes, \"completions\": \[[join $completions ", "]\],\
            \"end\": $end}"
    }
    exit 0
}

# A dumbbell of draft-irtf-iccrg-tcpeval for ns-2:
#
#     ns tcpeval.tcl SECONDS LAN DOWN UP DELAY DOWN_LIMIT UP_LIMIT FLOWS STREAMS
#
# Rates in bit/s, times in seconds. Each of FLOWS is a list of control, start, duration, bytes (0 if it has a
# duration), and the delay of its access link; each of STREAMS is start, duration and rate.

lassign $argv seconds lan down up delay down_limit up_limit flows streams

Agent/TCP set window_ 100000
Agent/TCP set windowInit_ 10
Agent/TCP set tcpTick_ 0.001
Agent/TCP set minrto_ 0.2
Agent/TCP set timestamps_ true
# Twelve bytes of options, so that a full segment has 1500 bytes, as in lasthop.
Agent/TCP set ts_option_size_ 12
Agent/TCP set packetSize_ 1448
Agent/TCPSink set ts_echo_rfc1323_ true
Agent/TCPSink/Sack1/DelAck set interval_ 40ms

set ns [new Simulator]
set router [$ns node]
set client [$ns node]
$ns simplex-link $router $client $down $delay DropTail
$ns simplex-link $client $router $up $delay DropTail
$ns queue-limit $router $client $down_limit
$ns queue-limit $client $router $up_limit
set counts [$ns makeflowmon Fid]
$ns attach-fmon [$ns link $router $client] $counts

# Packets of a server take up to the time of a packet on the bottleneck longer, in order, drawn anew after such
# a time or a millisecond. Without that, packets come exactly as others leave: one flow keeps the queue full and
# the others get nothing (Floyd and Jacobson, On Traffic Phase Effects, 1992). Their remedy, a random time before
# a host sends (overhead_), costs ns-2's senders up to a tenth of the satellite's rate, however short the time.
DelayLink set avoidReordering_ true
set links {}
proc jitter {} {
    global ns down links
    set packet [expr {12000.0 / $down}]
    foreach {link delay} $links { $link set delay_ [expr {$delay + rand() * $packet}] }
    $ns at [expr {[$ns now] + max($packet, 0.001)}] jitter
}
expr {srand(1)}
$ns at 0 jitter

proc server {delay} {
    global ns router lan links
    set node [$ns node]
    $ns duplex-link $node $router $lan $delay DropTail
    $ns queue-limit $node $router 1000000
    lappend links [[$ns link $node $router] link] $delay
    return $node
}

set id 0
foreach flow $flows {
    lassign $flow control start duration bytes access
    set tcp [new Agent/TCP/Linux]
    set sink [new Agent/TCPSink/Sack1/DelAck]
    $tcp set fid_ $id
    $ns attach-agent [server $access] $tcp
    $ns attach-agent $client $sink
    $ns connect $tcp $sink
    $ns at 0 "$tcp select_ca $control"
    # Linux has had 0.7 since 2.6.25, and so has RFC 9438; ns-2's copy is older.
    if {$control eq "cubic"} { $ns at 0 "$tcp set_ca_param cubic beta 717" }
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    if {$bytes} {
        $ns at $start "$ftp send $bytes"
        $tcp proc done {} "set ::elapsed($id) \[expr {\[$ns now\] - $start}\]; finish"
    } else {
        $ns at $start "$ftp start"
        set stop [expr {$start + $duration}]
        $ns at $stop "set acked($id) \[$tcp set ack_\]; $ftp stop"
    }
    incr id
}
foreach stream $streams {
    lassign $stream start duration rate
    set udp [new Agent/UDP]
    set null [new Agent/Null]
    $udp set packetSize_ 1500
    $udp set fid_ $id
    $ns attach-agent [server 0] $udp
    $ns attach-agent $client $null
    $ns connect $udp $null
    set cbr [new Application/Traffic/CBR]
    $cbr set packetSize_ 1500
    $cbr set rate_ $rate
    $cbr attach-agent $udp
    $ns at $start "$cbr start"
    $ns at [expr {$start + $duration}] "$cbr stop"
    incr id
}

# Lengths of the queue in bytes.
set lengths {}
proc look {} {
    global ns counts lengths
    lappend lengths [$counts set size_]
    $ns at [expr {[$ns now] + 0.005}] look
}
$ns at 0.005 look

# One line of JSON: packets that came to the bottleneck and were dropped there, segments acknowledged within
# the duration, and the time of a transfer, for each flow and then each stream.
proc finish {} {
    global id counts lengths acked elapsed down
    set told {}
    for {set i 0} {$i < $id} {incr i} {
        set seen [[$counts classifier] lookup auto 0 0 $i]
        set one "\"sent\": [expr {$seen eq "" ? 0 : [$seen set parrivals_]}]"
        append one ", \"drops\": [expr {$seen eq "" ? 0 : [$seen set pdrops_]}]"
        if {[info exists acked($i)]} { append one ", \"acked\": $acked($i)" }
        if {[info exists elapsed($i)]} { append one ", \"elapsed_s\": $elapsed($i)" }
        lappend told "{$one}"
    }
    set middle [lindex [lsort -real $lengths] [expr {[llength $lengths] / 2}]]
    puts stderr "{\"flows\": \[[join $told ", "]\], \"delay_s\": [expr {$middle * 8 / $down}]}"
    exit 0
}
$ns at $seconds finish
$ns run

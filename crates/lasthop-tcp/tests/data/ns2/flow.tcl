# One flow over two links in ns-2.35; `runs.py` calls it.
#
#   ns flow.tcl variant Reno iw 3 ... drops {14 20} out FOLDER
#
# `drops` numbers the packets that enter the second link, from 0, whatever they carry. FOLDER gets `packets` (ns-2's
# trace of the first link) and `timeouts` (every value of the sender's counter).

array set p $argv

Agent/TCP set syn_ true
Agent/TCP set delay_growth_ true        ;# only the SYN before its ACK
Agent/TCP set rtxcur_init_ 3.0
Agent/TCP set tcpTick_ $p(tick)
Agent/TCP set minrto_ $p(minrto)
Agent/TCP set maxrto_ $p(maxrto)
Agent/TCP set window_ $p(window)
Agent/TCP set windowInit_ $p(iw)
Agent/TCP set packetSize_ $p(pkt)
Agent/TCP set singledup_ $p(limtx)
Agent/TCP set ecn_ $p(ecn)
Agent/TCP/Newreno set newreno_changes1_ $p(impatient)
Agent/TCP/Newreno set partial_window_deflation_ $p(deflate)
Agent/TCPSink/DelAck set interval_ [expr $p(delack) / 1000.0]
Agent/TCPSink/Sack1/DelAck set interval_ [expr $p(delack) / 1000.0]

set ns [new Simulator]
set server [$ns node]
set router [$ns node]
set client [$ns node]
$ns duplex-link $server $router $p(accbw) 0ms DropTail
$ns duplex-link $router $client $p(bw) $p(delay) DropTail
$ns queue-limit $server $router 10000
$ns queue-limit $router $client $p(qlim)

set agents {Tahoe Agent/TCP Reno Agent/TCP/Reno Newreno Agent/TCP/Newreno Sack1 Agent/TCP/Sack1}
set tcp [new [dict get $agents $p(variant)]]
set kind Agent/TCPSink
if {$p(variant) == "Sack1"} { append kind /Sack1 }
if {$p(delack) > 0} { append kind /DelAck }
set sink [new $kind]
$ns attach-agent $server $tcp
$ns attach-agent $client $sink
$ns connect $tcp $sink

if {[llength $p(drops)] > 0} {
    set errors [new ErrorModel/List]
    $errors droplist $p(drops)
    $errors drop-target [new Agent/Null]
    $ns lossmodel $errors $router $client
}

set packets [open $p(out)/packets w]
set timeouts [open $p(out)/timeouts w]
$ns trace-queue $server $router $packets
$tcp trace nrexmit_
$tcp attach $timeouts

if {$p(produce) > 0} {
    $ns at 0.0 "$tcp advance $p(produce)"
} else {
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    $ns at 0.0 "$ftp start"
}
$ns at $p(stop) "close $packets; close $timeouts; exit 0"
$ns run

# benches/scenarios/thin.toml for ns-2: ns thin.tcl REPLICATION MONITORED

source [file join [file dirname [info script]] common.tcl]
lassign $argv replication monitored

set rng [new RNG]
for {set i 0} {$i < $replication} {incr i} { $rng next-substream }

last_hop 100Mb 64kb 300ms 20 $monitored
download 536 [$rng uniform 0 1] 250000
download 536 [$rng uniform 0 1] 250000

# 100 bytes ten times a second, with the headers of UDP and IP.
set udp [new Agent/UDP]
$udp set packetSize_ 128
$ns attach-agent $server $udp
set null [new Agent/Null]
$ns attach-agent $client $null
$ns connect $udp $null
set cbr [new Application/Traffic/CBR]
$cbr set packetSize_ 128
$cbr set interval_ 0.1
$cbr attach-agent $udp
set start [$rng uniform 0 1]
$ns at $start "$cbr start"
$ns at [expr {$start + 59.95}] "$cbr stop"

$ns at 300 "finish $monitored"
$ns run

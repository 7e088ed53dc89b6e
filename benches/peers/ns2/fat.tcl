# benches/scenarios/fat.toml for ns-2: ns fat.tcl SECONDS MONITORED

source [file join [file dirname [info script]] common.tcl]
lassign $argv seconds monitored

last_hop 10Gb 45Mb 100ms 1057 $monitored
for {set i 0} {$i < 100} {incr i} { download 1024 [expr {$i * 0.05}] 0 }
$ns at $seconds "finish $monitored"
$ns run

use lasthop_core::*;
use lasthop_scenario::Scenario;
use lasthop_sim::*;
use lasthop_trace::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let profile = lasthop_tcp::Profile::Linux24.toml();
    let mut base: toml::Table = toml::from_str(&std::fs::read_to_string(&args[1]).unwrap()).unwrap();
    let mut tcp: toml::Table = toml::from_str(profile).unwrap();
    if let Some(over) = base.get("tcp").and_then(|t| t.as_table()) { for (k, v) in over { tcp.insert(k.clone(), v.clone()); } }
    base.insert("tcp".into(), toml::Value::Table(tcp));
    let s: Scenario = base.try_into().unwrap();
    let n: u64 = args.get(2).map_or(3, |x| x.parse().unwrap());
    let verbose = args.len() > 3;
    let mut memory = HostMemory::default();
    for r in 1..=n {
        let seed = Seed { study: 2003, replication: r };
        let flows: Vec<FlowInfo> = s.flow.iter().map(|f| FlowInfo { name: f.name().into(), protocol: if f.name()=="udp" {Protocol::Udp} else {Protocol::Tcp}, payload: 188640, start: Instant::ZERO }).collect();
        let a = Analysis::new(&flows, RunInfo { rate_Bps: 8000.0, segment_bytes: 524, packet_bytes: 576 });
        struct P(bool);
        impl Observer for P {
            fn packet(&mut self, now: Instant, e: PacketEvent, p: &Packet) { if self.0 { println!("{:.4} {:?} f{} {:?} {} {:?}", now.as_secs_f64(), e, p.flow.0, p.direction, p.serial, p.tcp().map(|t| (t.seq, t.end(), t.ack, t.flags, t.sack.as_slice().iter().map(|b| (b.start, b.end)).collect::<Vec<_>>()))); } }
            fn tcp(&mut self, now: Instant, f: FlowId, h: Host, e: TcpEvent) { if self.0 { println!("{:.4} TCP f{} {:?} {:?}", now.as_secs_f64(), f.0, h, e); } }
        }
        let mut o = (a, P(verbose));
        let end = run(&s, seed, &mut memory, &mut o);
        let (fl, _run) = o.0.finish(end.time);
        for f in fl { println!("rep {r} {} {:?} el {:.3} rx {} unn {} to {}/{} fr {} dup {} tri {} sack {} drq {} red {} err {} ackerr {} cwnd {:?} sp {:?}", f.flow, f.outcome, f.elapsed_s.unwrap_or(-1.0), f.retransmitted_packets, f.unnecessary_retransmissions, f.timeouts, f.spurious_timeouts, f.fast_retransmits, f.duplicate_acks, f.triple_duplicate_acks, f.sack_blocks, f.data_drops_queue, f.data_drops_red, f.data_drops_error, f.ack_drops_error, f.cwnd_max, f.throughput_Bps); }
    }
}

//! Random scenarios: all packets are accounted for, every byte arrives in order, every connection ends, and
//! the records agree with the events.

use crate::random::{self, Streams};
use crate::support::observe;
use lasthop_core::{Direction, DropCause, Duration, Host, Part, Protocol, Seed, TransportEvent};
use lasthop_link::{CourseConfig, Discard, LinkConfig, PathConfig};
use lasthop_scenario::{Flow, Hop, PortSetup, Scenario};
use lasthop_sim::{HostMemory, run};
use lasthop_tcp::Stack;
use lasthop_trace::{Analysis, Conservation, FlowRecord, HopRecord, Outcome, PageRecord, Records, RunRecord};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseResult, TestRunner};

/// Observers of one run.
type Watch = (Analysis, (Conservation, Streams));

proptest! {
    // A failure prints its scenario; nothing is kept on disk.
    #![proptest_config(ProptestConfig {
        cases: 500, failure_persistence: None, ..ProptestConfig::default()
    })]

    // The same test twice, so that two cores share the work.
    #[test]
    fn random_scenarios_keep_every_promise(scenario in random::scenarios(), study in any::<u64>()) {
        keeps_every_promise(&scenario, study)?;
    }

    #[test]
    fn other_random_scenarios_keep_every_promise(scenario in random::scenarios(), study in any::<u64>()) {
        keeps_every_promise(&scenario, study)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2500, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    #[ignore = "long"]
    fn many_random_scenarios_keep_every_promise(scenario in random::scenarios(), study in any::<u64>()) {
        keeps_every_promise(&scenario, study)?;
    }
}

fn keeps_every_promise(scenario: &Scenario, study: u64) -> TestCaseResult {
    let mut memory = HostMemory::default();
    // Two replications, so that cached metrics are read, too.
    for replication in 1..=1 + u64::from(scenario.sequential()) {
        let mut watch: Watch = (Analysis::of(scenario), (Conservation::default(), Streams::new(scenario)));
        let end = run(scenario, Seed { study, replication }, &mut memory, &mut watch);
        let (analysis, (conservation, streams)) = watch;
        let Records { flows, pages, hops, run: record, .. } = analysis.finish(end.time);
        prop_assert!(end.time.as_nanos() < scenario.time_limit.as_nanos(), "still busy at {}", end.time);
        conserved(&conservation, end.packets_inside, &record)?;
        prop_assert_eq!(streams.faults(), &[""; 0]);
        let host_pairs = scenario.host_pairs();
        for ((index, flow), info) in flows.iter().enumerate().zip(scenario.flows()) {
            let pair = &host_pairs[info.application as usize];
            let page = pages.iter().find(|page| page.page == pair.instance.application());
            if page.is_none_or(|page| page.connections_aborted == 0) {
                match info.part {
                    Part::Relayed => relayed(&flows[index..][..3], &streams, index)?,
                    // A side may wait forever if the other one has failed.
                    part if part.is_side() && !other_side_closed(&flows, index, part) => {}
                    // Its receiver may give up when all bytes are there, and then nothing ends the sender.
                    part if part.is_side() && flow.outcome == Outcome::Unfinished => {
                        prop_assert_eq!(streams.receiver_end(index), Some(TransportEvent::Aborted));
                    }
                    _ => ended(flow, &streams, index, info.sends_for.is_some())?,
                }
            }
            consistent(scenario, flow, (&scenario.flow[pair.instance.entry], info.part))?;
        }
        // A browser may wait forever for what the far side of a relay has given up.
        let waits = |page: &&PageRecord| {
            flows.iter().zip(scenario.flows()).any(|(flow, info)| {
                let is_of_it = host_pairs[info.application as usize].instance.application() == page.page;
                is_of_it && info.part.is_side() && flow.outcome != Outcome::Closed
            })
        };
        pages.iter().filter(|page| !waits(page)).try_for_each(page_ended)?;
        // A flow through a relay counts what its sides count.
        let parts = scenario.flows().into_iter().map(|info| info.part);
        let carried = flows.iter().zip(parts).filter(|(_, part)| *part != Part::Relayed);
        let carried: Vec<&FlowRecord> = carried.map(|(flow, _)| flow).collect();
        causes(scenario, &streams, &carried, &record)?;
        at_each_hop(scenario, &hops, &carried, &record)?;
        // Packets delivered after the end of the last flow count in its utilisation, perhaps at another rate.
        // The capacity of a switch or a framed link depends on the packets' lengths, and compressed headers
        // leave more room. HTB lets bursts pass.
        let busy_s = record.utilisation.map_or(0.0, |utilisation| utilisation * record.duration_s);
        let plain = |PathConfig { htb, link, .. }: &PathConfig| {
            let LinkConfig { change, course, framing, header_compression, .. } = link;
            htb.is_none()
                && change.is_empty()
                && course.is_none()
                && framing.is_none()
                && header_compression.is_none()
        };
        let bottleneck = match scenario.flows().first().map(|first| Direction::from(first.sender)) {
            Some(Direction::Up) => &scenario.up,
            _ => &scenario.down,
        };
        prop_assert!(
            !bottleneck.as_ref().is_some_and(plain) || busy_s <= end.time.as_secs_f64(),
            "the bottleneck carries more than it can"
        );
    }
    Ok(())
}

/// The properties mean something only if the scenarios reach the cases that could break them.
#[test]
fn random_scenarios_reach_every_mechanism() {
    let mut runner = TestRunner::deterministic();
    // User code has its own tests, and NATs that drop packets are in front of real programs only.
    let elsewhere = [DropCause::User, DropCause::Nat];
    let causes = DropCause::ALL.iter().filter(|cause| !elsewhere.contains(cause));
    let (mut all, mut drops) = (FlowRecord::default(), vec![0; causes.clone().count()]);
    let (mut aborted, mut through_relays) = (0, 0);
    for study in 0..400 {
        let scenario = random::scenarios().new_tree(&mut runner).expect("no filters").current();
        let watch = (Analysis::of(&scenario), Streams::new(&scenario));
        let ((analysis, streams), end) = observe(&scenario, Seed { study, replication: 1 }, watch);
        drops.iter_mut().zip(causes.clone()).for_each(|(sum, cause)| *sum += streams.drops(*cause));
        let parts = scenario.flows().into_iter().map(|info| info.part);
        for (flow, part) in analysis.finish(end.time).flows.into_iter().zip(parts) {
            through_relays += u64::from(part == Part::Relayed && flow.outcome == Outcome::Closed);
            aborted += u64::from(flow.outcome == Outcome::Aborted);
            all.unnecessary_retransmissions += flow.unnecessary_retransmissions;
            all.spurious_timeouts += flow.spurious_timeouts;
            all.fast_retransmits += flow.fast_retransmits;
            all.undone += flow.undone;
            all.sack_blocks += flow.sack_blocks;
            all.data_marks_ecn += flow.data_marks_ecn;
            all.ack_drops_queue += flow.ack_drops_queue;
        }
    }
    let reached = [
        all.unnecessary_retransmissions,
        all.spurious_timeouts,
        all.fast_retransmits,
        all.undone,
        all.sack_blocks,
        all.data_marks_ecn,
        all.ack_drops_queue,
        aborted,
        through_relays,
    ];
    assert!(reached.iter().chain(&drops).all(|&times| times >= 10), "{reached:?} {drops:?}");
}

/// Sent = delivered + dropped + inside, and the engine's count of packets inside agrees: none at the end.
fn conserved(conservation: &Conservation, inside: usize, record: &RunRecord) -> TestCaseResult {
    prop_assert_eq!(conservation.violations(), &[]);
    let total = conservation.total();
    prop_assert_eq!(total.sent, total.delivered + total.dropped + total.inside);
    prop_assert_eq!(total.inside, inside as u64);
    prop_assert_eq!(inside, 0, "nothing is left to happen, so nothing can be under way");
    prop_assert_eq!(
        (record.packets_sent, record.packets_delivered, record.packets_dropped),
        (total.sent, total.delivered, total.dropped)
    );
    Ok(())
}

/// A page load is complete unless a connection was given up.
fn page_ended(page: &PageRecord) -> TestCaseResult {
    let whole = page.objects_received == page.objects && page.response_time_s.is_some();
    prop_assert_eq!(whole, page.outcome == Outcome::Closed);
    prop_assert!(whole || page.connections_aborted > 0, "{} never ends", page.page);
    Ok(())
}

/// Liveness: every connection is closed or given up, unless a browser waits for a server that has given up. A
/// closed connection means that the receiver has every byte. A sender whose FIN is acknowledged waits for the
/// receiver's FIN without a timer (FIN-WAIT-2); that FIN never comes if the receiver has given up.
fn ended(flow: &FlowRecord, streams: &Streams, index: usize, stops: bool) -> TestCaseResult {
    if flow.protocol == Protocol::Udp {
        prop_assert_eq!(flow.outcome, Outcome::Closed);
        return Ok(());
    }
    let Some(_) = flow.start_s else { return Ok(()) };
    let (received, written) = streams.bytes(index);
    let peer = streams.receiver_end(index);
    prop_assert!(received <= written);
    match flow.outcome {
        Outcome::Closed => prop_assert!(peer.is_some(), "{}: the receiver never ends", flow.flow),
        Outcome::Aborted => return Ok(()),
        Outcome::Unfinished => {
            prop_assert_eq!(peer, Some(TransportEvent::Aborted), "{} never ends", flow.flow);
            if flow.requests.is_some() || flow.segments.is_some() {
                // A server waits for the next request forever, if the client has given up.
                return Ok(());
            }
        }
    }
    prop_assert_eq!(received, written, "{} closed early", flow.flow);
    prop_assert!(flow.elapsed_s.is_some() != stops, "{flow:?}");
    prop_assert!(stops || flow.data_transmit_s <= flow.elapsed_s, "{flow:?}");
    Ok(())
}

/// Where the other side of a relay stands: the peer's comes first.
fn other_side_closed(flows: &[FlowRecord], index: usize, part: Part) -> bool {
    let other = if part == Part::PeerSide { index + 1 } else { index - 1 };
    flows[other].outcome == Outcome::Closed
}

/// A flow that goes through a relay: it closes if both its sides do, and the relay has then passed on each
/// byte, and added none.
fn relayed(flows: &[FlowRecord], streams: &Streams, index: usize) -> TestCaseResult {
    let [whole, sides @ ..] = flows else { unreachable!("it has two sides") };
    let closed = sides.iter().all(|side| side.outcome == Outcome::Closed);
    prop_assert_eq!(whole.outcome == Outcome::Closed, closed, "{}", whole.flow);
    let [one, other] = [1, 2].map(|side| streams.bytes(index + side));
    prop_assert!(!closed || one == other, "{}: {one:?} and {other:?}", whole.flow);
    Ok(())
}

/// Consistency of the fields of one record, of a part of a flow.
fn consistent(scenario: &Scenario, flow: &FlowRecord, (entry, part): (&Flow, Part)) -> TestCaseResult {
    let tcp = scenario.tcp_of_part(entry, part, Host::Server);
    prop_assert!(flow.received_packets <= flow.sent_packets);
    prop_assert!(flow.retransmitted_packets <= flow.sent_packets);
    prop_assert!(flow.unnecessary_retransmissions <= flow.retransmitted_packets);
    prop_assert!(flow.spurious_timeouts <= flow.timeouts);
    prop_assert!(3 * flow.triple_duplicate_acks <= flow.duplicate_acks);
    prop_assert!(
        flow.sack_blocks <= flow.sack_blocks_total && flow.sack_blocks_total <= 4 * flow.sack_blocks
    );
    prop_assert!(tcp.sack || flow.sack_blocks == 0);
    let may_mark = tcp.ecn || flow.protocol == Protocol::Udp;
    prop_assert!(may_mark || flow.data_marks_ecn + flow.ack_marks_ecn == 0);
    prop_assert!(flow.rtt_min_s <= flow.rtt_median_s && flow.rtt_median_s <= flow.rtt_p95_s);
    prop_assert!(flow.rtt_p95_s <= flow.rtt_max_s);
    prop_assert!(flow.queue_delay_min_s <= flow.queue_delay_max_s);
    let propagation = match &scenario.atm {
        Some(atm) => atm.one_way_delay() + atm.one_way_delay(),
        None => least_delay_of_ways(scenario, entry, part),
    };
    let propagation_s = propagation.as_secs_f64();
    // The tick clock measures up to one tick short. Classic senders may take the ACK of a window probe for that
    // of the segment that carries its byte again, as BSD; only a relay closes its window.
    let may_mistake = tcp.stack == Stack::Classic && part.is_side();
    let least_s = if may_mistake { 0.0 } else { propagation_s - tcp.tick.as_secs_f64() };
    prop_assert!(flow.rtt_min_s.is_none_or(|rtt_s| rtt_s >= least_s), "{:?} < {least_s}", flow.rtt_min_s);
    Ok(())
}

/// The shortest delay of the links there and back.
fn least_delay_of_ways(scenario: &Scenario, entry: &Flow, part: Part) -> Duration {
    let (tree, hops) = (scenario.tree(), scenario.hops());
    let ways = [Direction::Down, Direction::Up].map(|way| scenario.route_of(&tree, entry, part, way));
    let delays = ways.iter().flatten().map(|place| {
        let (hop, side) = tree.at(*place);
        match hops[hop].side(side) {
            PortSetup::Link(path) => least_delay(path),
            PortSetup::Medium(setup, _) => setup.delay(),
        }
    });
    delays.fold(Duration::ZERO, |sum, delay| sum + delay)
}

/// The shortest delay of a link over time.
fn least_delay(path: &PathConfig) -> Duration {
    let changes = path.link.change.iter().filter_map(|change| change.delay);
    let course = path.link.course.as_ref().and_then(CourseConfig::table);
    let course = course.map_or_else(String::new, ToString::to_string);
    let delays = course.lines().skip(1).filter_map(|row| row.split(',').nth(2));
    let course = delays.map(|seconds| format!("{seconds} s").parse().unwrap());
    changes.chain(course).fold(path.link.delay, Duration::min)
}

/// What goes into a hop comes out of it or is dropped there, and a flow's drops are those of the hops.
fn at_each_hop(
    scenario: &Scenario,
    hops: &[HopRecord],
    flows: &[&FlowRecord],
    record: &RunRecord,
) -> TestCaseResult {
    prop_assert_eq!(hops.len(), if scenario.hop.is_empty() { 0 } else { 2 * scenario.hop.len() });
    let mut dropped = 0;
    for hop in hops {
        let drops = hop.drops_queue + hop.drops_red + hop.drops_aqm + hop.drops_error;
        dropped += drops;
        let copies =
            scenario.hops().iter().any(|own| own.links().any(|(_, path)| path.link.duplicate.is_some()));
        prop_assert!(copies || hop.packets_in == hop.packets_out + drops, "{:?}", hop);
        prop_assert!(hop.busy_share.is_none_or(|share| share >= 0.0));
    }
    prop_assert!(hops.is_empty() || dropped == record.packets_dropped);
    for flow in flows {
        let of_data = flow.data_drops_queue + flow.data_drops_red + flow.data_drops_aqm;
        let of_data = of_data + flow.data_drops_epd + flow.data_drops_selective + flow.data_drops_error;
        let named = flow.drop_hops.split(", ").filter_map(|part| part.rsplit_once(' '));
        prop_assert_eq!(named.map(|(_, number)| number.parse::<u64>().unwrap()).sum::<u64>(), of_data);
    }
    Ok(())
}

/// Drops add up, and only configured causes occur.
fn causes(
    scenario: &Scenario,
    streams: &Streams,
    flows: &[&FlowRecord],
    record: &RunRecord,
) -> TestCaseResult {
    let sum = |field: fn(&FlowRecord) -> u64| flows.iter().map(|flow| field(flow)).sum::<u64>();
    let queue = sum(|flow| flow.data_drops_queue + flow.ack_drops_queue);
    let red = sum(|flow| flow.data_drops_red + flow.ack_drops_red);
    let aqm = sum(|flow| flow.data_drops_aqm + flow.ack_drops_aqm);
    let error = sum(|flow| flow.data_drops_error + flow.ack_drops_error);
    let early = sum(|flow| flow.data_drops_epd);
    let selective = sum(|flow| flow.data_drops_selective);
    prop_assert_eq!(queue + red + aqm + early + selective + error, record.packets_dropped);
    prop_assert_eq!(early, streams.drops(DropCause::EarlyPacket));
    prop_assert_eq!(selective, streams.drops(DropCause::Selective));
    let at_the_limit =
        [DropCause::QueueOverflow, DropCause::LongestFlow, DropCause::PushedOut, DropCause::Policer];
    prop_assert_eq!(queue, at_the_limit.map(|cause| streams.drops(cause)).iter().sum::<u64>());
    prop_assert_eq!(red, streams.drops(DropCause::Red));
    let managed = [DropCause::CoDel, DropCause::Pie, DropCause::DualPi2, DropCause::AckFilter];
    prop_assert_eq!(aqm, managed.map(|cause| streams.drops(cause)).iter().sum::<u64>());
    let (lost, given_up) = (streams.drops(DropCause::LinkError), streams.drops(DropCause::ArqGivenUp));
    let corrupt = streams.drops(DropCause::Corrupt);
    let behind = streams.drops(DropCause::ReceiveBuffer);
    let headers = streams.drops(DropCause::HeaderCompression);
    let (swallowed, listed) = (streams.drops(DropCause::Blackhole), streams.drops(DropCause::DropList));
    let on_air = streams.drops(DropCause::AirGivenUp);
    prop_assert_eq!(error, lost + given_up + corrupt + behind + headers + swallowed + listed + on_air);
    let hops = scenario.hops();
    let links: Vec<_> = hops.iter().flat_map(|hop| hop.links().map(|(_, path)| &path.link)).collect();
    let any = |has: fn(&LinkConfig) -> bool| links.iter().any(|link| has(link));
    let errors: Vec<_> = links
        .iter()
        .filter_map(|link| link.errors.as_ref())
        .chain(hops.iter().filter_map(Hop::errors))
        .collect();
    let loses = any(|link| link.loss.or(link.bit_error_rate).is_some() || link.gilbert_elliott.is_some());
    prop_assert!(lost == 0 || loses || errors.iter().any(|errors| errors.arq.is_none()));
    prop_assert!(given_up == 0 || errors.iter().any(|errors| errors.arq.is_some()));
    prop_assert!(on_air == 0 || scenario.hop.values().any(|hop| hop.medium.is_some()));
    prop_assert!(headers == 0 || any(|link| link.header_compression.is_some()));
    prop_assert!(behind == 0 || any(|link| link.receive_buffer.is_some()));
    let sides: Vec<_> = hops.iter().flat_map(|hop| hop.links().map(|(_, path)| path)).collect();
    prop_assert!(swallowed == 0 || sides.iter().any(|side| side.blackhole.is_some()));
    prop_assert!(streams.drops(DropCause::Policer) == 0 || sides.iter().any(|side| side.policer.is_some()));
    prop_assert!(listed == 0 || scenario.flow.iter().any(|flow| !flow.drop_list.is_empty()));
    prop_assert!(corrupt == 0 || any(|link| link.corrupt.is_some()));
    match (&scenario.atm, &scenario.down, &scenario.up) {
        (None, Some(down), Some(up)) => {
            prop_assert!(red == 0 || down.queue.red().is_some());
            prop_assert_eq!(early + selective, 0);
            prop_assert!(streams.queue_limit_held(down, Direction::Down));
            prop_assert!(streams.queue_limit_held(up, Direction::Up));
        }
        (None, ..) => prop_assert_eq!(red + early + selective, 0),
        (Some(atm), ..) => {
            prop_assert_eq!(red + aqm + error, 0);
            let by_share = matches!(atm.discard, Discard::Selective { .. });
            prop_assert_eq!(if by_share { early } else { selective }, 0);
        }
    }
    Ok(())
}

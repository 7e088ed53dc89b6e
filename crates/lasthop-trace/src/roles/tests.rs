use super::*;

/// A flow that starts at 0 and sends 1000 bytes. A flow named `page/main` is a connection of the page load
/// `page`.
fn flow(name: &str, protocol: Protocol, outcome: Outcome, elapsed_s: Option<f64>) -> FlowRecord {
    FlowRecord {
        flow: name.to_owned(),
        application: name.split('/').next().unwrap_or_default().to_owned(),
        protocol,
        outcome,
        start_s: Some(0.0),
        elapsed_s,
        throughput_Bps: elapsed_s.map(|elapsed| 1000.0 / elapsed),
        ..FlowRecord::default()
    }
}

fn tcp(name: &str, elapsed_s: f64) -> FlowRecord {
    flow(name, Protocol::Tcp, Outcome::Closed, Some(elapsed_s))
}

fn udp(name: &str) -> FlowRecord {
    flow(name, Protocol::Udp, Outcome::Closed, Some(0.1))
}

fn started<const N: usize>(mut flows: [FlowRecord; N], starts: [f64; N]) -> [FlowRecord; N] {
    for (flow, start) in flows.iter_mut().zip(starts) {
        flow.start_s = Some(start);
    }
    flows
}

fn roles(rule: Roles, flows: &[FlowRecord]) -> Vec<String> {
    Rule { roles: rule, pages: BTreeMap::new(), of_program: false }.assign(flows)
}

#[test]
fn the_faster_of_two_transfers_is_called_so() {
    assert_eq!(roles(Roles::ByElapsed, &[tcp("a", 50.0), tcp("b", 40.0)]), ["tcp-slower", "tcp-faster"]);
    assert_eq!(roles(Roles::ByElapsed, &[tcp("a", 30.0), tcp("b", 60.0)]), ["tcp-faster", "tcp-slower"]);
}

#[test]
fn three_transfers_have_a_medium_one_and_udp_stands_apart() {
    let flows = [tcp("a", 3.0), udp("u"), tcp("b", 1.0), tcp("c", 2.0)];
    assert_eq!(roles(Roles::ByElapsed, &flows), ["tcp-slowest", "udp", "tcp-fastest", "tcp-medium"]);
}

#[test]
fn flows_over_quic_keep_their_names() {
    let quic = flow("q", Protocol::Quic, Outcome::Closed, Some(1.0));
    let call = flow("call", Protocol::QuicDatagrams, Outcome::Closed, None);
    let flows = [quic, tcp("a", 3.0), call, udp("u"), tcp("b", 2.0)];
    assert_eq!(roles(Roles::ByElapsed, &flows), ["q", "tcp-slower", "call", "udp", "tcp-faster"]);
}

#[test]
fn more_transfers_are_ranked_by_number_and_streams_are_numbered() {
    let flows = [tcp("a", 4.0), tcp("b", 1.0), udp("u"), tcp("c", 3.0), udp("v"), tcp("d", 2.0)];
    let expected = ["tcp-rank-4", "tcp-rank-1", "udp-1", "tcp-rank-3", "udp-2", "tcp-rank-2"];
    assert_eq!(roles(Roles::ByElapsed, &flows), expected);
    assert_eq!(
        roles(Roles::ByStart, &flows),
        ["tcp-first", "tcp-second", "udp-1", "tcp-third", "udp-2", "tcp-4"]
    );
}

#[test]
fn a_flow_that_gave_up_early_is_the_slowest() {
    for outcome in [Outcome::Aborted, Outcome::Unfinished] {
        let early = flow("a", Protocol::Tcp, outcome, Some(5.0));
        assert_eq!(roles(Roles::ByElapsed, &[early, tcp("b", 90.0)]), ["tcp-slower", "tcp-faster"]);
    }
}

#[test]
fn a_missing_elapsed_time_ranks_last() {
    let missing = flow("a", Protocol::Tcp, Outcome::Unfinished, None);
    let aborted = flow("b", Protocol::Tcp, Outcome::Aborted, Some(7.0));
    let expected = ["tcp-slowest", "tcp-medium", "tcp-fastest"];
    assert_eq!(roles(Roles::ByElapsed, &[missing, aborted, tcp("c", 8.0)]), expected);
}

#[test]
fn equal_times_keep_the_order_of_the_scenario() {
    assert_eq!(roles(Roles::ByElapsed, &[tcp("a", 8.0), tcp("b", 8.0)]), ["tcp-faster", "tcp-slower"]);
}

#[test]
fn by_start_follows_the_order_of_the_scenario() {
    let flows = [tcp("a", 9.0), udp("u"), tcp("b", 2.0)];
    assert_eq!(roles(Roles::ByStart, &flows), ["tcp-first", "udp", "tcp-second"]);
}

#[test]
fn flows_that_start_together_are_ranked_and_a_late_one_is_named_by_its_place() {
    let flows = [tcp("a", 9.0), tcp("b", 7.0), tcp("c", 5.0)];
    let late = started(flows.clone(), [0.0, 0.05, 5.01]);
    assert_eq!(roles(Roles::ByStartThenElapsed, &late), ["tcp-slower", "tcp-faster", "tcp-third"]);
    let early = started(flows.clone(), [0.0, 5.0, 5.05]);
    assert_eq!(roles(Roles::ByStartThenElapsed, &early), ["tcp-first", "tcp-slower", "tcp-faster"]);
    // The last two start together; the scenario names them in the other order.
    let turned = started(flows, [5.05, 0.0, 5.0]);
    assert_eq!(roles(Roles::ByStartThenElapsed, &turned), ["tcp-slower", "tcp-first", "tcp-faster"]);
}

#[test]
fn together_means_with_the_first_of_them() {
    let flows = started([tcp("a", 9.0), tcp("b", 7.0), tcp("c", 5.0)], [0.0, 0.6, 1.2]);
    assert_eq!(roles(Roles::ByStartThenElapsed, &flows), ["tcp-slower", "tcp-faster", "tcp-third"]);
}

#[test]
fn flows_that_never_start_stand_alone() {
    let mut flows = [tcp("a", 9.0), tcp("b", 7.0)];
    for flow in &mut flows {
        flow.start_s = None;
    }
    assert_eq!(roles(Roles::ByStartThenElapsed, &flows), ["tcp-first", "tcp-second"]);
}

#[test]
fn in_line_objects_are_classed_by_throughput() {
    let aborted = flow("page/inline-1", Protocol::Tcp, Outcome::Aborted, None);
    for (rule, bulk) in [(Roles::ByName, "bulk"), (Roles::ByElapsed, "tcp")] {
        let flows = [tcp("page/main", 3.0), tcp("page/inline-1", 2.0), tcp("page/inline-2", 1.0)];
        assert_eq!(roles(rule, &flows), ["main", "inline-2", "inline-1"]);
        let flows = [tcp("page/main", 1.0), aborted.clone(), tcp("page/inline-2", 5.0), tcp("bulk", 5.0)];
        assert_eq!(roles(rule, &flows), ["main", "inline-2", "inline-1", bulk]);
    }
}

fn pages(names: &[(&str, &str)]) -> BTreeMap<String, String> {
    names.iter().map(|&(name, entry)| (name.to_owned(), entry.to_owned())).collect()
}

#[test]
fn page_loads_of_one_entry_share_their_roles() {
    let pages = pages(&[("web-1", "web"), ("web-2", "web")]);
    let rule = Rule { roles: Roles::ByName, pages, of_program: false };
    assert_eq!(["web-1", "web-2"].map(|page| rule.page(page)), ["web", "web"]);
    let flows = [tcp("web-1/main", 1.0), tcp("web-2/main", 1.0), tcp("web-2/inline-3", 1.0)];
    assert_eq!(rule.assign(&flows), ["web/main", "web/main", "web/inline-1"]);
}

#[test]
fn several_page_loads_stand_before_their_classes_and_shared_connections_keep_their_names() {
    let rule = Rule { roles: Roles::ByName, pages: pages(&[("a", "a"), ("b", "b")]), of_program: false };
    assert_eq!(rule.assign(&[tcp("a/main", 1.0), tcp("b/connection-1", 1.0)]), ["a/main", "b/connection-1"]);
    // This also holds if only one of them got as far as a connection.
    assert_eq!(rule.assign(&[tcp("a/main", 1.0)]), ["a/main"]);
}

#[test]
fn by_name_uses_the_names_of_the_flows() {
    assert_eq!(roles(Roles::ByName, &[tcp("bulk", 9.0), udp("voice")]), ["bulk", "voice"]);
}

#[test]
fn connections_of_a_real_program_keep_their_names() {
    let rule = Rule { roles: Roles::ByName, pages: BTreeMap::new(), of_program: true };
    let flows = ["tcp-1", "tcp-2"].map(|name| FlowRecord { application: "curl".into(), ..tcp(name, 1.0) });
    assert_eq!(rule.assign(&flows), ["tcp-1", "tcp-2"]);
}

#[test]
fn clients_that_are_all_alike_share_a_role() {
    for rule in [Roles::ByName, Roles::ByElapsed] {
        let flows = ["client-1", "client-2", "client-1b"].map(|name| {
            let unfinished = flow(name, Protocol::Tcp, Outcome::Unfinished, None);
            FlowRecord { application: "client".to_owned(), ..unfinished }
        });
        assert_eq!(roles(rule, &flows), ["client"; 3]);
    }
}

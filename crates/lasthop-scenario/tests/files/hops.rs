//! Hops and hosts with names: what is assumed, and what cannot be.

use lasthop_core::{Direction, FlowId, Host, Part, QueueSize, Seed};
use lasthop_scenario::{HopConfig, Scenario};

use crate::support::{errors, read};

const HOME: &str = r#"
[hop.cable]
down = { link = { rate = "10 Mbit/s", delay = "8 ms" } }
up.link.rate = "1 Mbit/s"

[hop.wifi]
behind = "cable"
down = { link = { rate = "60 Mbit/s", delay = "2 ms" } }

[host.laptop]
behind = "wifi"
"#;

const FLOW: &str = "[[flow]]\nkind = \"bulk-tcp\"\nname = \"photos\"\nbytes = \"1 MB\"\n";

fn scenario(text: &str) -> Scenario {
    read(text).cells.remove(0).scenario
}

#[test]
fn each_hop_is_completed_like_the_hop_of_a_scenario_that_has_one() {
    let cell = read(&format!("{HOME}{FLOW}")).cells.remove(0);
    let [cable, wifi] = ["cable", "wifi"].map(|hop| &cell.scenario.hop[hop]);
    let down = |hop: &HopConfig| hop.side(Direction::Down).cloned().unwrap();
    assert_eq!(cable.side(Direction::Up).unwrap().link.delay, down(cable).link.delay);
    assert_eq!(wifi.side(Direction::Up), Some(&down(wifi)));
    // The round trip is 20 ms.
    assert_eq!(down(cable).queue.limit, QueueSize::Packets(17));
    assert_eq!(down(wifi).queue.limit, QueueSize::Packets(100));
    let why = |key: &str| cell.assumed.iter().find(|one| one.key == key).unwrap().why.clone();
    assert_eq!(why("hop.wifi.up"), "a copy of [down]");
    assert!(why("hop.wifi.down.queue.limit").contains("60 Mbit/s x 20 ms of photos"));
}

#[test]
fn a_hosts_tcp_lies_between_that_of_all_and_that_of_a_flow() {
    let tcp =
        "[tcp]\nprofile = \"linux-6\"\n[host.laptop.tcp]\nsack = false\ncongestion_control = \"reno\"\n";
    let own = format!("{FLOW}{}tcp.congestion_control = \"cubic\"\n", FLOW.replace("photos", "own"));
    let scenario = scenario(&format!("{HOME}{tcp}{own}"));
    let at = |flow: usize, end| scenario.tcp_at(&scenario.flow[flow], end);
    let shown = |flow, end| (at(flow, end).sack, format!("{:?}", at(flow, end).congestion_control));
    assert_eq!(shown(0, Host::Client), (false, "Reno".into()));
    assert_eq!(shown(0, Host::Server), (true, "Cubic".into()));
    assert_eq!(shown(1, Host::Client), (false, "Cubic".into()));
}

#[test]
fn the_bottleneck_is_the_slowest_hop_of_each_direction_or_the_one_that_is_marked() {
    let name = |text: &str| {
        let scenario = scenario(text);
        let tree = scenario.tree();
        let names: Vec<&str> = tree.names().collect();
        scenario.bottlenecks().map(|place| names[tree.at(place).0].to_owned())
    };
    assert_eq!(name(&format!("{HOME}{FLOW}")), ["cable", "cable"]);
    let marked = HOME.replace("behind = \"cable\"", "behind = \"cable\"\nbottleneck = true");
    assert_eq!(name(&format!("{marked}{FLOW}")), ["wifi", "wifi"]);
}

#[test]
fn a_network_has_as_many_parts_as_there_are_numbers() {
    let flow = |number| format!("{}count = 1000\n", FLOW.replace("photos", &format!("flow-{number}")));
    let flows = (0..33).map(flow).collect::<Vec<_>>().concat();
    let errors = errors(&format!("{HOME}{flows}"));
    assert!(
        errors.iter().any(|error| error.to_string().contains("the network has 66005 parts")),
        "{errors:#?}"
    );
}

#[test]
fn what_does_not_hang_together_is_said_with_the_place_and_the_nearest_name() {
    let home = |from: &str, to: &str| format!("{}{FLOW}", HOME.replace(from, to));
    let flow = |keys: &str| format!("{HOME}[host.tv]\nbehind = \"cable\"\n{FLOW}{keys}\n");
    for (text, wanted) in [
        (
            home("behind = \"cable\"", "behind = \"cabel\""),
            "`hop.wifi.behind`: there is no hop \"cabel\"; did you mean `cable`?",
        ),
        (home("[hop.cable]", "[hop.cable]\nbehind = \"cable\""), "the hops form a loop"),
        (home("behind = \"wifi\"", "behind = \"wify\""), "`host.laptop.behind`: there is no hop \"wify\""),
        (home("behind = \"wifi\"", "behind = [\"wifi\", \"wifi\"]"), "\"wifi\" is listed twice"),
        (home("behind = \"wifi\"", "behind = []"), "the list is empty"),
        (home("[host.laptop]", "[host.server]"), "`host.server`: \"server\" is the name of the default peer"),
        (
            home("[hop.wifi]", "[hop.\"wi fi\"]").replace("= \"wifi\"", "= \"wi fi\""),
            "a name may contain only letters, digits, - and _",
        ),
        (
            flow(""),
            "`flow[0].host`: there are several hosts; name the one at the edge (accepted: laptop, tv)",
        ),
        (flow("host = \"latop\""), "there is no host \"latop\"; did you mean `laptop`?"),
        (flow("host = \"tv\"\npeer = \"tv\""), "`flow[0].peer`: a host cannot be its own peer"),
        (flow("host = \"tv\"\nvia = \"wifi\""), "`flow[0].via`: the host has no path through \"wifi\""),
        (
            flow("host = \"tv\"\npeer = \"laptop\"\naccess.delay = \"1 ms\""),
            "`flow[0].access`: an access link needs a flow without `peer`",
        ),
        (
            format!("{HOME}{FLOW}[down.link]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n"),
            "move it to [hop.NAME.down]",
        ),
        (
            format!("{FLOW}host = \"phone\"\n[down.link]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n"),
            "there is no host \"phone\"",
        ),
        (format!("{FLOW}[host.phone]\n"), "named hosts need a hop"),
        (format!("{HOME}[medium]\nkind = \"wifi\"\n{FLOW}"), "move it to [hop.NAME.medium]"),
        (
            home("behind = \"cable\"", "behind = \"cable\"\nrouter.implementation = \"linux\""),
            "a scenario with a single hop",
        ),
    ] {
        let errors: Vec<String> = errors(&text).iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error.contains(wanted)), "wanted {wanted:?}, got {errors:#?}");
    }
}

/// Both grammars describe the same hop and hosts; paths in messages are those of the file.
#[test]
fn a_medium_hosts_and_a_relay_need_no_names_of_hops() {
    let link = "link = { rate = \"1 Mbit/s\", delay = \"1 ms\" }";
    for (short, long) in [
        (
            format!("medium = {{ kind = \"wifi\" }}\n{FLOW}"),
            format!("hop.last-hop.medium = {{ kind = \"wifi\" }}\nhost.client.behind = \"last-hop\"\n{FLOW}"),
        ),
        (
            format!("medium = {{ kind = \"cell\" }}\nhost.ue.cell.rate = \"9 Mbit/s\"\n{FLOW}"),
            format!(
                "hop.last-hop.medium = {{ kind = \"cell\" }}\n\
                 host.ue = {{ behind = \"last-hop\", cell.rate = \"9 Mbit/s\" }}\n{FLOW}"
            ),
        ),
        (
            format!(
                "down = {{ {link} }}\nerrors = {{ good = \"1 s\", bad = \"1 s\", packet_error_probability = 0.5 }}\n{FLOW}relay = {{}}\n"
            ),
            format!(
                "hop.last-hop = {{ down = {{ {link} }}, errors = {{ good = \"1 s\", bad = \"1 s\", packet_error_probability = 0.5 }} }}\n\
                 host.client.behind = \"last-hop\"\n{FLOW}relay.at = \"last-hop\"\n"
            ),
        ),
    ] {
        let [short, long] = [short, long].map(|text| read(&text).cells.remove(0).scenario);
        assert_eq!(short, long);
        let seed = Seed { study: 7, replication: 1 };
        assert_eq!(short.seed_of("last-hop", seed), seed);
    }
    let wrong = format!(
        "medium.kind = \"wifi\"\nerrors = {{ good = \"1 s\", bad = \"1 s\", packet_error_probability = 0.5 }}\n{FLOW}"
    );
    let errors: Vec<String> = errors(&wrong).iter().map(ToString::to_string).collect();
    assert!(errors[0].contains("`errors`: applies to a link, but the hop has a medium"), "{errors:?}");
}

#[test]
fn several_hosts_may_be_behind_linux_router() {
    let codel = "queue = { discipline = \"codel\", limit = \"100 packets\" }";
    let link = "link = { rate = \"1 Mbit/s\", delay = \"1 ms\", release = \"serialised\" }";
    let home = |queue: &str, keys: &str| {
        format!(
            "router.implementation = \"linux\"\ndown = {{ {queue}, {link} }}\nup = {{ {codel}, {link} }}\n{keys}\n\
             [host.laptop]\n[host.tv]\n{FLOW}host = \"tv\"\n"
        )
    };
    let cell = read(&home(codel, "")).cells.remove(0);
    assert!(cell.scenario.has_linux_router() && cell.needs_model().is_ok());
    assert_eq!(cell.scenario.behind_linux().map(|[down, _]| down.link.delay.as_nanos()), Some(1_000_000));
    assert_eq!(cell.scenario.linux_loss(), None);
    let loss = "errors = { good = \"0 s\", bad = \"1 s\", packet_error_probability = 0.5 }";
    let netem = read(&home("queue.limit = \"9 packets\"", "")).cells.remove(0);
    let refused = netem.needs_model().unwrap_err().to_string();
    assert!(refused.contains("`router.implementation`"), "{refused}");
    for (text, wanted) in [
        (home("queue.limit = \"5 kB\"", ""), "`down.queue.limit`: Linux counts packets"),
        (home(codel, loss), "packets cannot be lost"),
        (
            format!("router.implementation = \"linux\"\nmedium.kind = \"wifi\"\n{FLOW}"),
            "Linux' router has a link, but the hop has a medium",
        ),
    ] {
        let errors: Vec<String> = errors(&text).iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error.contains(wanted)), "wanted {wanted:?}, got {errors:#?}");
    }
}

/// The host of [`HOME`] with two ways, and a flow over MPTCP.
fn multipath(keys: &str) -> String {
    let home = HOME.replace("behind = \"wifi\"", "behind = [\"wifi\", \"cable\"]");
    format!("{home}{FLOW}stack = \"mptcp\"\n{keys}\n")
}

#[test]
fn mptcp_has_a_subflow_for_each_way_of_its_host() {
    let cell = read(&multipath("via = \"cable\"\nmptcp.backup = [\"wifi\"]")).cells.remove(0);
    let scenario = &cell.scenario;
    let flows = scenario.flows();
    let parts: Vec<_> = flows.iter().map(|flow| (flow.name.as_str(), flow.part)).collect();
    let subflow = |way| Part::Subflow { of: FlowId(0), way };
    assert_eq!(parts, [("photos", Part::Whole), ("photos/wifi", subflow(0)), ("photos/cable", subflow(1))]);
    let tree = scenario.tree();
    let routes = scenario.routes(&tree, &scenario.flow[0], Part::Whole, Direction::Up);
    assert_eq!(routes.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1], "the Wi-Fi is behind the cable");
    let error = cell.needs_model().unwrap_err().to_string();
    assert!(error.contains("`flow[0].stack`") && error.contains("use --engine kernel"), "{error}");
}

#[test]
fn mptcp_without_what_it_needs_is_refused() {
    for (text, wanted) in [
        (format!("{HOME}{FLOW}stack = \"mptcp\"\n"), "several paths to a host, but \"laptop\" has one"),
        (
            multipath("mptcp.backup = [\"lte\"]"),
            "`flow[0].mptcp.backup`: the host has no path through \"lte\"",
        ),
        (multipath("").replace("stack = \"mptcp\"", "mptcp.stale_loss_cnt = 1"), "add stack = \"mptcp\""),
        (
            multipath("").replace(
                "bulk-tcp\"\nname = \"photos\"\nbytes = \"1 MB\"",
                "constant-udp\"\nname = \"photos\"\nrate = \"1 Mbit/s\"\npayload = \"160 B\"\n\
                 duration = \"4 s\"",
            ),
            "\"mptcp\" supports kind = \"bulk-tcp\"",
        ),
        (multipath("migrate = { at = \"1 s\", via = \"cable\" }"), "only QUIC can migrate"),
    ] {
        let errors: Vec<String> = errors(&text).iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error.contains(wanted)), "wanted {wanted:?}, got {errors:#?}");
    }
}

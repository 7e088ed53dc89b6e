//! Flows of kind `transfer`: which flows of engines they become, and what they refuse.

use lasthop_core::{Direction, Seed};
use lasthop_scenario::{Cell, FlowStack};
use lasthop_traffic::{FlowConfig, NatPlace, ProgramConfig};

use crate::support::{error, read};

const LINK: &str = "[down.link]\nrate = \"1 Mbit/s\"\ndelay = \"50 ms\"\n";
const MINE: &str = "[stack.mine]\nendpoint = \"./run.sh\"\nclient = \"./client\"\nenv = { A = \"b\" }\n";
const HOME: &str = "[hop.dsl.down.link]\nrate = \"1 Mbit/s\"\ndelay = \"5 ms\"\n[host.tv]\nbehind = \"dsl\"\n\
                    [host.pc]\nbehind = \"dsl\"\n";

/// A transfer with this stack and these further keys.
fn transfer(stack: &str, keys: &str) -> String {
    format!("[[flow]]\nkind = \"transfer\"\nstack = \"{stack}\"\n{keys}\n")
}

fn program(cell: &Cell) -> &ProgramConfig {
    cell.scenario.real_program().expect("real programs carry it")
}

#[test]
fn transfers_by_built_in_stacks_are_bulk_transfers() {
    let flows =
        [transfer("quinn", "objects = [\"1 MB\"]"), transfer("tcp", "bytes = \"2 MB\"\ndirection = \"up\"")];
    let study = read(&format!("{LINK}{}", flows.concat()));
    let flows = &study.cells[0].scenario.flow;
    assert_eq!([flows[0].stack, flows[1].stack], [FlowStack::Quic, FlowStack::Tcp]);
    for (flow, name, bytes) in [(&flows[0], "transfer-1", 1_000_000), (&flows[1], "transfer-2", 2_000_000)] {
        let FlowConfig::BulkTcp(bulk) = &flow.kind else { panic!("{flow:?}") };
        assert_eq!((bulk.name.as_str(), bulk.bytes.unwrap().0), (name, bytes));
    }
}

#[test]
fn a_foreign_stack_makes_all_transfers_programs() {
    let text =
        [transfer("mine", "bytes = \"1 MB\""), transfer("tcp", "bytes = \"1 MB\"\nstart = \"2 s\"")].concat();
    let quinn = transfer("quinn", "bytes = \"1 MB\"");
    let study = read(&format!("{LINK}{text}{quinn}{MINE}[tcp]\ncongestion_control = \"reno\"\n"));
    let [mine, tcp, quinn] = &program(&study.cells[0]).transfers[..] else { panic!("three transfers") };
    assert_eq!(quinn.stack, "quinn-example");
    assert_eq!((mine.client.as_deref(), mine.server.as_deref()), (Some("./client"), Some("./run.sh")));
    assert_eq!(mine.env["A"], "b");
    assert_eq!((mine.name.as_str(), mine.testcase.as_str()), ("transfer-1", "transfer"));
    assert_eq!(
        (tcp.start.most().as_nanos(), tcp.congestion_control.as_deref()),
        (2_000_000_000, Some("reno"))
    );
    assert!(study.cells[0].needs_model().unwrap_err().message.contains("`flow[0].stack`: \"mine\""));
}

#[test]
fn a_level_changes_a_stack_or_chooses_another() {
    let text = transfer("mine", "name = \"x\"\nbytes = \"1 MB\"");
    let levels = "[factor.version.old]\nstack.mine.client = \"./old\"\n[factor.version.new]\n\
                  [factor.version.ours]\nflow.x.stack = \"quinn\"\n";
    let study = read(&format!("{LINK}{text}{MINE}{levels}"));
    let clients: Vec<_> =
        study.cells[..2].iter().map(|cell| program(cell).transfers[0].client.clone()).collect();
    assert_eq!(clients, [Some("./old".to_owned()), Some("./client".to_owned())]);
    assert!(study.cells[2].scenario.real_program().is_none());
}

#[test]
fn a_table_gives_an_adapter_another_name_so_that_built_in_stacks_run_as_programs() {
    let text = transfer("linux", "bytes = \"1 MB\"\ntcp.congestion_control = \"reno\"");
    let study = read(&format!("{LINK}{text}[stack.linux]\nadapter = \"tcp\"\n"));
    let [linux] = &program(&study.cells[0]).transfers[..] else { panic!("one transfer") };
    assert_eq!((linux.stack.as_str(), linux.congestion_control.as_deref()), ("tcp", Some("reno")));
}

#[test]
fn a_transfer_of_some_seconds_has_a_file_as_large_as_the_path_carries() {
    let flow = transfer("mine", "name = \"x\"\ncount = 2\nduration = \"8 s\"\nhost = \"tv\"");
    let start = "[flow.start]\ndistribution = \"uniform\"\nmin = \"1 s\"\nmax = \"2 s\"\n";
    let far = "[hop.far]\nbehind = \"dsl\"\ndown.link = { rate = \"9 Mbit/s\", delay = \"0 ms\" }\n[host.den]\nbehind = \"far\"\n";
    let study = read(&format!("{flow}{start}{HOME}{far}{MINE}"));
    let scenario = &study.cells[0].scenario;
    let names: Vec<_> = program(&study.cells[0]).transfers.iter().map(|own| own.name.as_str()).collect();
    assert_eq!(names, ["x-1", "x-2"]);
    let plan = |replication| scenario.transfers(Seed { study: 1, replication });
    let [(first, bytes), (second, _)] = plan(1)[..] else { panic!("two transfers") };
    // 1 Mbit/s for 8 s.
    assert_eq!(bytes, Some(1_000_000));
    let differ = |one: f64, other: f64| (one - other).abs() > 1e-6;
    assert!(differ(first, second) && (1.0..2.0).contains(&first) && (1.0..2.0).contains(&second));
    assert!(differ(plan(2)[0].0, first));
}

#[test]
fn a_port_changes_once_or_again_and_again() {
    for (every, expected) in [("", &[2][..]), (", every = \"5 s\"", &[2, 7, 12])] {
        let keys = format!("bytes = \"1 MB\"\nrebind = {{ at = \"2 s\"{every} }}\ndirection = \"up\"");
        let study = read(&format!("time_limit = \"17 s\"\n{LINK}{}", transfer("quinn", &keys)));
        let scenario = &study.cells[0].scenario;
        let at: Vec<_> =
            scenario.moves(&scenario.flow[0]).at.iter().map(|at| at.as_nanos() / 1_000_000_000).collect();
        assert_eq!(at, expected);
    }
    let keys = "bytes = \"1 MB\"\nrebind = { at = \"1 s\", nat = \"server\" }";
    let study = read(&format!("{LINK}{}{MINE}", transfer("mine", keys)));
    let rebind = program(&study.cells[0]).transfers[0].rebind.as_ref();
    assert_eq!(rebind.map(|rebind| rebind.nat), Some(NatPlace::Server));
}

#[test]
fn the_server_of_an_upload_is_at_the_edge() {
    let text = transfer("mine", "duration = \"8 s\"\ndirection = \"up\"");
    let hop =
        "[hop.dsl]\ndown.link = { rate = \"9 Mbit/s\", delay = \"5 ms\" }\nup.link.rate = \"1 Mbit/s\"\n";
    let study = read(&format!("{text}{hop}[host.tv]\nbehind = \"dsl\"\n{MINE}"));
    let [upload] = &program(&study.cells[0]).transfers[..] else { panic!("one transfer") };
    assert_eq!((upload.direction, upload.host.as_deref()), (Direction::Up, Some("tv")));
    let plan = study.cells[0].scenario.transfers(Seed { study: 1, replication: 1 });
    assert_eq!(plan[0].1, Some(1_000_000));
}

#[test]
fn a_transfer_names_its_client_if_there_are_several_hosts() {
    let text = transfer("mine", "bytes = \"1 MB\"\nhost = \"tv\"");
    let study = read(&format!("{text}{HOME}{MINE}"));
    assert_eq!(program(&study.cells[0]).transfers[0].host.as_deref(), Some("tv"));
    let wrong = error(&format!("{}{HOME}{MINE}", transfer("mine", "bytes = \"1 MB\""))).to_string();
    assert!(wrong.contains("`flow[0].host`: there are several hosts") && wrong.contains("pc, tv"), "{wrong}");
}

#[test]
fn what_programs_cannot_do_is_refused_by_name() {
    let bytes = "bytes = \"1 MB\"";
    let bulk = "[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 MB\"\n";
    for (text, line, parts) in [
        (
            transfer("mine", "direction = \"up\"\nbytes = \"1 MB\"\ncount = 2"),
            9,
            ["flow[0].count", "one of them can upload"],
        ),
        (
            transfer("mine", "direction = \"up\"\nbytes = \"1 MB\"").repeat(2),
            12,
            ["flow[1].direction", "already uploads from this host"],
        ),
        (transfer("mine", "direction = \"both\"\nbytes = \"1 MB\""), 7, ["flow[0].direction", "both"]),
        (
            transfer("mine", "direction = \"up\"\nbytes = \"1 MB\"\nrebind = { at = \"1 s\" }"),
            9,
            ["flow[0].rebind", "behind no NAT"],
        ),
        (transfer("mine", bytes) + bulk, 9, ["flow[1].kind", "stack = \"tcp\""]),
        (
            transfer("mine", "bytes = \"1 MB\"\ndscp = \"EF\""),
            6,
            ["flow[0].stack", "`dscp` applies to built-in"],
        ),
        (transfer("mine", "bytes = \"1 MB\"\nobjects = [\"1 MB\"]"), 7, ["flow[0].bytes", "either"]),
        (transfer("mine", "bytes = \"1 MB\"\nduration = \"1 s\""), 7, ["flow[0].bytes", "either"]),
        (
            transfer("mine", "bytes = \"1 MB\"\nrebind = { at = \"1 s\", every = \"10 ms\" }"),
            8,
            ["flow[0].rebind.every", "from \"1 s\" to"],
        ),
        (
            transfer(
                "quinn",
                "bytes = \"1 MB\"\nrebind = { at = \"1 s\", nat = \"server\" }\ndirection = \"up\"",
            ),
            8,
            ["flow[0].rebind", "leave out nat"],
        ),
        (transfer("mine", "duration = \"0 s\""), 7, ["flow[0].duration", "30 s"]),
        (transfer("mine", "bytes = \"1 MB\"\ncount = 201"), 8, ["flow[0].count", "from 1 to 200"]),
        (transfer("mine", "objects = [\"1 MB\", \"0 B\"]"), 7, ["flow[0].objects[1]", "out of range"]),
        (transfer("mine", "bytes = \"1 MB\"\nname = \"My flow\""), 8, ["flow[0].name", "host name"]),
        (transfer("quinn", "objects = [\"1 MB\", \"1 B\"]"), 7, ["flow[0].objects", "write bytes instead"]),
        (
            transfer("tcp", "bytes = \"1 MB\"\ntestcase = \"http3\""),
            8,
            ["flow[0].testcase", "only have \"transfer\""],
        ),
        (transfer("mine", "byte = \"1 MB\""), 7, ["flow[0].byte`", "did you mean `bytes`?"]),
    ] {
        let shown = error(&format!("{LINK}{text}{MINE}")).to_string();
        assert!(shown.starts_with(&format!("f.toml:{line}: ")), "{shown}");
        assert!(parts.iter().all(|part| shown.contains(part)), "{parts:?} {shown}");
    }
    let shown = error(&format!("{LINK}{}[stack.tcp]\nclient = \"x\"\n", transfer("tcp", bytes))).to_string();
    assert!(shown.contains("quinn and tcp are built in"), "{shown}");
}

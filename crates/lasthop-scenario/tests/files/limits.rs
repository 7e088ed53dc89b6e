//! Files that are too large, files with too many faults, and the estimated cost of a run.

use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lasthop_scenario::{Estimate, Study};

use crate::support::{SHORT, errors, read};

const LINK: &str = "[down.link]\nrate = \"1 Mbit/s\"\ndelay = \"50 ms\"\n";

/// Time limit of a test: linear work takes seconds and stays below it even on a busy machine; quadratic work
/// takes hours.
const SOON: Duration = Duration::from_secs(600);

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("lasthop-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A line for each number.
fn lines(numbers: Range<u32>, line: impl Fn(u32) -> String) -> String {
    numbers.map(|number| line(number) + "\n").collect()
}

#[test]
fn pipes_and_devices_are_refused_where_a_file_is_named_and_links_to_files_are_not() {
    let folder = folder("pipes");
    let file = |name: &str| folder.join(name);
    assert!(Command::new("mkfifo").arg(file("pipe")).status().unwrap().success());
    let wrong = |path: &Path| Study::from_path(path).unwrap_err().to_string();
    for path in [&file("pipe"), Path::new("/dev/zero")] {
        let name = path.display();
        assert!(wrong(path).contains("this is a pipe or a device, not a regular file"), "{name}");
        for text in [
            format!("extends = \"{name}\"\n"),
            format!("{SHORT}[down]\nlink.trace = \"{name}\"\n").replace("[down.link]", "[up.link]"),
            format!("{LINK}[[flow]]\nkind = \"replay\"\nfile = \"{name}\"\n"),
        ] {
            std::fs::write(file("study.toml"), &text).unwrap();
            assert!(wrong(&file("study.toml")).contains("this is a pipe or a device"), "{text}");
        }
    }
    std::fs::write(file("study.toml"), SHORT).unwrap();
    symlink(file("study.toml"), file("link.toml")).unwrap();
    assert_eq!(Study::from_path(&file("link.toml")).unwrap().name, "link");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn many_flows_written_one_by_one_are_read_in_a_time_that_grows_as_their_number() {
    let began = Instant::now();
    let flow = "[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 B\"\n";
    let study = read(&format!("{LINK}{}", flow.repeat(20_000)));
    assert_eq!(study.cells[0].scenario.flow[19_999].traffic().name(), "bulk-tcp-20000");
    let stream = |index: u32| {
        format!(
            "[[flow]]\nkind = \"constant-udp\"\nrate = \"8 bit/s\"\npayload = \"1 B\"\nduration = \"1 s\"\n\
             start = \"{index} s\"\n"
        )
    };
    let streams: String = (0..5_000).map(stream).collect();
    assert_eq!(read(&format!("{LINK}{streams}")).cells[0].scenario.flow.len(), 5_000);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn many_hops_are_read_in_a_time_that_grows_as_their_number() {
    let began = Instant::now();
    let end = "[host.a]\nbehind = \"hop-0\"\n[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 B\"\n";
    let link = "down.link = { rate = \"1 Mbit/s\", delay = \"1 ms\" }";
    for behind in ["", "behind = "] {
        let hop = |number: u32| {
            let next = format!("{behind}\"hop-{}\"", number + 1);
            let is_inner = !behind.is_empty() && number < 3_999;
            format!("[hop.hop-{number}]\n{}\n{link}", if is_inner { next } else { String::new() })
        };
        let text = lines(0..4_000, hop) + end;
        assert_eq!(read(&text).cells[0].scenario.hop.len(), 4_000);
        let looped = text.replace("[hop.hop-3999]\n", "[hop.hop-3999]\nbehind = \"hop-0\"\n");
        let wrong = if behind.is_empty() { Vec::new() } else { errors(&looped) };
        assert!(wrong.iter().all(|error| error.message.contains("form a loop")), "{wrong:#?}");
        assert_eq!(wrong.is_empty(), behind.is_empty());
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_long_chain_of_files_is_read_in_a_time_that_grows_as_its_length() {
    let folder = folder("chain");
    let read = |length: u32| {
        for number in 0..length {
            let text = format!("extends = \"{}.toml\"\n", number + 1);
            std::fs::write(folder.join(format!("{number}.toml")), text).unwrap();
        }
        std::fs::write(folder.join(format!("{length}.toml")), SHORT).unwrap();
        let began = Instant::now();
        assert_eq!(Study::from_path(&folder.join("0.toml")).unwrap().name, "0");
        began.elapsed()
    };
    let (short, long) = (read(300), read(3_000));
    assert!(long < 40 * short, "{short:?} {long:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_name_has_an_end() {
    let long = "n".repeat(201);
    for text in [
        format!("{SHORT}name = \"{long}\"\n"),
        format!("{SHORT}[factor.{long}.a]\n"),
        format!("{SHORT}[factor.a.{long}]\n"),
        format!("[hop.{long}]\n{SHORT}"),
    ] {
        let wrong = errors(&text);
        assert!(
            wrong[0].message.contains("has 201 characters") && wrong[0].message.len() < 400,
            "{wrong:#?}"
        );
    }
    let name = &long[1..];
    assert_eq!(read(&format!("{SHORT}name = \"{name}\"\n")).cells[0].scenario.flow[0].traffic().name(), name);
}

#[test]
fn of_very_many_wrong_keys_a_thousand_are_told() {
    let began = Instant::now();
    let keys = lines(0..50_000, |key| format!("key-{key} = 1"));
    let found = errors(&format!("{keys}{SHORT}"));
    assert_eq!(found.len(), 1001);
    assert!(found[0].message.contains("1000 errors or more"), "{}", found[0]);
    let flows = "[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"0 B\"\n".repeat(10_000);
    assert_eq!(errors(&format!("{LINK}{flows}")).len(), 1000);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn more_factors_levels_combinations_or_values_than_can_be_read_are_refused() {
    let wrong = |text: &str| errors(text)[0].message.clone();
    let factors = lines(0..101, |number| format!("[factor.f{number}.only]"));
    assert!(wrong(&format!("{SHORT}{factors}")).contains("there are 101 factors, but at most 100"));
    let level = |number| format!("[factor.f.l{number}]");
    let levels = lines(0..10_001, level);
    assert!(wrong(&format!("{SHORT}{levels}")).contains("more than 10000 cells"));
    let levels = lines(0..5_000, level);
    let blocks = "[[matrix]]\n".repeat(201);
    assert!(wrong(&format!("{SHORT}{levels}{blocks}")).contains("more than 10000 cells"));
    let flows = "[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 B\"\n".repeat(300);
    let long = wrong(&format!("{LINK}{flows}{levels}"));
    assert!(long.contains("5000 cells of up to") && long.contains("more than 4000000"), "{long}");
}

fn estimate(text: &str) -> Estimate {
    read(text).cells[0].scenario.estimate()
}

#[test]
fn what_a_run_may_take_follows_what_it_offers_and_what_its_links_carry() {
    // 1 MB are some 700 segments, half of them sent twice, each acknowledged.
    let plain = estimate(SHORT).packets;
    assert!((1_400.0..6_000.0).contains(&plain), "{plain}");
    let much = SHORT.replace("1 MB", "1000000 GB");
    // 1 Mbit/s in 11 days.
    let carried = 1e6 * 1e6 / 8.0 / 1500.0;
    assert!((carried..6.0 * carried).contains(&estimate(&much).packets));
    let short = estimate(&format!("time_limit = \"10 s\"\n{much}")).packets;
    assert!((833.0..6_000.0).contains(&short), "{short}");
    let on_off = |on: &str| {
        let times = format!("on = \"{on}\"\noff = \"0 s\"\n");
        estimate(&format!(
            "{LINK}[[flow]]\nkind = \"on-off\"\nrate = \"1 kbit/s\"\n{times}duration = \"60 s\"\n"
        ))
        .packets
    };
    assert!(on_off("1 s") < 1e3 && on_off("1 ns") > 60e9, "{} {}", on_off("1 s"), on_off("1 ns"));
    let errors = "[errors]\ngood = \"1 ns\"\nbad = \"1 ns\"\npacket_error_probability = 0.5\n";
    assert!(estimate(&format!("{SHORT}{errors}")).packets > 50e9);
}

#[test]
fn a_flow_sends_no_more_than_the_slowest_hop_on_its_route_carries() {
    let network = |rate: &str| {
        let link = |rate| format!("{{ rate = \"{rate}\", delay = \"10 ms\" }}");
        let hop = |name: &str, rate| {
            format!("[hop.{name}]\ndown.link = {}\nup.link = {}\n", link(rate), link(rate))
        };
        let hosts = "behind = \"core\"\n[host.phone]\nbehind = \"cell\"\n";
        let flow = "[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1000 GB\"\nhost = \"phone\"\n";
        estimate(&format!(
            "time_limit = \"10 s\"\n{}{}{hosts}{flow}",
            hop("core", rate),
            hop("cell", "1 Mbit/s")
        ))
        .packets
    };
    let carried = 10.0 * 1e6 / 8.0 / 1500.0;
    // Two hops; each packet is sent twice and acknowledged.
    assert!((carried..9.0 * carried).contains(&network("100 Mbit/s")), "{}", network("100 Mbit/s"));
    assert!((network("100 Mbit/s") - network("1 Mbit/s")).abs() < 1.0);
}

#[test]
fn what_a_run_keeps_in_memory_follows_windows_queues_and_flows() {
    let memory = |text: &str| estimate(text).memory;
    assert!(memory(SHORT) < 2e6, "{}", memory(SHORT));
    let window = |segments: u32| {
        let tcp = format!("[tcp]\nreceive_window_max = {segments}\n");
        memory(&format!("{tcp}{}count = 1000\n", SHORT.replace("1 MB", "1000 GB")))
    };
    assert!(window(1_000_000) > 100e9 && window(100) < 1e9, "{} {}", window(1_000_000), window(100));
    let counted = |count: u32| memory(&format!("{SHORT}count = {count}\n"));
    assert!(counted(1000) > 15e6 && counted(1000) < 1e9, "{}", counted(1000));
}

//! Files that extend others: what wins, and where errors are.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{BASE, FACTORS, SHORT, error, errors};
use lasthop_core::{QueueSize, Rate, Seed};
use lasthop_scenario::{Cell, Sampler, Scenario, ScenarioError, Study};

/// A folder of scenario files that is gone after the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn with(test: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("lasthop-extends-{test}-{}", std::process::id()));
        let folder = Self(path);
        for (name, text) in files {
            let file = folder.0.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        folder
    }

    pub fn read(&self, name: &str) -> Study {
        Study::from_path(&self.0.join(name)).unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    pub fn error(&self, name: &str) -> ScenarioError {
        let errors = Study::from_path(&self.0.join(name)).expect_err("accepted");
        let [error] = errors.as_slice() else { panic!("{errors:#?}") };
        error.clone()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn study() -> String {
    format!("{BASE}{FACTORS}[[matrix]]\nlink = [\"e0\"]\n")
}

fn keys(study: &Study) -> Vec<String> {
    study.cells.iter().map(Cell::key).collect()
}

#[test]
fn an_extending_file_is_laid_over_the_extended_one() {
    let over = "extends = \"study.toml\"\nname = \"over\"\n[down.link]\nrate = \"128 kbit/s\"\n\
                [factor.variant.baseline]\ntcp.dsack = true\n[factor.variant.new]\n[factor.loss.none]\n\
                [[matrix]]\nlink = [\"r1\"]\nworkload = [\"tcp\"]\nvariant = [\"baseline\", \"new\"]\n";
    let folder = Folder::with("over", &[("study.toml", &study()), ("over.toml", over)]);
    let study = folder.read("over.toml");
    assert_eq!((study.name.as_str(), study.title.as_str(), study.seed), ("over", "Small", 7));
    assert_eq!(
        keys(&study),
        ["link=r1,workload=tcp,variant=baseline,loss=none", "link=r1,workload=tcp,variant=new,loss=none"],
        "the matrix is replaced, levels and factors are added at the end"
    );
    let scenario = &study.cells[0].scenario;
    assert_eq!(scenario.down.as_ref().unwrap().link.rate, Rate::from_bits_per_second(128_000));
    assert_eq!(scenario.down.as_ref().unwrap().queue.limit, QueueSize::Packets(20), "tables are merged");
    assert!(scenario.tcp.dsack && scenario.errors.is_some());
    assert_eq!(study.factors[2].1, ["baseline", "eifel+red", "new"]);
}

#[test]
fn a_file_that_only_extends_is_the_extended_study() {
    let folder =
        Folder::with("only", &[("a/study.toml", &study()), ("b/same.toml", "extends = \"../a/study.toml\"")]);
    let (same, study) = (folder.read("b/same.toml"), folder.read("a/study.toml"));
    assert_eq!((same.name, same.cells), (study.name, study.cells));
}

#[test]
fn chains_are_laid_over_each_other_from_their_end() {
    let files = [
        ("study.toml", study()),
        ("middle.toml", "extends = \"study.toml\"\nseed = 8\nreplications = 4\n".into()),
        ("top.toml", "extends = \"middle.toml\"\nseed = 9\n".into()),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let study = Folder::with("chain", &files).read("top.toml");
    assert_eq!((study.seed, study.replications, study.cells.len()), (9, 4, 4));
}

#[test]
fn levels_of_an_extending_file_may_change_what_the_extended_levels_set() {
    let over = "extends = \"study.toml\"\n[factor.red.late]\ndown.queue.red.max = \"9 packets\"\n\
                [[matrix]]\nlink = [\"e0\"]\nworkload = [\"both\"]\nvariant = [\"eifel+red\"]\n";
    let folder = Folder::with("laid", &[("study.toml", &study()), ("over.toml", over)]);
    let study = folder.read("over.toml");
    let red = study.cells[0].scenario.down.as_ref().unwrap().queue.red().unwrap();
    assert_eq!((red.min, red.max), (QueueSize::Packets(2), QueueSize::Packets(9)));
}

#[test]
fn levels_that_come_before_the_extended_ones_they_contradict_are_an_error() {
    let over = "extends = \"study.toml\"\n[factor.link.e0]\ntcp.timestamps = false\n";
    let folder = Folder::with("before", &[("study.toml", &study()), ("over.toml", over)]);
    let error = folder.error("over.toml");
    assert_eq!((error.file, error.line), (folder.path("study.toml"), Some(50)));
    let first = format!("on line 3 of {} by link=e0", folder.path("over.toml"));
    assert!(error.message.contains(&first), "{}", error.message);
}

#[test]
fn every_error_names_the_file_it_is_in() {
    for (extended, over, file, line, part) in [
        (study().replace("seed = 7", "seeds = 7"), "", "study.toml", 3, "did you mean `seed`?"),
        (study().replace("7 packets", "1 packet"), "", "study.toml", 51, "must be above min"),
        (study(), "\n[down]\nqueue.limits = \"3 packets\"\n", "over.toml", 4, "did you mean `limit`?"),
        (study(), "\ndown.queue.limit = \"0 packets\"\n", "over.toml", 3, "at least one packet"),
        (study(), "\n[[matrix]]\nlink = [\"r2\"]\n", "over.toml", 4, "did you mean `r1`?"),
        (
            study(),
            "\n[factor.link.r1.errors]\ngood = { min = \"2 s\" }\n",
            "over.toml",
            4,
            "missing key `distribution`",
        ),
        (study().replace("[lan]", "[lan"), "", "study.toml", 7, "not valid TOML"),
    ] {
        let over = format!("extends = \"study.toml\"\n{over}");
        let folder = Folder::with("named", &[("study.toml", &extended), ("over.toml", &over)]);
        let error = folder.error("over.toml");
        assert_eq!((&error.file, error.line), (&folder.path(file), Some(line)), "{error}");
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn what_cannot_be_extended_is_an_error_at_the_key_and_names_both_files() {
    let over = |name: &str| format!("name = \"over\"\nextends = {name}\n");
    let files = [
        ("study.toml", study()),
        ("missing.toml", over("\"studdy.toml\"")),
        ("folder.toml", over("\".\"")),
        ("number.toml", over("3")),
        ("itself.toml", over("\"./itself.toml\"")),
        ("one.toml", over("\"two.toml\"")),
        ("two.toml", over("\"one.toml\"")),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = Folder::with("cannot", &files);
    for (name, blamed, parts) in [
        ("missing.toml", "missing.toml", ["studdy.toml: there is no such file; did you mean", "study.toml?"]),
        ("folder.toml", "folder.toml", ["`extends`: ", "this is a directory"]),
        ("number.toml", "number.toml", ["`extends`: found the number 3", "a string in quotation marks"]),
        ("itself.toml", "itself.toml", ["in a cycle", "itself.toml -> "]),
        ("one.toml", "two.toml", ["in a cycle", "two.toml -> "]),
    ] {
        let error = folder.error(name);
        assert_eq!((&error.file, error.line), (&folder.path(blamed), Some(2)), "{error}");
        for part in parts {
            assert!(error.message.contains(part), "{error}");
        }
    }
}

#[test]
fn a_text_without_a_folder_cannot_extend_a_file() {
    let error = error(&format!("extends = \"study.toml\"\n{BASE}"));
    assert_eq!(error.line, Some(1));
    assert!(error.message.contains("save it as a file"), "{error}");
}

#[test]
fn a_preset_is_extended_from_any_folder_and_by_a_text() {
    let over = "extends = \"lte\"\nseed = 9\n";
    let folder = Folder::with("preset", &[("deep/down/my.toml", over)]);
    let read = folder.read("deep/down/my.toml");
    assert_eq!((read.name.as_str(), read.seed), ("my", 9), "the name is the file's own");
    assert!(read.title.starts_with("LTE"), "{}", read.title);
    for study in [&read, &Study::from_str(over, "text").unwrap()] {
        let down = study.cells[0].scenario.down.as_ref().unwrap();
        assert_eq!(down.link.rate, Rate::from_bits_per_second(12_000_000));
        assert_eq!(study.cells[0].scenario.mtu.0, 1500, "of what the presets have in common");
    }
}

#[test]
fn a_file_beside_the_scenario_wins_over_the_preset_of_its_name() {
    let over = "extends = \"lte\"\n";
    let folder = Folder::with("wins", &[("my.toml", over), ("lte", &study())]);
    assert_eq!(folder.read("my.toml").title, "Small");
    let folder = Folder::with("suffix", &[("lte.toml", over), ("lte/other", "")]);
    assert!(folder.read("lte.toml").title.starts_with("LTE"), "a file of another name, and a folder, do not");
}

#[test]
fn starlink_has_epochs_that_each_replication_draws() {
    let study = Study::from_str("extends = \"starlink\"\n", "text").unwrap();
    let scenario = &study.cells[0].scenario;
    let courses = |replication| {
        let drawn = scenario.drawn(Seed { study: 1, replication }).into_owned();
        [drawn.down, drawn.up].map(|path| path.unwrap().link.course.unwrap().table().unwrap().to_string())
    };
    assert_eq!(courses(1), courses(1));
    assert_ne!(courses(1), courses(2));
    let down = &courses(1)[0];
    let begins = down.lines().skip(1).filter(|line| line.split(',').nth(1) == Some("0"));
    let begins: Vec<&str> = begins.filter_map(|line| line.split(',').next()).collect();
    assert_eq!(begins[..4], ["12", "27", "42", "57"]);
    // 10 min, the time limit.
    assert_eq!(begins.len(), 40);
    // Of a course that is not drawn yet, the means are known.
    let link = &scenario.down.as_ref().unwrap().link;
    assert_eq!((link.rate.to_string(), link.delay.to_string()), ("117 Mbit/s".into(), "23500 us".into()));
    // What is drawn already stays as it is.
    let drawn = scenario.drawn(Seed { study: 1, replication: 1 }).into_owned();
    assert_eq!(*drawn.drawn(Seed { study: 2, replication: 2 }), drawn);
}

#[test]
fn an_error_in_a_preset_names_it() {
    let folder = Folder::with("named-preset", &[("my.toml", "extends = \"lte\"\nmtu = \"9000 B\"\n")]);
    let errors = Study::from_path(&folder.0.join("my.toml")).expect_err("accepted");
    assert!(errors.as_slice().iter().any(|error| error.file == "preset lte"), "{errors}");
}

#[test]
fn an_unknown_preset_is_an_error_that_names_the_nearest() {
    for (over, part) in [
        (
            "ltee",
            "there is no preset or file \"ltee\"; did you mean `lte`? (accepted: 5g, 5g-cell, cable, \
             cable-low-latency, congested-64k, dsl",
        ),
        ("star-link", "did you mean `starlink`?"),
        ("lte.toml", "there is no such file; the name of the preset is \"lte\""),
    ] {
        let over = format!("seed = 1\nextends = \"{over}\"\n");
        let folder = Folder::with("unknown", &[("my.toml", &over)]);
        let error = folder.error("my.toml");
        assert_eq!((&error.file, error.line), (&folder.path("my.toml"), Some(2)), "{error}");
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn the_sensitivity_study_reads() {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/kulve2003");
    let study = Study::from_path(&studies.join("sensitivity.toml")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(study.factors.last().unwrap().1[0], "default");
}

#[test]
fn a_link_needs_no_flow_where_none_runs() {
    let link = "[down.link]\nrate = \"1 Mbit/s\"\ndelay = \"10 ms\"\n";
    let levels = "[factor.load.none]\n[factor.load.call]\nflow = [{ kind = \"constant-udp\", \
                  rate = \"64 kbit/s\", payload = \"160 B\", duration = \"1 s\" }]\n";
    let folder = Folder::with("link", &[("link.toml", link), ("levels.toml", &format!("{link}{levels}"))]);
    let error = folder.error("link.toml");
    assert!(error.message.contains("lasthop shell") && error.message.contains("[[flow]]"), "{error}");
    let read = |name: &str| Study::of_link(&folder.0.join(name), &Sampler::NONE).unwrap();
    let kinds = |study: Study| -> Vec<(usize, bool)> {
        let assumed = |cell: &Cell| cell.assumed.iter().any(|assumption| assumption.key == "flow");
        study.cells.iter().map(|cell| (cell.scenario.flow.len(), assumed(cell))).collect()
    };
    assert_eq!(kinds(read("link.toml")), [(1, true)]);
    assert_eq!(kinds(read("levels.toml")), [(1, true), (1, false)], "flows of a level stay");
}

/// The scenario of the only cell of a text.
fn only(text: &str) -> Scenario {
    let mut study = Study::from_str(text, "text").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(study.cells.len(), 1);
    study.cells.remove(0).scenario
}

#[test]
fn false_removes_what_is_inherited() {
    assert!(only("extends = \"geo-relay\"\n").flow[0].relay.is_some());
    assert!(only("extends = \"geo-relay\"\nflow.download.relay = false\n").flow[0].relay.is_none());
    assert!(only("extends = \"wifi-lossy\"\nerrors = false\n").errors.is_none());
    let cake =
        only("extends = \"cable\"\n[up]\nqueue = { discipline = \"cake\", target = false }\ngrant = false\n");
    let up = cake.up.unwrap();
    assert!(up.queue.ineffective.is_empty() && up.grant.is_none(), "{up:?}");
    let more = "[[flow]]\nkind = \"bulk-tcp\"\nname = \"own\"\nbytes = \"1 MB\"\n";
    let without = format!("extends = \"geo-relay\"\nhop.home = false\nhost.laptop.behind = \"geo\"\n{more}");
    assert_eq!(only(&without).hop.len(), 2);
    let levels = "extends = \"geo-relay\"\n[factor.proxy]\nwith = {}\nwithout.flow.download.relay = false\n\
                  [factor.flows]\nsame = {}\nother.flow = { download = false, own = { kind = \"bulk-tcp\", \
                  bytes = \"1 MB\", host = \"laptop\" } }\n[[matrix]]\nflows = [\"same\"]\n[[matrix]]\n\
                  proxy = [\"with\"]\n";
    let study = Study::from_str(levels, "text").unwrap_or_else(|errors| panic!("{errors}"));
    let relayed =
        |cell: &Cell| cell.scenario.flow.iter().map(|flow| flow.relay.is_some()).collect::<Vec<_>>();
    assert_eq!(study.cells.iter().map(relayed).collect::<Vec<_>>(), [vec![true], vec![false], vec![false]]);
    // A later layer may state it again; what is true or false stays so.
    let tcp = "[tcp]\nsack = false\necn = false\nframing = false\n";
    let folder = Folder::with(
        "again",
        &[
            ("none.toml", "extends = \"wifi-lossy\"\nerrors = false\n"),
            (
                "again.toml",
                "extends = \"none.toml\"\nerrors = { good = \"1 s\", bad = \"1 s\", packet_error_probability = 0.1 }\n",
            ),
            ("sack.toml", &format!("extends = \"lte\"\n{}", tcp.replace("framing = false\n", ""))),
        ],
    );
    assert!(folder.read("again.toml").cells[0].scenario.errors.is_some());
    assert!(!folder.read("sack.toml").cells[0].scenario.tcp.sack);
}

#[test]
fn what_cannot_be_left_out_because_it_is_inherited_can_be_unset() {
    let error = error("extends = \"cable\"\n[up.queue]\ndiscipline = \"cake\"\n");
    assert!(error.file.ends_with("preset cable"), "{error}");
    assert!(error.message.ends_with("; up.queue.target = false removes the inherited key"), "{error}");
    let level = "[down.queue]\nlimit = \"9 packets\"\ndiscipline = \"pie\"\ntarget = \"9 ms\"\n\
                 [factor.queue]\ncake.down.queue.discipline = \"cake\"\n";
    let inherited = errors(&format!("{SHORT}{level}"));
    assert!(inherited[0].message.contains("; down.queue.target = false removes"), "{inherited:?}");
    let own = errors(&format!(
        "{SHORT}{}",
        level.replace(
            "cake.down.queue.discipline = \"cake\"",
            "cake.down.queue = { discipline = \"cake\", target = \"1 ms\" }"
        )
    ));
    assert!(!own[0].message.contains("= false"), "{own:?}");
}

#[test]
fn an_empty_table_over_another_is_refused_because_it_changes_nothing() {
    let level = "extends = \"geo-relay\"\n[factor.proxy]\nwith = {}\nnone.flow.download.relay = {}\n";
    let found = error(level);
    assert_eq!(found.line, Some(4), "{found}");
    assert!(found.message.contains("`flow.download.relay`: an empty table does not change"), "{found}");
    assert!(found.message.contains("write flow.download.relay = false to remove"), "{found}");
    let found = error("extends = \"wifi-lossy\"\n[errors]\n");
    assert_eq!((found.file.as_str(), found.line), ("f.toml", Some(2)), "{found}");
}

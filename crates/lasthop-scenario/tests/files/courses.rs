//! Courses that are drawn: the tables of a file, and what is wrong with them.

use lasthop_core::{Direction, Seed};
use lasthop_link::CourseConfig;
use lasthop_scenario::{Scenario, Study};

const FLOW: &str = "[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 MB\"\n";
const EPOCHS: &str = r#"kind = "epochs", every = "15 s", rate = { distribution = "uniform", min = "1 Mbit/s", max = "3 Mbit/s" }"#;
const WALK: &str = r#"kind = "walk", mean = "20 Mbit/s", spread = 0.3, time_constant = "5 s""#;
const STATES: &str =
    r#"kind = "states", states = [{ rate = "8 Mbit/s", mean = "3 s" }, { mean = "1 s", next = [1, 0] }]"#;

fn text(course: &str, delay: &str) -> String {
    format!("time_limit = \"60 s\"\n[down.link]\n{delay}course = {{ {course} }}\n{FLOW}")
}

fn read(course: &str, delay: &str) -> Result<Scenario, String> {
    let study = Study::from_str(&text(course, delay), "course.toml").map_err(|errors| errors.to_string())?;
    Ok(study.cells[0].scenario.clone())
}

#[test]
fn each_kind_is_read_drawn_and_written() {
    for (course, rate) in [(EPOCHS, "2 Mbit/s"), (WALK, "20 Mbit/s"), (STATES, "6 Mbit/s")] {
        let scenario = read(course, "delay = \"20 ms\"\n").unwrap_or_else(|error| panic!("{error}"));
        let link = &scenario.down.as_ref().unwrap().link;
        assert!(matches!(link.course, Some(CourseConfig::Drawn(_))));
        assert_eq!(link.rate.to_string(), rate);
        let again: Scenario = serde_json::from_str(&serde_json::to_string(&scenario).unwrap()).unwrap();
        assert_eq!(again, scenario);
        let drawn = scenario.drawn(Seed { study: 1, replication: 1 });
        // `[up]` is a copy of `[down]` with draws of its own.
        let [down, up] = [&drawn.down, &drawn.up].map(|path| path.as_ref().unwrap().link.course.clone());
        assert!(down.is_some() && down != up);
        assert!(drawn.rates(Direction::Down).len() >= 4);
    }
}

#[test]
fn a_course_is_drawn_by_hop_and_direction_whatever_the_variant() {
    let tree = |other: &str| {
        let hop = format!("{{ link = {{ delay = \"1 ms\", course = {{ {WALK} }} }} }}");
        let text = format!(
            "time_limit = \"60 s\"\n[hop.a]\ndown = {hop}\n[hop.b]\ndown = {hop}\n[host.h]\nbehind = [\"a\", \
             \"b\"]\n{FLOW}{other}"
        );
        let study = Study::from_str(&text, "tree.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let drawn = study.cells[0].scenario.drawn(Seed { study: 1, replication: 1 }).into_owned();
        drawn
            .hops()
            .iter()
            .flat_map(|hop| hop.links().map(|(_, path)| path))
            .map(|path| path.link.course.clone().unwrap())
            .map(|course| course.table().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    let courses = tree("");
    assert_eq!(courses.len(), 4);
    for (number, course) in courses.iter().enumerate() {
        assert!(!courses[..number].contains(course), "each hop and direction has its own");
    }
    assert_eq!(courses, tree("[tcp]\ncongestion_control = \"bbr\"\n"));
}

#[test]
fn what_is_wrong_with_a_course_is_said_at_its_place() {
    for (course, part) in [
        ("every = \"15 s\", rate = \"1 Mbit/s\"", "missing key `kind`"),
        ("kind = \"epoch\", every = \"15 s\", rate = \"1 Mbit/s\"", "did you mean `epochs`?"),
        (
            "kind = \"walk\", mean = \"1 Mbit/s\", spread = 0.3, constant = \"5 s\"",
            "unknown key `down.link.course.constant`",
        ),
        ("kind = \"epochs\", every = \"15 s\", rate = \"1 Mbit\"", "down.link.course.rate"),
        (
            "kind = \"epochs\", every = \"0 s\", rate = \"1 Mbit/s\"",
            "`down.link.course.every`: must not be zero",
        ),
        ("kind = \"epochs\", every = \"1 us\", rate = \"1 Mbit/s\"", "more than 1000000"),
        ("kind = \"states\", states = [{ mean = \"1 s\" }, { mean = \"1 s\" }]", "the link is never up"),
    ] {
        let error = read(course, "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\n").expect_err(course);
        assert!(error.contains(part), "{error}");
    }
}

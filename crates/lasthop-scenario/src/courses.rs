//! Random courses, which are drawn for each replication.

use std::borrow::Cow;

use lasthop_core::{Direction, Duration, Faults, Seed};
use lasthop_link::{CourseConfig, PathConfig};

use crate::types::Scenario;

impl Scenario {
    /// The scenario of one replication, in which tables drawn from `seed` replace random courses. Engines and
    /// analysis require such a scenario.
    pub fn drawn(&self, seed: Seed) -> Cow<'_, Self> {
        let sides = self.down.iter().chain(&self.up);
        let of_hops = self.hop.values().flat_map(|hop| hop.down.iter().chain(&hop.up));
        if sides.chain(of_hops).all(|path| !is_drawn(path)) {
            return Cow::Borrowed(self);
        }
        let mut drawn = self.clone();
        let until = self.time_limit;
        for (path, direction) in [(&mut drawn.down, Direction::Down), (&mut drawn.up, Direction::Up)] {
            if let Some(path) = path {
                draw(path, direction, seed, until);
            }
        }
        for (name, hop) in &mut drawn.hop {
            let seed = self.seed_of(name, seed);
            let Some(down) = &mut hop.down else { continue };
            let up = hop.up.get_or_insert_with(|| down.clone());
            draw(up, Direction::Up, seed, until);
            draw(down, Direction::Down, seed, until);
        }
        Cow::Owned(drawn)
    }

    /// Checks that no course has too many rows.
    pub(crate) fn check_courses(&self, faults: &mut Faults) {
        let mut check = |place: String, path: Option<&PathConfig>| {
            if let Some(CourseConfig::Drawn(course)) = path.and_then(|path| path.link.course.as_ref()) {
                faults.below(&format!("{place}.link.course"), |faults| {
                    course.check_length(self.time_limit, faults);
                });
            }
        };
        check("down".into(), self.down.as_ref());
        check("up".into(), self.up.as_ref());
        for (name, hop) in &self.hop {
            check(format!("hop.{name}.down"), hop.down.as_ref());
            check(format!("hop.{name}.up"), hop.up.as_ref());
        }
    }
}

const fn is_drawn(path: &PathConfig) -> bool {
    matches!(path.link.course, Some(CourseConfig::Drawn(_)))
}

fn draw(path: &mut PathConfig, direction: Direction, seed: Seed, until: Duration) {
    if let Some(CourseConfig::Drawn(course)) = &path.link.course {
        path.link.course = Some(CourseConfig::Table(course.draw(&path.link, direction, seed, until)));
    }
}

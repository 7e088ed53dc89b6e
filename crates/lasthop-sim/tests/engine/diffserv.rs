//! Classes in front of the link, through the whole engine.

use std::collections::BTreeMap;

use lasthop_core::{Direction, DropCause, Instant, Observer, Packet, PacketEvent, Seed};
use lasthop_scenario::Study;
use lasthop_sim::{HostMemory, run};

const SEED: Seed = Seed { study: 1, replication: 1 };

/// Drops at the router, and departures by class, per flow.
#[derive(Default)]
struct Router {
    drops: [u32; 2],
    red_drops: [u32; 2],
    classes: BTreeMap<(u32, u8), u32>,
}

impl Observer for Router {
    fn packet(&mut self, _now: Instant, event: PacketEvent, packet: &Packet) {
        if packet.direction == Direction::Up {
            return;
        }
        let flow = packet.flow.0 as usize;
        match event {
            PacketEvent::Dropped(DropCause::QueueOverflow) => self.drops[flow] += 1,
            PacketEvent::Dropped(DropCause::Red) => self.red_drops[flow] += 1,
            PacketEvent::Dequeued(depth) => {
                *self.classes.entry((packet.flow.0, depth.class)).or_default() += 1;
            }
            _ => {}
        }
    }
}

fn seen(cell: &str) -> Router {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/diffserv.toml");
    let study = Study::from_path(path.as_ref()).unwrap();
    let scenario = &study.cells.iter().find(|of_study| of_study.key() == cell).unwrap().scenario;
    let mut router = Router::default();
    let end = run(scenario, SEED, &mut HostMemory::default(), &mut router);
    assert_eq!(end.packets_inside, 0);
    router
}

#[test]
fn a_class_of_its_own_spares_the_stream_all_losses() {
    let [one, two] = ["router=one-queue,queue=tail-drop", "router=classes,queue=tail-drop"].map(seen);
    assert!(one.drops[1] > 0, "the download fills the queue they share");
    assert_eq!(two.drops[1], 0);
    assert!(two.drops[0] > 0, "the download still overflows its own queue");
    assert_eq!(one.classes.keys().copied().collect::<Vec<_>>(), [(0, 0), (1, 0)]);
    assert_eq!(two.classes.keys().copied().collect::<Vec<_>>(), [(0, 1), (1, 0)]);
}

#[test]
fn a_level_of_the_queue_holds_for_every_class() {
    let router = seen("router=classes,queue=red");
    assert!(router.red_drops[0] > 0);
    assert_eq!(router.drops[1] + router.red_drops[1], 0, "the stream's average stays below the threshold");
}

//! Page loads over connections that deliver bytes in any pieces, in any order among connections.

use proptest::prelude::*;

use super::*;

/// One direction of a connection.
#[derive(Clone, Copy, Default)]
struct Stream {
    written: u64,
    arrived: u64,
    closed: bool,
    end_seen: bool,
}

/// A page load as seen from outside.
#[derive(Default)]
struct World {
    /// The direction from the browser, and the direction from the server.
    connections: Vec<[Stream; 2]>,
    /// Objects of each connection: requested, answered, complete.
    objects: Vec<[Vec<u32>; 3]>,
    most_open: usize,
    most_under_way: usize,
}

impl World {
    fn carry_out(&mut self, load: &mut PageLoad) {
        while let Some(action) = load.poll_action() {
            match action {
                Action::Connect { flow, .. } => {
                    assert_eq!(flow as usize, self.connections.len());
                    self.connections.push(Default::default());
                    self.objects.push(Default::default());
                }
                Action::Write { flow, host, bytes, .. } => {
                    let stream = &mut self.connections[flow as usize][side(host)];
                    assert!(!stream.closed, "written after the end");
                    stream.written += bytes;
                }
                Action::Close { flow, host } => {
                    let stream = &mut self.connections[flow as usize][side(host)];
                    assert!(!std::mem::replace(&mut stream.closed, true), "closed twice");
                }
                Action::Report { flow, event } => self.note(flow, event),
                Action::Open { .. }
                | Action::Send { .. }
                | Action::Play { .. }
                | Action::Stop { .. }
                | Action::Exchange { .. }
                | Action::Transport { .. }
                | Action::Complete { .. } => panic!("a page load over TCP does not {action:?}"),
            }
            let open = self.connections.iter().filter(|[browser, _]| !browser.closed).count();
            self.most_open = self.most_open.max(open);
        }
    }

    fn note(&mut self, connection: u32, event: HttpEvent) {
        let [requested, answered, complete] = &mut self.objects[connection as usize];
        match event {
            HttpEvent::Request { object, .. } => requested.push(object),
            HttpEvent::Response { object, .. } => answered.push(object),
            HttpEvent::FirstByte { object } => assert_eq!(requested[complete.len()], object),
            HttpEvent::LastByte { object } => complete.push(object),
        }
        self.most_under_way = self.most_under_way.max(requested.len() - complete.len());
    }

    /// Lets some bytes arrive, or the end of the stream after the last byte, on a connection with data in
    /// flight; false if there is none.
    fn deliver(&mut self, load: &mut PageLoad, now: Instant, choice: u16, piece: u16) -> bool {
        let pending =
            |stream: &Stream| stream.arrived < stream.written || (stream.closed && !stream.end_seen);
        let places: Vec<(usize, Host)> = (0..self.connections.len())
            .flat_map(|index| [(index, Host::Client), (index, Host::Server)])
            .filter(|&(index, sender)| pending(&self.connections[index][side(sender)]))
            .collect();
        let Some(&(index, sender)) = places.get(usize::from(choice) % places.len().max(1)) else {
            return false;
        };
        let stream = &mut self.connections[index][side(sender)];
        let arrived = stream.written.min(stream.arrived + u64::from(piece) + 1);
        let received = (std::mem::replace(&mut stream.arrived, arrived) < arrived).then_some(arrived);
        let ended = stream.closed && arrived == stream.written;
        stream.end_seen = ended;
        load.handle_news(now, index as u32, sender.other(), News { received, ended, ..News::default() });
        true
    }

    /// The browser loses a connection: nothing more arrives.
    fn lose(&mut self, load: &mut PageLoad, now: Instant, connection: usize) {
        for stream in &mut self.connections[connection] {
            stream.end_seen = true;
            stream.arrived = u64::MAX;
        }
        load.handle_server_closed(now, connection as u32);
    }
}

fn side(sender: Host) -> usize {
    usize::from(sender == Host::Server)
}

/// Loads a page; `lost` is a connection and the step at which the browser loses it, if it is open then.
fn load(
    http: &HttpConfig,
    page: &HttpPageConfig,
    pieces: &[(u16, u16)],
    lost: Option<(usize, usize)>,
) -> World {
    let mut load = PageLoad::new(http, page, Instant::ZERO);
    let (mut world, mut now) = (World::default(), Instant::ZERO);
    for (step, &(choice, piece)) in pieces.iter().cycle().enumerate() {
        let lost = lost.filter(|&(_, when)| when == step).map(|(connection, _)| connection);
        let open = |index: &usize| world.connections.get(*index).is_some_and(|ends| !ends[1].end_seen);
        if let Some(connection) = lost.filter(open) {
            world.lose(&mut load, now, connection);
        } else if !world.deliver(&mut load, now, choice, piece) {
            let Some(due) = load.next_wakeup() else { break };
            now = due;
            load.handle_wakeup(now);
        }
        world.carry_out(&mut load);
    }
    world
}

fn configs() -> impl Strategy<Value = (HttpConfig, HttpPageConfig)> {
    let protocol = prop_oneof![
        Just(HttpProtocol::Http10),
        Just(HttpProtocol::Http11),
        Just(HttpProtocol::Http11Pipelined)
    ];
    let inline_after = proptest::option::of(1..3000_u64);
    let sizes = (prop_oneof![Just(0_u64), 100..300_u64], 1..2000_u64, 1..2000_u64);
    (protocol, 1..5_u32, inline_after, sizes, 0..12_u32, any::<bool>()).prop_map(
        |(protocol, connections, inline_after, (header, main, inline), inline_count, by_server)| {
            let http = HttpConfig {
                response_header: Bytes(header),
                inline_after: inline_after.map(Bytes),
                server_closes: by_server && protocol == HttpProtocol::Http11Pipelined,
                ..http(protocol, connections)
            };
            (http, HttpPageConfig { main: Bytes(main), inline: Bytes(inline), ..page(inline_count) })
        },
    )
}

fn pieces() -> impl Strategy<Value = Vec<(u16, u16)>> {
    let piece = prop_oneof![0..3_u16, 0..600_u16, 0..5000_u16];
    proptest::collection::vec((any::<u16>(), piece), 1..60)
}

fn all(world: &World, kind: usize) -> Vec<u32> {
    let mut objects: Vec<u32> =
        world.objects.iter().flat_map(|objects| objects[kind].iter().copied()).collect();
    objects.sort_unstable();
    objects
}

proptest! {
    // A failure prints its page; nothing is kept on disk.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_object_is_asked_for_once_and_received_whole((http, page) in configs(), pieces in pieces()) {
        let world = load(&http, &page, &pieces, None);
        let objects: Vec<u32> = (0..page.objects()).collect();
        for kind in 0..3 {
            prop_assert_eq!(&all(&world, kind), &objects);
        }
        for [requested, answered, complete] in &world.objects {
            prop_assert_eq!(requested, answered);
            prop_assert_eq!(requested, complete);
        }
        for stream in world.connections.iter().flatten() {
            prop_assert!(stream.closed && stream.end_seen && stream.arrived == stream.written);
        }
        prop_assert!(world.most_open <= http.connections as usize);
        prop_assert!(world.most_under_way == 1 || http.protocol == HttpProtocol::Http11Pipelined);
        let announced = page.connection_names(&http).len();
        prop_assert!(world.connections.len() <= announced, "opened and never announced");
    }

    #[test]
    fn the_browser_closes_everything_though_a_connection_is_lost(
        (http, page) in configs(), pieces in pieces(), connection in 0..4_usize, when in 1..40_usize,
    ) {
        let world = load(&http, &page, &pieces, Some((connection, when)));
        prop_assert!(world.connections.iter().all(|[browser, _]| browser.closed));
        prop_assert!(world.most_open <= http.connections as usize);
        let asked = all(&world, 0);
        prop_assert!(asked.windows(2).all(|pair| pair[0] < pair[1]), "asked for twice");
        for (index, [requested, _, complete]) in world.objects.iter().enumerate() {
            prop_assert!(requested.starts_with(complete));
            prop_assert!(index == connection || requested == complete, "only the lost one misses objects");
        }
    }
}

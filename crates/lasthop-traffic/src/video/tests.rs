use proptest::prelude::*;

use super::*;

fn config(keys: &str) -> VideoConfig {
    let text = format!("name = \"film\"\nstart = \"0 s\"\n{keys}");
    toml::from_str(&text).expect("a configuration")
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A ladder of 1, 2, 3, 4 and 5 Mbit/s, a reservoir of 10 s and a cushion of 40 s: f rises by 1 Mbit/s each
/// 10 s.
fn straight() -> VideoConfig {
    config(
        "bitrates = [\"1 Mbit/s\", \"2 Mbit/s\", \"3 Mbit/s\", \"4 Mbit/s\", \"5 Mbit/s\"]\n\
         buffer = \"60 s\"\nreservoir = \"10 s\"\ncushion = \"40 s\"",
    )
}

/// The bitrates, in Mbit/s, that are chosen one after another at these buffer levels, in s, after the bitrate
/// `first`.
fn chosen(first: usize, contents: &[u64]) -> Vec<usize> {
    let config = straight();
    let mut rung = first - 1;
    let choose = |content: &u64| {
        rung = config.next_rung(rung, Duration::from_secs(*content));
        rung + 1
    };
    contents.iter().map(choose).collect()
}

#[test]
fn the_reservoir_asks_for_the_lowest_and_a_full_cushion_for_the_highest() {
    assert_eq!(chosen(4, &[10, 9, 0]), [1, 1, 1]);
    assert_eq!(chosen(2, &[50, 55]), [5, 5]);
}

#[test]
fn the_bitrate_stays_until_the_map_passes_the_next_one() {
    // f is 1.5, 1.9, 2.1 Mbit/s: the second bitrate is reached at 20 s.
    assert_eq!(chosen(1, &[15, 19, 21]), [1, 1, 2]);
    // At 20 s f is 2 Mbit/s, and the highest below that is the first one.
    assert_eq!(chosen(1, &[20]), [1]);
    // The bitrate falls only once f has fallen to the next lower one: at 25, 21 and 19 s nothing happens.
    assert_eq!(chosen(3, &[35, 25, 21, 20]), [3, 3, 3, 3]);
    // At 20 s f equals the next lower bitrate: the lowest bitrate above f is chosen, which is the third one.
    // At 19 s it is the second.
    assert_eq!(chosen(3, &[19, 11]), [2, 2]);
}

#[test]
fn a_large_change_skips_bitrates() {
    assert_eq!(chosen(1, &[45]), [4]);
    assert_eq!(chosen(5, &[15]), [2]);
}

#[test]
fn a_ladder_of_one_has_no_choice() {
    let one = config("bitrates = [\"1 Mbit/s\"]");
    assert!(
        [0, 90, 100, 200, 216, 240].map(|s| one.next_rung(0, Duration::from_secs(s))).iter().all(|r| *r == 0)
    );
}

/// 2 s segments of one bitrate, 250 kB each; playback starts at a level of 4 s, and the buffer holds at most
/// 8 s.
fn small() -> Video {
    let config = config(
        "bitrates = [\"1 Mbit/s\"]\nsegment = \"2 s\"\nduration = \"9 s\"\nstartup = \"4 s\"\n\
         buffer = \"8 s\"\nreservoir = \"2 s\"\ncushion = \"4 s\"",
    );
    assert_eq!(Faults::collect(|faults| config.check(Bytes(1500), faults)), []);
    Video::new(&config, at(0), Host::Server, 1460)
}

/// A short name for each action.
fn action_names(video: &mut Video) -> Vec<&'static str> {
    let word = |action| match action {
        Action::Connect { .. } => "connect",
        Action::Write { host: Host::Client, bytes: 200, .. } => "ask",
        Action::Write { host: Host::Server, bytes: 250_000, .. } => "answer",
        Action::Close { .. } => "close",
        Action::Play { event: PlaybackEvent::Segment { .. }, .. } => "segment",
        Action::Play { event: PlaybackEvent::Playing, .. } => "playing",
        Action::Play { event: PlaybackEvent::Stalled, .. } => "stalled",
        Action::Play { event: PlaybackEvent::Ended, .. } => "ended",
        other => panic!("not of a video: {other:?}"),
    };
    std::iter::from_fn(|| video.poll_action()).map(word).collect()
}

fn woken(video: &mut Video, millis: u64) -> Vec<&'static str> {
    video.handle_wakeup(at(millis));
    action_names(video)
}

/// The news that this many bytes of a stream have arrived.
fn arrived(bytes: u64) -> News {
    News { received: Some(bytes), ..News::default() }
}

/// The segment with this number arrives completely; its request reached the server at once.
fn comes(video: &mut Video, millis: u64, number: u64) -> Vec<&'static str> {
    video.handle_news(at(millis), 0, Host::Server, arrived(200 * number));
    assert_eq!(action_names(video), ["answer"]);
    video.handle_news(at(millis), 0, Host::Client, arrived(250_000 * number));
    action_names(video)
}

#[test]
fn a_video_fills_its_buffer_stalls_and_plays_to_its_end() {
    let mut film = small();
    assert_eq!(woken(&mut film, 0), ["connect", "ask"]);
    assert_eq!(comes(&mut film, 500, 1), ["segment", "ask"], "2 s are not enough to play");
    assert_eq!(film.next_wakeup(), None);
    assert_eq!(comes(&mut film, 1000, 2), ["segment", "playing", "ask"]);
    assert_eq!(film.next_wakeup(), Some(at(5000)), "4 s play until then");
    assert_eq!(woken(&mut film, 5000), ["stalled"]);
    assert_eq!(film.next_wakeup(), None);
    assert_eq!(comes(&mut film, 6000, 3), ["segment", "ask"]);
    assert_eq!(comes(&mut film, 6500, 4), ["segment", "playing", "ask"]);
    assert_eq!(comes(&mut film, 7000, 5), ["segment", "close"], "9 s are five segments");
    assert_eq!(
        film.next_wakeup(),
        Some(at(12_500)),
        "6 s have come since it played again, 0.5 s of it played"
    );
    assert_eq!(woken(&mut film, 12_500), ["ended"]);
    assert_eq!(film.next_wakeup(), None);
}

#[test]
fn what_would_not_fit_is_asked_for_when_there_is_room() {
    let mut film = small();
    woken(&mut film, 0);
    comes(&mut film, 10, 1);
    comes(&mut film, 20, 2);
    comes(&mut film, 30, 3);
    // 8 s minus the 20 ms that have been played.
    assert_eq!(comes(&mut film, 40, 4), ["segment"]);
    assert_eq!(film.next_wakeup(), Some(at(2020)));
    assert_eq!(woken(&mut film, 2019), [""; 0]);
    assert_eq!(woken(&mut film, 2020), ["ask"]);
}

#[test]
fn a_lost_connection_lets_it_play_what_it_has() {
    let mut film = small();
    woken(&mut film, 0);
    comes(&mut film, 10, 1);
    comes(&mut film, 20, 2);
    film.handle_news(at(30), 0, Host::Client, News { received: None, ended: true, ..News::default() });
    assert_eq!(action_names(&mut film), ["close"]);
    assert_eq!(film.next_wakeup(), Some(at(4020)));
    assert_eq!(woken(&mut film, 4020), ["stalled"]);
    assert_eq!(film.next_wakeup(), None);
}

#[test]
fn what_cannot_be_is_said_with_its_key() {
    let faults = |keys: &str| {
        let faults = Faults::collect(|faults| config(keys).check(Bytes(1500), faults));
        faults.into_iter().map(|fault| fault.key).collect::<Vec<_>>()
    };
    assert_eq!(faults(""), [""; 0], "all keys have defaults");
    assert_eq!(faults("bitrates = []"), ["bitrates"]);
    assert_eq!(faults("bitrates = [\"2 Mbit/s\", \"1 Mbit/s\"]"), ["bitrates"]);
    assert_eq!(faults("buffer = \"100 s\""), ["cushion"]);
    assert_eq!(faults("startup = \"238 s\""), ["buffer"]);
    assert_eq!(faults("segment = \"0 s\""), ["segment"]);
    assert_eq!(faults("cushion = \"0 s\""), ["cushion"]);
}

proptest! {
    /// On a link of any rate, the client never exceeds its buffer, and every segment arrives.
    #[test]
    fn the_buffer_never_overflows(kilobits in 100..10_000_u64, seconds in 1..600_u64, buffer in 20..60_u64) {
        let config = config(&format!(
            "segment = \"3 s\"\nduration = \"{seconds} s\"\nbuffer = \"{buffer} s\"\nreservoir = \"5 s\"\n\
             cushion = \"10 s\""
        ));
        let mut film = Video::new(&config, at(0), Host::Server, 1460);
        let (mut now, mut bytes, mut due) = (at(0), [0; 2], None);
        let mut segments = 0;
        loop {
            while let Some(action) = film.poll_action() {
                match action {
                    Action::Write { host: Host::Client, .. } => {
                        bytes[0] += 200;
                        film.handle_news(now, 0, Host::Server, arrived(bytes[0]));
                    }
                    Action::Write { bytes: response, .. } => {
                        bytes[1] += response;
                        due = Some(now + Duration::from_micros(response * 8_000 / kilobits));
                    }
                    Action::Play { event: PlaybackEvent::Segment { .. }, .. } => segments += 1,
                    _ => {}
                }
                prop_assert!(film.content <= config.buffer);
            }
            match (due, film.next_wakeup()) {
                (Some(arrival), woken) if woken.is_none_or(|woken| arrival <= woken) => {
                    (now, due) = (arrival, None);
                    film.handle_news(now, 0, Host::Client, arrived(bytes[1]));
                }
                (_, Some(woken)) => {
                    now = woken;
                    film.handle_wakeup(now);
                }
                (_, None) => break,
            }
        }
        prop_assert_eq!(segments, seconds.div_ceil(3));
    }
}

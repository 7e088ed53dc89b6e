use proptest::prelude::*;

use super::*;
use crate::common::NewSegment;

/// Segments 0 to `count` - 1 of 10 bytes each, sent at ticks 0, 1, 2, ...
fn sent(count: u64) -> Linux2Scoreboard {
    let mut board = Linux2Scoreboard::default();
    (0..count).for_each(|number| board.queue.push(segment(number)));
    board
}

fn segment(number: u64) -> Linux2SentSegment {
    let new = NewSegment { payload_bytes: 10, fin: false, push: false, ends_write: false };
    Linux2SentSegment::new(number * 10..number * 10 + 10, new, false, Linux2Sent { tick: number, before: 0 })
}

fn sack(board: &mut Linux2Scoreboard, start: u64, end: u64) -> SackOutcome {
    apply(board, start, end, false, None)
}

fn apply(
    board: &mut Linux2Scoreboard,
    start: u64,
    end: u64,
    duplicate: bool,
    marker: Option<u64>,
) -> SackOutcome {
    let mut outcome = board.outcome();
    let una = board.queue.head().map_or(0, |head| head.seq);
    let block = SackBlock { start: start * 10, end: end * 10 };
    let episode = Episode { marker, ..Episode::default() };
    board.apply_block(block, una, duplicate, &episode, &mut outcome);
    outcome
}

fn retransmit(board: &mut Linux2Scoreboard, index: usize, tick: Tick, before: u64) {
    board.queue.note_retransmission(index, Linux2Sent { tick, before }, true);
}

/// Outstanding, SACKed, lost, retransmitted, in flight.
fn books(board: &Linux2Scoreboard) -> [u32; 5] {
    [
        board.queue.outstanding(),
        board.sacked_out(),
        board.queue.lost_out(),
        board.queue.retransmitted_out(),
        board.in_flight(),
    ]
}

fn segments(board: &Linux2Scoreboard) -> impl Iterator<Item = &Linux2SentSegment> {
    (0..board.queue.outstanding() as usize).map(|index| board.queue.get(index))
}

/// The marks of each segment: `.` none, `S` SACKed, `L` lost, `R` lost and retransmitted, `r` retransmitted.
fn marks(board: &Linux2Scoreboard) -> String {
    let mark = |s: &Linux2SentSegment| match (s.sacked, s.lost, s.retransmitted) {
        (true, _, _) => 'S',
        (_, true, false) => 'L',
        (_, true, true) => 'R',
        (_, false, true) => 'r',
        _ => '.',
    };
    segments(board).map(mark).collect()
}

#[test]
fn sacked_segments_leave_the_flight_once() {
    let mut board = sent(6);
    assert!(sack(&mut board, 2, 4).news);
    assert_eq!((marks(&board).as_str(), books(&board)), ("..SS..", [6, 2, 0, 0, 4]));
    assert!(!sack(&mut board, 2, 4).news, "reported already");
    assert!(sack(&mut board, 2, 5).news);
    assert_eq!((books(&board), board.furthest_sacked()), ([6, 3, 0, 0, 3], 5));
}

#[test]
fn what_fills_a_hole_without_being_sent_again_is_late() {
    let mut board = sent(8);
    assert_eq!(sack(&mut board, 2, 4).latecomer, None);
    assert_eq!(sack(&mut board, 5, 6).latecomer, None, "it is the furthest");
    assert_eq!(sack(&mut board, 4, 5).latecomer, Some(5));
    // The ACK number of an ACK with a block fills the head.
    let mut filled = board.outcome();
    board.find_filled_hole(20, 60, &mut filled);
    assert_eq!(filled.latecomer, Some(1));
}

#[test]
fn what_was_sent_again_is_late_only_if_it_comes_twice() {
    let mut board = sent(6);
    sack(&mut board, 3, 5);
    board.mark_lost(2, u64::MAX);
    retransmit(&mut board, 0, 9, 60);
    retransmit(&mut board, 1, 9, 60);
    assert_eq!(sack(&mut board, 1, 2).latecomer, None);
    let mut filled = board.outcome();
    board.find_filled_hole(20, 60, &mut filled);
    assert_eq!(filled.latecomer, None);
    // D-SACK: the original and the retransmission of segment 1 have both arrived.
    assert_eq!(apply(&mut board, 1, 2, true, Some(0)).latecomer, Some(2));
}

#[test]
fn block_that_covers_part_of_a_segment_does_not_count() {
    let mut board = sent(4);
    let mut outcome = SackOutcome::default();
    board.apply_block(SackBlock { start: 11, end: 29 }, 0, false, &Episode::default(), &mut outcome);
    assert_eq!((outcome.news, marks(&board).as_str()), (false, "...."));
    board.apply_block(SackBlock { start: 30, end: 20 }, 0, false, &Episode::default(), &mut outcome);
    assert_eq!((outcome.news, marks(&board).as_str()), (false, "...."), "an impossible block");
}

#[test]
fn lost_and_retransmitted_segments_are_counted_out_and_in() {
    let mut board = sent(5);
    sack(&mut board, 2, 5);
    board.mark_lost(1, 50);
    assert_eq!((marks(&board).as_str(), books(&board)), ("L.SSS", [5, 3, 1, 0, 1]));
    retransmit(&mut board, 0, 9, 50);
    assert_eq!((marks(&board).as_str(), books(&board)), ("R.SSS", [5, 3, 1, 1, 2]));
    let acked = board.acknowledge(10);
    assert_eq!((acked.segments, acked.data, acked.retransmitted, acked.sent), (1, true, true, None));
    assert_eq!((marks(&board).as_str(), books(&board)), (".SSS", [4, 3, 0, 0, 1]));
    board.acknowledge(50);
    assert_eq!((books(&board), board.furthest_sacked()), ([0; 5], 0));
}

#[test]
fn sack_of_a_lost_segment_settles_its_retransmission() {
    let mut board = sent(3);
    board.mark_lost(2, 30);
    retransmit(&mut board, 0, 9, 30);
    sack(&mut board, 0, 1);
    assert_eq!((marks(&board).as_str(), books(&board)), ("SL.", [3, 1, 1, 0, 1]));
}

#[test]
fn sample_comes_from_the_oldest_segment_unless_one_was_retransmitted() {
    let mut board = sent(4);
    assert_eq!(board.acknowledge(20).sent, Some(0));
    retransmit(&mut board, 0, 9, 40);
    let acked = board.acknowledge(40);
    assert!(acked.retransmitted, "Karn's rule");
}

#[test]
fn ack_inside_a_segment_keeps_it() {
    let mut board = sent(3);
    assert_eq!(board.acknowledge(15).segments, 1);
    assert_eq!(board.queue.head().unwrap().seq, 10);
}

#[test]
fn mark_lost_takes_the_first_untagged_up_to_the_limit() {
    let mut board = sent(6);
    sack(&mut board, 1, 2);
    board.mark_lost(4, 30);
    assert_eq!(marks(&board), "LSL...");
}

#[test]
fn rfc_3517_wants_three_sacked_segments_above() {
    let mut board = sent(8);
    sack(&mut board, 2, 3);
    sack(&mut board, 4, 5);
    board.mark_lost_rfc3517(3);
    assert_eq!(marks(&board), "..S.S...");
    sack(&mut board, 6, 7);
    board.mark_lost_rfc3517(3);
    assert_eq!(marks(&board), "LLS.S.S.");
}

#[test]
fn retransmission_is_lost_when_three_segments_sent_after_it_are_reported() {
    let mut board = sent(5);
    sack(&mut board, 1, 5);
    board.mark_lost(1, 50);
    retransmit(&mut board, 0, 9, 50);
    (5..9).for_each(|number| board.queue.push(segment(number)));
    assert!(!board.mark_lost_retransmissions(70, 30));
    assert!(!board.mark_lost_retransmissions(79, 30));
    assert_eq!(marks(&board), "RSSSS....");
    board.mark_lost_retransmissions(80, 30);
    assert_eq!((marks(&board).as_str(), books(&board)), ("LSSSS....", [9, 4, 1, 0, 4]));
}

#[test]
fn lost_retransmission_of_a_segment_not_marked_lost_is_news() {
    let mut board = sent(5);
    retransmit(&mut board, 0, 9, 50);
    assert_eq!(books(&board), [5, 0, 0, 1, 6]);
    assert!(board.mark_lost_retransmissions(80, 30));
    assert_eq!((marks(&board).as_str(), books(&board)), ("L....", [5, 0, 1, 0, 4]));
}

#[test]
fn timed_out_means_older_than_the_timeout() {
    let mut board = sent(4);
    board.mark_timed_out(11, 9);
    assert_eq!(marks(&board), "LL..");
}

#[test]
fn timeout_marks_all_but_the_sacked_and_tells_of_earlier_retransmissions() {
    let mut board = sent(5);
    sack(&mut board, 2, 3);
    assert!(!board.mark_all_lost(u64::MAX));
    assert_eq!((marks(&board).as_str(), books(&board)), ("LLSLL", [5, 1, 4, 0, 0]));
    retransmit(&mut board, 0, 9, 50);
    board.queue.clear_retransmitted(false);
    assert!(board.mark_all_lost(30));
    assert_eq!((marks(&board).as_str(), books(&board)), ("LLS..", [5, 1, 2, 0, 2]));
    board.queue.clear_lost();
    assert_eq!((marks(&board).as_str(), books(&board)), ("..S..", [5, 1, 0, 0, 4]));
}

#[test]
fn dsack_counts_retransmissions_above_the_marker_only() {
    let mut board = sent(5);
    retransmit(&mut board, 1, 9, 50);
    retransmit(&mut board, 3, 9, 50);
    assert_eq!(apply(&mut board, 1, 2, true, Some(20)).duplicates, 0);
    assert_eq!(apply(&mut board, 3, 4, true, Some(20)).duplicates, 1);
    assert_eq!(apply(&mut board, 2, 3, true, Some(20)).duplicates, 0, "never retransmitted");
    assert_eq!(apply(&mut board, 3, 4, true, None).duplicates, 0, "no episode");
}

#[test]
fn next_to_retransmit_is_lost_and_next_hole_untagged() {
    let mut board = sent(6);
    sack(&mut board, 3, 5);
    board.mark_lost(2, 60);
    retransmit(&mut board, 0, 9, 60);
    assert_eq!(marks(&board), "RL.SS.");
    assert_eq!((board.next_lost(0), board.next_lost(2)), (Some(1), None));
    assert_eq!((board.next_hole(0), board.next_hole(3)), (Some(2), None));
}

/// An event of a scoreboard.
#[derive(Clone, Debug)]
enum Step {
    Send,
    Sack { start: u64, length: u64, duplicate: bool },
    Acknowledge(u64),
    MarkLost(u32),
    MarkRfc3517,
    TimedOut(Tick),
    AllLost(u64),
    ClearLost,
    ClearRetransmitted,
    LostRetransmissions(u64),
    RetransmitLost,
    RetransmitHole,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Send),
        4 => (0..40u64, 0..6u64, any::<bool>())
            .prop_map(|(start, length, duplicate)| Step::Sack { start, length, duplicate }),
        2 => (0..40u64).prop_map(Step::Acknowledge),
        2 => (0..4u32).prop_map(Step::MarkLost),
        1 => Just(Step::MarkRfc3517),
        1 => (0..40u64).prop_map(Step::TimedOut),
        1 => (0..400u64).prop_map(Step::AllLost),
        1 => Just(Step::ClearLost),
        1 => Just(Step::ClearRetransmitted),
        1 => (0..400u64).prop_map(Step::LostRetransmissions),
        3 => Just(Step::RetransmitLost),
        1 => Just(Step::RetransmitHole),
    ]
}

fn take(board: &mut Linux2Scoreboard, step: &Step, next: &mut u64) {
    match *step {
        Step::Send => {
            board.queue.push(segment(*next));
            *next += 1;
        }
        Step::Sack { start, length, duplicate } => {
            apply(board, start, start + length, duplicate, Some(start));
        }
        Step::Acknowledge(number) => {
            board.acknowledge(number * 10);
        }
        Step::MarkLost(count) => board.mark_lost(count, *next * 10),
        Step::MarkRfc3517 => board.mark_lost_rfc3517(3),
        Step::TimedOut(rto) => board.mark_timed_out(*next, rto),
        Step::AllLost(limit) => {
            board.mark_all_lost(limit);
        }
        Step::ClearLost => board.queue.clear_lost(),
        Step::ClearRetransmitted => board.queue.clear_retransmitted(true),
        Step::LostRetransmissions(furthest) => {
            board.mark_lost_retransmissions(furthest, 30);
        }
        Step::RetransmitLost => {
            if let Some(index) = board.next_lost(0) {
                retransmit(board, index, *next, *next * 10);
            }
        }
        Step::RetransmitHole => {
            if let Some(index) = board.next_hole(0) {
                retransmit(board, index, *next, *next * 10);
            }
        }
    }
}

proptest! {
    #[test]
    fn counters_equal_a_recount_whatever_happens(steps in prop::collection::vec(step(), 1..120)) {
        let mut board = Linux2Scoreboard::default();
        let mut next = 0;
        for step in &steps {
            take(&mut board, step, &mut next);
            let count = |mark: fn(&Linux2SentSegment) -> bool| segments(&board).filter(|s| mark(s)).count() as u32;
            prop_assert_eq!(board.sacked_out(), count(|s| s.sacked));
            prop_assert_eq!(board.queue.lost_out(), count(|s| s.lost));
            prop_assert_eq!(board.queue.retransmitted_out(), count(|s| s.retransmitted));
            prop_assert_eq!(count(|s| s.sacked && s.lost), 0);
            let sacked = segments(&board).zip(1..).filter(|(s, _)| s.sacked);
            let furthest = sacked.last().map_or(0, |(_, number)| number);
            prop_assert_eq!(board.furthest_sacked(), furthest);
            prop_assert!(board.in_flight() <= 2 * board.queue.outstanding());
        }
    }
}

//! Properties of two endpoints over any path, and of one endpoint under any input.

mod garbage;
mod path;

use lasthop_core::{Bytes, Duration, Seed, named};
use lasthop_tcp::{
    CachedMetrics, CongestionControl, FRtoMode, Pacing, Phase, PragueVersion, Profile, RecoveryRules,
    SizeLimit, Stack, TcpConfig,
};
use proptest::prelude::*;

use path::{Path, Transfer};

/// Any of these.
fn any_of<T: Clone + std::fmt::Debug + 'static>(values: Vec<T>) -> impl Strategy<Value = T> {
    prop::sample::select(values)
}

/// Any recovery rules that this stack supports.
fn recovery(stack: Stack) -> impl Strategy<Value = RecoveryRules> {
    any_of(named::<RecoveryRules>().into_iter().filter(|rules| rules.stack() == stack).collect())
}

/// The same with enough retries and time for a path that loses 30 %.
fn patient(config: TcpConfig) -> TcpConfig {
    TcpConfig {
        retries: 60,
        syn_retries: 60,
        fin_timeout: Duration::from_secs(60 * 20),
        rto_max: Duration::from_secs(20),
        ..config
    }
}

/// A configuration with random switches, and with enough retries and time for a path that loses 30 %.
fn config() -> impl Strategy<Value = TcpConfig> {
    let frto = any_of(named::<FRtoMode>());
    let recovery = recovery(Stack::Linux2);
    let growth = any_of(vec![CongestionControl::Reno, CongestionControl::Cubic]);
    let linux = (any::<[bool; 9]>(), frto, (recovery, growth), 1..12u32, 4..64u32).prop_map(
        |(
            [sack, dsack, timestamps, eifel, ecn, limited_transmit, first, early, quick],
            frto,
            (recovery, growth),
            window,
            receive_window,
        )| {
            let mut config: TcpConfig = toml::from_str(Profile::Linux24.toml()).expect("complete");
            config.sack = sack;
            config.dsack = dsack && sack;
            config.timestamps = timestamps;
            config.eifel = eifel && timestamps;
            config.ecn = ecn;
            config.limited_transmit = limited_transmit;
            config.first_segment_acked_at_once = first;
            config.early_retransmit = early;
            config.handshake_rtt = !early;
            config.joined_writes = early;
            config.quick_acks = quick;
            config.frto = frto;
            config.recovery = recovery;
            config.congestion_control = growth;
            config.initial_window = window;
            config.receive_window_max = receive_window;
            patient(config)
        },
    );
    prop_oneof![linux, modern(), classic()]
}

/// Like [`config`], for the sender of Linux 6.
fn modern() -> impl Strategy<Value = TcpConfig> {
    let growth = any_of(named::<CongestionControl>());
    let pacing = prop_oneof![Just(Pacing::Off), Just(Pacing::Socket), Just(Pacing::Fq), Just(Pacing::Never)];
    let send_buffer = prop_oneof![
        Just(SizeLimit::Infinite),
        (1..100_000u64).prop_map(|bytes| SizeLimit::Bytes(Bytes(bytes))),
    ];
    (any::<[bool; 9]>(), growth, (pacing, send_buffer), 1..12u32, 4..64u32).prop_map(
        |(
            [sack, dsack, timestamps, eifel, ecn, rack, probe, frto, newer],
            growth,
            (pacing, send_buffer),
            window,
            receive_window,
        )| {
            let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
            config.sack = sack;
            config.dsack = dsack && sack;
            config.timestamps = timestamps;
            config.eifel = eifel && timestamps;
            config.ecn = ecn || growth.needs_ecn();
            config.accurate_ecn = newer && config.ecn;
            config.hystart_plus_plus = newer && growth.has_slow_start();
            config.prague_version = if newer { PragueVersion::V0_6 } else { PragueVersion::V0_5 };
            config.rack = rack;
            config.tail_loss_probe = probe;
            config.frto = if frto { FRtoMode::Rfc5682Sack } else { FRtoMode::Off };
            config.congestion_control = growth;
            config.pacing = pacing;
            config.send_buffer = send_buffer;
            config.draws = Seed { study: 1, replication: 1 }.stream("control").into();
            config.initial_window = window;
            config.receive_window_initial = receive_window;
            config.receive_window_max = 2 * receive_window;
            patient(config)
        },
    )
}

/// Like [`config`], for the classic sender.
fn classic() -> impl Strategy<Value = TcpConfig> {
    let recovery = recovery(Stack::Classic);
    let ssthresh = prop_oneof![
        Just(SizeLimit::Infinite),
        (0..60_000u64).prop_map(|bytes| SizeLimit::Bytes(Bytes(bytes))),
    ];
    (any::<[bool; 5]>(), recovery, ssthresh, 1..12u32, 2..64u32, 1..4u32).prop_map(
        |(
            [sack, ecn, limited_transmit, guard, avoidance],
            recovery,
            ssthresh,
            window,
            receive_window,
            every,
        )| {
            let mut config: TcpConfig = toml::from_str(Profile::Ns1998.toml()).expect("complete");
            config.recovery = recovery;
            config.sack = sack || recovery == RecoveryRules::SackPipe;
            config.ecn = ecn;
            config.limited_transmit = limited_transmit;
            config.fast_retransmit_guard = guard;
            config.newreno_impatient = guard && config.recovery == RecoveryRules::Newreno;
            config.silly_window_avoidance = avoidance;
            config.initial_ssthresh = ssthresh;
            config.initial_window = window;
            config.receive_window_initial = receive_window;
            config.receive_window_max = receive_window;
            config.ack_every = every;
            patient(config)
        },
    )
}

fn cache() -> impl Strategy<Value = Option<CachedMetrics>> {
    let ssthresh = prop_oneof![Just(0), 2..40u32];
    let reordering = prop_oneof![Just(0), 3..8u32];
    let metrics = (ssthresh, 0..40u32, 0..4_000i64, 0..2_000i64, reordering).prop_map(
        |(ssthresh, cwnd, srtt_8, rttvar_4, reordering)| CachedMetrics {
            ssthresh,
            cwnd,
            srtt_8,
            rttvar_4,
            reordering,
        },
    );
    prop_oneof![Just(None), metrics.prop_map(Some)]
}

fn path(loss: std::ops::Range<u32>) -> impl Strategy<Value = Path> {
    (loss.clone(), loss, 1..1_500u64, 0..3_000u64, 0..50u32, any::<u64>()).prop_map(
        |(loss_down, loss_up, delay_millis, stall_millis, mark, seed)| Path {
            loss_percent: [loss_down, loss_up],
            delay_millis,
            stall_millis,
            mark_percent: mark,
            seed,
        },
    )
}

fn transfer(loss: std::ops::Range<u32>) -> impl Strategy<Value = Transfer> {
    let request = (prop_oneof![Just(0), 1..5_000u64], any::<bool>());
    let ends = (config(), config(), any::<bool>());
    (ends, cache(), path(loss), request, 0..80u64, 1..1_200u64).prop_map(
        |(
            (server, client, opened),
            cache,
            path,
            (request_bytes, client_closes_first),
            writes,
            write_bytes,
        )| Transfer {
            server,
            client,
            opened,
            cache,
            path,
            request_bytes,
            client_closes_first,
            bytes: (writes * write_bytes).saturating_sub(write_bytes / 3),
            write_bytes,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn every_byte_arrives_and_both_ends_close(transfer in transfer(0..30)) {
        let outcome = transfer.run();
        prop_assert_eq!(outcome.phases, [Phase::Closed, Phase::Closed]);
        prop_assert_eq!(outcome.received, [transfer.request_bytes, transfer.bytes]);
    }

    #[test]
    fn a_path_without_loss_and_stalls_costs_no_retransmission(mut transfer in transfer(0..1)) {
        transfer.path.stall_millis = 0;
        // Below a third of the initial timeout: only a delayed ACK could make the timer expire.
        transfer.path.delay_millis %= 400;
        // A delayed ACK of 300 ms triggers a probe.
        (transfer.server.tail_loss_probe, transfer.client.tail_loss_probe) = (false, false);
        let outcome = transfer.run();
        prop_assert_eq!(outcome.received, [transfer.request_bytes, transfer.bytes]);
        prop_assert_eq!(outcome.fast_retransmissions, 0);
    }

    #[test]
    fn a_path_that_loses_much_ends_in_closing_or_giving_up(mut transfer in transfer(20..100)) {
        transfer.request_bytes = 0;
        transfer.server.retries = 6;
        transfer.server.syn_retries = 4;
        let outcome = transfer.run();
        let [server, client] = outcome.phases;
        let ended = |phase| matches!(phase, Phase::Closed | Phase::Aborted);
        prop_assert!(ended(server), "{:?}", outcome.phases);
        // A receiver whose peer gave up waits forever: there is no keep-alive.
        prop_assert!(ended(client) || server == Phase::Aborted, "{:?}", outcome.phases);
        if server == Phase::Closed {
            prop_assert_eq!(outcome.received, [transfer.request_bytes, transfer.bytes]);
        }
    }

    #[test]
    fn same_inputs_give_the_same_packets(transfer in transfer(0..30)) {
        prop_assert_eq!(transfer.run(), transfer.run());
    }
}

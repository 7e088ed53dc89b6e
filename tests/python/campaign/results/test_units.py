"""Words, units and scales of metrics."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasthop.common.metrics.units import axis_title, human, label, scale, scale_of


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("throughput_Bps", 7162.5, "57.3 kbit/s"),
        ("throughput_Bps", 1_250_000, "10.0 Mbit/s"),
        ("throughput_Bps", 12.5, "0.100 kbit/s"),
        ("sent_bytes", 1_204_000, "1.20 MB"),
        ("sent_bytes", 35_000_000, "35.0 MB"),
        ("sent_bytes", 524, "524.0 B"),
        ("elapsed_s", 31.94, "31.9 s"),
        ("elapsed_s", 0.0, "0 s"),
        ("elapsed_s", 1234.5, "1234 s"),
        ("rtt_min_s", 0.012, "12.0 ms"),
        ("jitter_p50_ms", 1500.0, "1.50 s"),
        ("jitter_p50_ms", 0.25, "250.0 µs"),
        ("retransmitted_packets", 12.0, "12 packets"),
        ("retransmitted_packets", 12.5, "12.5 packets"),
        ("timeouts", 0.0, "0"),
        ("lost_per_packet", 0.0123, "1.23 %"),
        ("timeouts_per_flow", 0.25, "0.250"),
        ("fairness_jain", 0.9942, "0.994"),
        ("response_time_change_percent", -3.26, "-3.26 %"),
        ("elapsed_s", None, "-"),
        ("elapsed_s", math.nan, "-"),
    ],
)
def test_a_value_is_written_in_the_unit_that_suits_it(metric: str, value: float | None, text: str) -> None:
    assert human(metric, value) == text


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("elapsed_s", "elapsed time"),
        ("data_drops_queue", "queue drops"),
        ("ack_drops_error", "link losses of ACKs"),
        ("drops_congestion", "congestion drops"),
        ("queue_delay_p95_s", "p95 of queueing delay"),
        ("rtt_median_s", "median round-trip time"),
        ("one_new_metric", "one new metric"),
    ],
)
def test_a_metric_has_a_name_in_words(metric: str, words: str) -> None:
    assert label(metric) == words


def test_a_column_has_one_scale() -> None:
    column = scale_of("throughput_Bps", [125.0, None, 200_000.0])
    assert column.unit == "Mbit/s"
    assert [column.number(value) for value in (125.0, 200_000.0, None)] == ["0.0010", "1.60", "-"]
    assert axis_title("throughput_Bps", column) == "throughput (Mbit/s)"
    assert axis_title("data_drops_queue", scale_of("data_drops_queue", [3])) == "queue drops"


def test_a_difference_shows_its_sign_and_zero_has_none() -> None:
    seconds = scale("s", [31.9])
    assert seconds.text(-3.14, signed=True) == "-3.14 s"
    assert seconds.text(3.14, signed=True) == "+3.14 s"
    assert seconds.text(-1e-9, signed=True) == "0 s"


@pytest.mark.parametrize(("error", "decimals"), [(3.0, 1), (0.31, 2), (0.0012, 4), (45.0, 0), (1e-9, 6)])
def test_a_value_with_an_error_shows_two_digits_of_it(error: float, decimals: int) -> None:
    assert scale("s", [31.9]).decimals_of(error) == decimals


@given(st.sampled_from(["s", "ms", "B", "B/s", "bit/s"]), st.floats(1e-3, 1e12))
def test_the_largest_number_of_a_column_is_short(unit: str, value: float) -> None:
    chosen = scale(unit, [value, value / 2])
    assert len(chosen.number(value)) <= 6 or value * chosen.factor >= 1e4
    assert float(chosen.number(value)) == pytest.approx(value * chosen.factor, rel=0.01, abs=1e-3)


@pytest.mark.parametrize(
    ("metric", "title"),
    [
        ("printed_end_sum_received_bits_per_second", "end sum received rate (Mbit/s)"),
        ("printed_end_sum_sent_bytes", "end sum sent size (MB)"),
        ("printed_end_sum_sent_seconds", "end sum sent time (s)"),
        ("printed_rtt_ms", "rtt (s)"),
        ("printed_took_all_s", "took all (s)"),
        ("printed_bytes", "size (MB)"),
        ("printed_bytes_per_second", "rate (Mbit/s)"),
        ("printed_cpu_busy_percent", "cpu busy share (%)"),
        # No unit is invented.
        ("printed_requests_per_second", "requests per second"),
        ("printed_speed_bits_s", "speed bits s"),
        ("printed_start_timesecs", "start timesecs"),
        ("printed_s", "s (s)"),
    ],
)
def test_a_printed_number_is_called_by_its_keys_and_has_the_unit_that_they_name(
    metric: str, title: str
) -> None:
    values = [3e6, 1e6]
    assert axis_title(metric, scale_of(metric, values)) == title

"""The story of a flow of datagrams in words: delays, missing datagrams, and the quality of a call."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lasthop.analysis.explain.facts import BadPeriod, link_changes
from lasthop.analysis.explain.packets import Packets
from lasthop.analysis.explain.tell import tell_link_change
from lasthop.analysis.explain.udp import LINK, QUEUE, Datagram, Gap, Heard, Rise, Stage, UdpFacts
from lasthop.analysis.explain.words import Entry, Story, clock, ends_of, length, rate, tries
from lasthop.common.metrics.labels import DROP_CAUSES, DROP_COUNTS
from lasthop.common.metrics.units import counted, listed

_ALWAYS_TOLD = ("drops_queue", "drops_red", "drops_error")
_LENGTHS_SHOWN = _FLOWS_SHOWN = 6
_MATTERS = 0.1
"""A stage is mentioned if it accounts for this share of a datagram's delay beyond that of the fastest."""
_SATISFACTION = (
    (90, "users are very satisfied"),
    (80, "users are satisfied"),
    (70, "some users are dissatisfied"),
    (60, "many users are dissatisfied"),
    (50, "nearly all users are dissatisfied"),
)
"""Lower bounds of the rating R, and users' satisfaction from there on (ITU-T G.107, Annex B)."""


def tell_udp(story: UdpFacts, packets: Packets, names: Sequence[str]) -> Story:
    """Return the story; `names` are the names of all flows."""
    name = story.record["flow"]
    if not story.datagrams:
        return Story(
            name, f"{name}: no datagram was sent, because the handshake of the connection did not complete."
        )
    thing = "datagram" if story.heard is None else "frame"
    first, last = story.datagrams[0], story.datagrams[-1]
    entries = [Entry(first.sent_ns, _first(story, packets, names, thing))]
    if story.handshake is not None:
        entries.insert(0, Entry(story.handshake.sent.ns, "The handshake of the connection began."))
    entries += [_rise(rise, story, packets, names, thing) for rise in story.rises]
    entries += [_missing(gaps, story.heard, packets, thing) for gaps in story.gaps]
    entries += [Entry(periods[0].start_ns, _bad(periods)) for periods in story.bad_periods]
    changes = link_changes(packets.facts, story.record["application"], (first.sent_ns, last.sent_ns))
    entries += [Entry(part.ns, part.text) for part in map(tell_link_change, changes)]
    entries.append(Entry(last.sent_ns, f"Last {thing}, number {last.number}, sent."))
    summary = [*_summary(story), *(_call(story, story.heard) if story.heard else ())]
    return Story(name, _head(story, thing), sorted(entries, key=lambda entry: entry.ns), summary)


def _head(story: UdpFacts, thing: str) -> str:
    ends = ends_of(story.record, story.direction)
    over = "UDP" if story.handshake is None else "QUIC (RFC 9221)"
    sizes = [packet.payload_bytes // (packet.end - packet.seq) for packet in story.packets]
    size = str(sizes[0]) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    number = counted(len(story.datagrams), thing)
    head = f"{story.record['flow']}: {over}, {ends}, {number} of {size} bytes, numbered from 0."
    if story.heard is not None:
        voice = story.heard.voice
        head += f" It is a call: a {voice['codec']} frame every {length(voice['frame_ns'])}."
    if story.handshake is not None and len(story.packets) < len(story.datagrams):
        head += f" Congestion control let them leave in {counted(len(story.packets), 'packet')}."
    return head


def _first(story: UdpFacts, packets: Packets, names: Sequence[str], thing: str) -> str:
    text = f"{thing.capitalize()} {story.datagrams[0].number} sent."
    if not story.arrived:
        return text
    least, most = (pick(datagram.delay_ns or 0 for datagram in story.arrived) for pick in (min, max))
    text += f" The fastest {thing} takes {length(least)}"
    text += f", {length(most - least)} less than the slowest" if most > least else ", as all others do"
    queued = [
        _in_queue(story.fastest, stage, packets, names)
        for stage, ns in story.fastest.stages_ns().items()
        if stage.where == QUEUE and ns > _MATTERS * least
    ]
    text += f": {'; '.join(queued)}." if queued else "."
    if story.heard is not None and story.heard.first_ns is not None:
        voice, first = story.heard.voice, story.heard.first_ns
        text += (
            f" The first {thing} to arrive takes {length(first)} and waits "
            f"{length(voice['jitter_buffer_ns'])} in the jitter buffer, so every {thing} is due for playout "
            f"{length(first + voice['jitter_buffer_ns'])} after it was sent; later ones are too late."
        )
    return text


def _rise(rise: Rise, story: UdpFacts, packets: Packets, names: Sequence[str], thing: str) -> Entry:
    worst, first, last = rise.worst, rise.datagrams[0], rise.datagrams[-1]
    slow = (
        f"{rise.slow} of {len(rise.datagrams)} {thing}s take"
        if len(rise.datagrams) > 1
        else f"1 {thing} takes"
    )
    begins = "Delay is high from the start" if first is story.arrived[0] else "Delay rises"
    text = f"{begins}: {slow} {length(rise.over_ns)} or more"
    text += f", the last sent at {clock(last.sent_ns)}" if last is not first else ""
    why = "; ".join(_stages(worst, story, packets, names))
    at = f", sent at {clock(worst.sent_ns)}," if worst not in (first, last) else ""
    text += f". {thing.capitalize()} {worst.number}{at} takes longest, {length(worst.delay_ns or 0)}: {why}."
    if rise.recovered is not None:
        recovered = f"{thing} {rise.recovered.number}, sent at {clock(rise.recovered.sent_ns)}"
        text += f" Delay has fallen to {length(rise.recovered.delay_ns or 0)} by {recovered}."
    else:
        text += f" Delay stays high until the last {thing}."
    return Entry(first.sent_ns, text, [worst.sent_ns])


def _stages(worst: Datagram, story: UdpFacts, packets: Packets, names: Sequence[str]) -> Iterator[str]:
    """Yield the stages where a datagram stayed longer than others, with the reasons."""
    spent = worst.stages_ns()
    # Other packets cause all of the time in a queue, even the part that every datagram spends there.
    longer = {
        stage: ns if stage.where == QUEUE else ns - story.least_ns[stage] for stage, ns in spent.items()
    }
    for stage in (stage for stage, ns in longer.items() if ns > _MATTERS * sum(longer.values())):
        if stage.where == QUEUE:
            yield _in_queue(worst, stage, packets, names)
            continue
        text = f"{length(spent[stage])} {stage.where}{packets.at_hop(stage.place)}"
        crossing = worst.crossing(stage.place) if stage.where == LINK else None
        if crossing is not None and crossing.retries:
            text += f", where {tries(len(crossing.retries))} failed"
        elif crossing is not None and (held := packets.held_before(crossing)):
            text += f", behind {counted(held, 'packet')} that ARQ held"
        yield text


def _in_queue(datagram: Datagram, stage: Stage, packets: Packets, names: Sequence[str]) -> str:
    """Describe how long a datagram was in a queue and behind how many packets of each flow, most first."""
    assert datagram.packet is not None
    text = f"{length(datagram.stages_ns()[stage])} {QUEUE}{packets.at_hop(stage.place)}"
    ahead = packets.served_while_waiting(datagram.crossing(stage.place)).most_common()
    sources = [
        (names[flow] if flow != datagram.packet.flow else "its own flow", number) for flow, number in ahead
    ]
    if len(sources) > _FLOWS_SHOWN:
        others = sum(number for _, number in sources[_FLOWS_SHOWN:])
        sources[_FLOWS_SHOWN:] = [(f"{len(sources) - _FLOWS_SHOWN} other flows", others)]
    whose = [
        f"{number if place else counted(number, 'packet')} of {who}"
        for place, (who, number) in enumerate(sources)
    ]
    return f"{text}, behind {listed(whose)}" if whose else f"{text}, until the link had room"


def _missing(gaps: Sequence[Gap], heard: Heard | None, packets: Packets, thing: str) -> Entry:
    missing = [datagram for gap in gaps for datagram in gap.datagrams]
    first, last = missing[0], missing[-1]
    times = [
        datagram.packet.dropped.ns
        for datagram in missing
        if datagram.packet is not None and datagram.packet.dropped is not None
    ]
    held = _held(missing, packets)
    fates = listed(list(_fates(missing, heard, packets)))
    one_gap = f"{thing} {first.number}" if len(missing) == 1 else f"{thing}s {first.number}-{last.number}"
    if len(gaps) == 1:
        return Entry(first.sent_ns, f"Gap of {length(gaps[0].lasted_ns)}: {one_gap}, {fates}.{held}", times)
    longest = max(gaps, key=lambda gap: gap.lasted_ns)
    run = f"{counted(len(longest.datagrams), thing)} from number {longest.datagrams[0].number} on"
    text = (
        f"{len(gaps)} gaps, to {clock(last.sent_ns)}: {len(missing)} of {last.number - first.number + 1} "
        f"{thing}s, "
    )
    text += f"{fates}. The longest, of {run}, lasts {length(longest.lasted_ns)}.{held}"
    return Entry(first.sent_ns, text, times)


def _fates(missing: Sequence[Datagram], heard: Heard | None, packets: Packets) -> Iterator[str]:
    causes = Counter(_cause(datagram, packets) for datagram in missing if datagram.is_lost)
    if causes:
        parts = [cause if len(causes) == 1 else f"{number} {cause}" for cause, number in causes.items()]
        yield f"{causes.total()} lost ({', '.join(parts)})"
    late = (
        []
        if heard is None
        else [heard.late_ns[datagram.number] for datagram in missing if not datagram.is_lost]
    )
    if late:
        yield f"{len(late)} late by {'' if len(late) == 1 else 'up to '}{length(max(late))}"


def _cause(lost: Datagram, packets: Packets) -> str:
    if lost.packet is None:
        return "given up by the sender"
    if lost.packet.cause is None:
        return "discarded, because the connection was not yet established or already closed"
    return DROP_CAUSES[lost.packet.cause].words + packets.at_hop(lost.packet.dropped_at)


def _held(missing: Iterable[Datagram], packets: Packets) -> str:
    lost = [
        datagram.packet
        for datagram in missing
        if datagram.packet is not None and datagram.packet.cause is not None
    ]
    queued = [packets.queue_at_drop[p.serial].packets for p in lost if not DROP_CAUSES[p.cause or ""].on_link]
    return f" The queue held {counted(max(queued), 'packet')}." if queued else ""


def _bad(periods: Sequence[BadPeriod]) -> str:
    failed, lost = sum(period.failed_tries for period in periods), sum(period.lost for period in periods)
    bad = length(sum(period.end_ns - period.start_ns for period in periods))
    text = f"{periods[0].what} bad for {bad}"
    text += f" in {len(periods)} periods" if len(periods) > 1 else ""
    text += f", until {clock(periods[-1].end_ns)}: "
    return f"{text}{tries(failed)} to send datagrams failed, {counted(lost, 'datagram')} lost."


def _summary(story: UdpFacts) -> Iterator[str]:
    record = story.record
    what = "datagram" if story.handshake is None else "packet"
    lost = record["sent_packets"] - record["received_packets"]
    share = 100 * lost / record["sent_packets"]
    dropped = Counter(DROP_CAUSES[packet.cause].count for packet in story.packets if packet.cause is not None)
    causes = ", ".join(
        f"{dropped[name]} {label}"
        for name, label in DROP_COUNTS.items()
        if dropped[name] or name in _ALWAYS_TOLD
    )
    yield (
        f"Summary: {record['outcome']}, {record['received_packets']} of "
        f"{counted(record['sent_packets'], what)} arrived, {lost} did not ({share:.2f} %): {causes}."
    )
    gaps = [gap for episode in story.gaps for gap in episode]
    if gaps:
        yield _lengths(gaps)
    if record["one_way_delay_p50_s"] is not None:
        quantiles = [("median", "p50"), ("95 %", "p95"), ("99 %", "p99")]
        delays = ", ".join(
            f"{label} {1e3 * record[f'one_way_delay_{name}_s']:.3f} ms" for label, name in quantiles
        )
        yield f"One-way delay: {delays}."
    for name, label in (
        ("spacing", "Spacing of consecutive datagrams at the receiver"),
        ("jitter", "Jitter"),
    ):
        if record[f"{name}_p50_ms"] is not None:
            quantiles = [("median", "p50"), ("75 %", "p75"), ("90 %", "p90"), ("greatest", "max")]
            values = ", ".join(f"{of} {record[f'{name}_{quantile}_ms']:.3f} ms" for of, quantile in quantiles)
            yield f"{label}: {values}."
    if record["throughput_Bps"] is not None:
        yield f"Throughput: {rate(record['throughput_Bps'])}, UDP headers included."


def _lengths(gaps: Sequence[Gap]) -> str:
    lengths = sorted(Counter(len(gap.datagrams) for gap in gaps).items())
    parts = [f"{number} of {size}" for size, number in lengths[:_LENGTHS_SHOWN]]
    if len(lengths) > _LENGTHS_SHOWN:
        longer = sum(number for _, number in lengths[_LENGTHS_SHOWN:])
        parts.append(f"{longer} longer ones, up to {lengths[-1][0]}")
    return f"Gaps by length: {', '.join(parts)}."


def _call(story: UdpFacts, heard: Heard) -> Iterator[str]:
    """Yield the effect of these delays and losses on a call."""
    mos = story.record["mos"]
    late = len(heard.late_ns)
    played, fates = heard.frames - heard.lost - late, {"lost": heard.lost, "late": late}
    shares = [f"{number} {fate} ({100 * number / heard.frames:.2f} %)" for fate, number in fates.items()]
    text = f"Played: {played} of {counted(heard.frames, 'frame')}; {', '.join(shares)}."
    if heard.delay_ns is None or heard.first_ns is None:
        yield text
        yield f"Verdict: MOS {mos:.2f}, the listener hears nothing."
        return
    voice = heard.voice
    if late:
        buffer = voice["jitter_buffer_ns"] + max(heard.late_ns.values())
        text += f" With a jitter buffer of {length(buffer)} none would have been late."
    text += _audible(story, voice["conceals_ns"])
    yield text
    yield (
        f"Mouth-to-ear delay: {length(heard.delay_ns)} ({length(voice['codec_delay_ns'])} codec, "
        f"{length(heard.first_ns)} network, {length(voice['jitter_buffer_ns'])} jitter buffer)."
    )
    best = heard.rating + heard.delay_cost + heard.missing_cost
    bursts = (
        f", in gaps {heard.burst_ratio:.2f} times as long as with independent losses" if story.gaps else ""
    )
    yield (
        f"E-model (ITU-T G.107): R is {heard.rating:.2f}. Of {best:.2f} points the delay costs "
        f"{heard.delay_cost:.2f}, and missing frames cost {heard.missing_cost:.2f}{bursts}."
    )
    yield f"Verdict: MOS {mos:.2f}, {_verdict(heard)}."


def _audible(story: UdpFacts, fills_ns: int | None) -> str:
    lengths = [gap.lasted_ns for episode in story.gaps for gap in episode]
    if not lengths:
        return " The speech has no gap."
    text = (
        f" The speech has {counted(len(lengths), 'gap')} of "
        f"{'up to ' if len(lengths) > 1 else ''}{length(max(lengths))}"
    )
    if fills_ns is None:
        return f"{text}."
    longer = sum(gap > fills_ns for gap in lengths)
    return f"{text}, {longer or 'none'} longer than the {length(fills_ns)} that the codec can conceal."


def _verdict(heard: Heard) -> str:
    means = next(
        (words for least, words in _SATISFACTION if heard.rating >= least), "not fit for a conversation"
    )
    if max(heard.delay_cost, heard.missing_cost) < 1:
        return means
    if heard.delay_cost > heard.missing_cost:
        return f"{means}, mainly because of the delay"
    cause = "late" if len(heard.late_ns) > heard.lost else "lost"
    return f"{means}, mainly because of {cause} frames"

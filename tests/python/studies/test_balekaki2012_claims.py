"""The encoded claims of balekaki2012, against the list of the study's statements."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest

from claims_tools import Cell, Scenario
from lasthop.analysis.claims.evaluate import Outcome, evaluate
from lasthop.analysis.claims.records import Records
from lasthop.studies.claims.file import Claim, Claims, load_claims

STUDY = Path(__file__).resolve().parents[3] / "studies" / "balekaki2012"
FACTORS = {
    "link": ["64k", "1m"],
    "pattern": ["constant", "varying", "mixed"],
    "window": ["iw3", "iw10", "hybrid"],
    "packets": ["9", "10", "21", "22"],
    "congestion": ["60", "65", "70", "75", "80", "85", "90", "95", "tcp"],
}

COMPARED_WITH = {"SV33": {"9"}, "HV09": {"9", "10"}, "HV12": {"9", "10"}}
"""Sizes that a claim mentions without being about them."""


NO_NUMBER = {"B042", "B074"}
"""Claims that state why no number in the records answers them."""


def has(levels: dict[str, str]) -> bool:
    """A long TCP flow sets its own level of congestion."""
    return (levels["pattern"] == "varying") == (levels["congestion"] == "tcp")


COMBINATIONS = [dict(zip(FACTORS, levels, strict=True)) for levels in itertools.product(*FACTORS.values())]
SCENARIO = Scenario(FACTORS, [Cell(levels) for levels in COMBINATIONS if has(levels)])


@pytest.fixture(scope="module")
def encoded() -> Claims:
    return load_claims(STUDY / "claims.toml", SCENARIO)


@pytest.fixture(scope="module")
def published() -> list[dict[str, str]]:
    return pl.read_csv(STUDY / "published_claims.csv", infer_schema=False).fill_null("").rows(named=True)


@pytest.fixture(scope="module")
def listed(encoded: Claims, published: list[dict[str, str]]) -> list[Claim]:
    """Return the claims of the list; the others answer sentences that no claim of the list covers."""
    ids = {row["id"] for row in published}
    return [claim for claim in encoded.claims if claim.id in ids]


def short_flows(levels: dict[str, str], replication: int) -> list[dict[str, object]]:
    """Generate flows that get the remaining share of the link; with IW10 they are a tenth slower."""
    level = 70.0 if levels["congestion"] == "tcp" else float(levels["congestion"])
    applications = ["iw3", "iw10"] if levels["window"] == "hybrid" else [levels["window"]]
    rows = []
    for application in applications:
        slower = 1.1 if application == "iw10" else 1.0
        time = slower * int(levels["packets"]) * 0.2 * 100 / (100 - level) + 0.01 * replication
        rows.append(
            levels
            | {"set": 1, "replication": replication, "application": application}
            | {
                "fct_mean_s": time,
                "throughput_mean_Bps": 12000 / time,
                "sent_packets": 1000,
                "lost_packets": 20,
            }
            | {
                "retransmitted_packets": 40,
                "timeouts": 20 if application == "iw10" else 10,
                "fast_retransmits": 2,
            }
        )
    return rows


@pytest.fixture(scope="module")
def outcomes(encoded: Claims) -> dict[str, Outcome]:
    cells = [(cell.levels, replication) for cell in SCENARIO.cells for replication in (1, 2, 3)]
    shorts = [row for levels, replication in cells for row in short_flows(levels, replication)]
    whole = {
        "utilisation": 0.95,
        "background_share": 0.68,
        "queue_mean_packets": 30.0,
        "queue_max_packets": 40,
    }
    runs = [levels | {"set": 1, "replication": replication} | whole for levels, replication in cells]
    flows = [
        levels | {"set": 1, "replication": replication, "role": role, "throughput_Bps": share * 8000}
        for levels, replication in cells
        for role, share in {"udp": 0.89, "long": 0.0579}.items()
    ]
    tables = {"runs": pl.DataFrame(runs), "shorts": pl.DataFrame(shorts), "flows": pl.DataFrame(flows)}
    records = Records(tables, encoded.factors)
    return {outcome.claim.id: outcome for outcome in evaluate(encoded, records)}


def test_every_claim_is_encoded_under_its_id_section_and_words(
    listed: list[Claim], published: list[dict[str, str]]
) -> None:
    assert len(published) == 131
    assert [(claim.id, claim.section, claim.text) for claim in listed] == [
        (row["id"], row["section"], row["claim"]) for row in published
    ]


def test_other_claims_are_sentences_of_the_study(encoded: Claims, listed: list[Claim]) -> None:
    others = [claim for claim in encoded.claims if claim not in listed]
    assert len(others) == 66
    sentences = {sentence.id: sentence for sentence in encoded.sentences}
    for claim in others:
        assert claim.statements == (claim.id,)
        assert (claim.section, claim.text) == (sentences[claim.id].section, sentences[claim.id].text), (
            claim.id
        )


def test_contradictions_are_those_of_the_list(
    encoded: Claims, listed: list[Claim], published: list[dict[str, str]]
) -> None:
    contradictions = {row["id"]: tuple(filter(None, row["contradicts"].split(";"))) for row in published}
    assert {claim.id: claim.contradicts for claim in listed} == contradictions
    assert set(encoded.elsewhere) == {other for others in contradictions.values() for other in others} - set(
        contradictions
    )


def places(claim: Claim, factor: str) -> set[str]:
    """Return the levels of a factor over all cells that take part in a claim."""
    index = list(FACTORS).index(factor)
    return {key[index] for laid in claim.holds for key in laid.needed}


def test_claims_are_about_the_slow_link_the_patterns_and_the_sizes_of_the_list(
    listed: list[Claim], published: list[dict[str, str]]
) -> None:
    for claim, row in zip(listed, published, strict=True):
        assert claim.holds, claim.id
        assert places(claim, "link") == {"64k"}, claim.id
        patterns = set(FACTORS["pattern"]) if row["pattern"] == "all" else set(row["pattern"].split(";"))
        # A congestion level in per cent does not belong to the varying pattern.
        assert places(claim, "pattern") in (patterns, patterns - {"varying"}), claim.id
        sizes = set(row["flow_packets"].replace(" vs ", ";").replace(" ", "").split(";"))
        assert places(claim, "packets") <= sizes | COMPARED_WITH.get(claim.id, set()), claim.id
        hybrid = "hybrid" in places(claim, "window")
        assert hybrid == ("hybrid" in row["windows"]), claim.id


@pytest.mark.parametrize(
    ("text", "low", "high"), [("60-90 %", 60, 90), ("60-80 %", 60, 80), (">80 %", 85, 95)]
)
def test_ranges_of_congestion_are_those_of_the_list(
    listed: list[Claim], published: list[dict[str, str]], text: str, low: int, high: int
) -> None:
    ids = {row["id"] for row in published if row["congestion_range"] == text}
    assert ids
    for claim in listed:
        # A slope from 80 % on starts there.
        if claim.id in ids - {"HC08"}:
            assert places(claim, "congestion") == {str(level) for level in range(low, high + 1, 5)}, claim.id


def test_every_claim_can_be_computed(outcomes: dict[str, Outcome]) -> None:
    computed = {"upheld", "not upheld", "undecided"}
    assert {name for name, outcome in outcomes.items() if outcome.verdict not in computed} == NO_NUMBER
    without = [
        name for name, outcome in outcomes.items() if outcome.decisive is None or not outcome.decisive.bounds
    ]
    assert set(without) == NO_NUMBER


@pytest.mark.parametrize(
    ("ids", "verdict"),
    [
        # IW10 is slower by a tenth, for all sizes.
        (
            "SC01 SC02 SC03 SC04 SC08 SC09 SC13 SC14 SC15 SC18 SC20 HC01 HC06 HV01 HV02 HV03 G01 G02 G07 G13 "
            "G15",
            "upheld",
        ),
        ("SC05 SC06 SC16 SC17 SV11 SV12 SV17 HC03 HC07 HV06 G03 G14", "not upheld"),
        # Losses are 20, retransmissions 40, timeouts 10 and 20.
        ("SC27 SC30 SC34 SV30 SV32 HV16 HC22", "upheld"),
        ("SC22 SC23 SC26 SC28 SC29 HC20 G06", "not upheld"),
        # The background has 68 %.
        ("SV01 SV16", "upheld"),
        ("SV02 SV15 SV03", "not upheld"),
        # Under mixed congestion as well; the stream has 90 % and the long transfer 6 % of the link, the queue
        # is full.
        ("B005 B095 B096 B098 B099 B190 B219 B221", "upheld"),
        ("B007 B033 B097 B108 B129 B130 B214 B218 B226", "not upheld"),
    ],
)
def test_verdicts_follow_artificial_records(outcomes: dict[str, Outcome], ids: str, verdict: str) -> None:
    assert {name: outcomes[name].verdict for name in ids.split()} == dict.fromkeys(ids.split(), verdict)

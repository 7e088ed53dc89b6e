"""Properties of claims that hold for all records."""

from __future__ import annotations

import itertools
import tempfile
from functools import cache
from pathlib import Path

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from claims_tools import ORDERS, rows, scenario
from lasthop.analysis.claims.evaluate import Outcome, evaluate
from lasthop.analysis.claims.records import Records
from lasthop.studies.claims.file import Claims, load_claims

STUDY = scenario(ORDERS)
CELLS = list(itertools.product(*ORDERS.values()))
# Few values, so that ties and constant cells come up.
VALUES = st.one_of(st.sampled_from([0.0, 1.0, 1.5]), st.floats(-10, 10, allow_nan=False, width=32))


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    replications = draw(st.integers(2, 6))
    cell = st.lists(VALUES, min_size=replications, max_size=replications)
    return rows({key: draw(cell) for key in CELLS}, ORDERS)


def read(table: pl.DataFrame) -> Records:
    return Records({"runs": table}, list(ORDERS))


# Values that are evaluated more than once are read once.
RECORDS = tables().map(read)


@cache
def claim(body: str) -> Claims:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "claims.toml"
        file.write_text(f'[[claim]]\nid = "C"\ntext = "said"\n{body}\n', encoding="utf-8")
        return load_claims(file, STUDY)


def verdict(body: str, records: Records) -> Outcome:
    (outcome,) = evaluate(claim(body), records)
    return outcome


SIDES = ("time_s(variant=a)", "time_s(variant=b)")
MEDIANS = tuple(f"median({side})" for side in SIDES)
QUANTIFIERS = ("", 'every = ["load"]', 'some = ["load"]')


@given(
    st.sampled_from([SIDES, MEDIANS]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([(">", "<="), ("<", ">="), (">", "<")]),
    RECORDS,
)
@settings(max_examples=300)
def test_a_claim_and_its_negation_are_never_both_upheld(
    sides: tuple[str, str], quantifier: int, relations: tuple[str, str], records: Records
) -> None:
    """If a statement holds at every level, its negation fails at some level."""
    relation, negation = relations
    left, right = sides
    claim = verdict(f'holds = "{left} {relation} {right}"\n{QUANTIFIERS[quantifier]}', records)
    denied = QUANTIFIERS[{0: 0, 1: 2, 2: 1}[quantifier]]
    other = verdict(f'holds = "{left} {negation} {right}"\n{denied}', records)
    assert [claim.verdict, other.verdict] != ["upheld", "upheld"]


@given(records=RECORDS)
def test_nothing_rises_and_falls(records: Records) -> None:
    both = [
        verdict(f"holds = \"{trend}(time_s(), load='60..90')\"", records)
        for trend in ("increases", "decreases")
    ]
    assert [outcome.verdict for outcome in both].count("upheld") <= 1


STATEMENTS = (
    "time_s(variant=a) > time_s(variant=b)",
    "abs(time_s(variant=a) - time_s(variant=b)) < abs(time_s(variant=a) - time_s(variant=c))",
    "increases(time_s(variant=a), load='60..90')",
    "slope(time_s(variant=a), load='60..80') < greatest(time_s(load=60), variant=[b, c])",
    "iqr(time_s(variant=a)) < iqr(time_s(), variant=[b, c])",
    "fraction(time_s(variant=a) > time_s(variant=b)) > 0.5",
    "time_s(variant=a, replication=1) > time_s(variant=a, replication='2..')",
    "explained(time_s(), variant=[a, b, c], load='60..90') > explained(time_s(), load='60..90', variant=[a, "
    "b, c])",
)


@given(table=tables(), order=st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table: pl.DataFrame, order: object) -> None:
    numbers = list(range(table.height))
    order.shuffle(numbers)  # type: ignore[attr-defined]
    records = read(table), read(table[numbers])
    for statement in STATEMENTS:
        here, shuffled = (verdict(f'holds = "{statement}"', one) for one in records)
        assert here.verdict == shuffled.verdict, statement
        assert here.decisive == shuffled.decisive, statement


@given(records=RECORDS)
def test_the_sides_may_change_places(records: Records) -> None:
    left, right = SIDES
    one, other = (
        verdict(f'holds = "{text}"', records) for text in (f"{left} > {right}", f"{right} < {left}")
    )
    assert one.verdict == other.verdict


@given(records=RECORDS)
def test_shares_of_opposites_add_up_to_one(records: Records) -> None:
    left, right = SIDES
    body = f'holds = "fraction({left} > {right}) + fraction({left} <= {right}) == 1"\nwithin = 0.001'
    assert verdict(body, records).verdict == "upheld"


@given(records=RECORDS)
def test_factors_explain_no_more_than_all_of_the_variation(records: Records) -> None:
    factors = ("variant=[a, b, c]", "load='60..90'")
    shares = [f"explained(time_s(), {one}, {other})" for one, other in itertools.permutations(factors)]
    outcome = verdict(f'holds = "{" + ".join(shares)} <= 1"\nwithin = 0.000001', records)
    part = outcome.decisive
    assert part is not None
    assert part.left is None or -1e-9 <= part.left <= 1 + 1e-9


@given(records=RECORDS)
def test_quantiles_go_up(records: Records) -> None:
    term = "time_s(variant=a)"
    outcome = verdict(
        f'holds = "quantile({term}, 0.25) <= median({term}) <= quantile({term}, 0.75)"', records
    )
    assert outcome.verdict != "not upheld"


@given(records=RECORDS)
def test_every_is_never_easier_than_most_nor_most_than_some(records: Records) -> None:
    left, right = SIDES
    body = f'holds = "{left} > {right}"'
    found = [verdict(f'{body}\n{key} = ["load"]', records).verdict for key in ("every", "most", "some")]
    for stricter, easier in itertools.combinations(found, 2):
        assert (stricter, easier) != ("upheld", "not upheld")

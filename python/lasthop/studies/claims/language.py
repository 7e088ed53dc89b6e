"""The language of claims: comparisons of metrics at levels of factors.

    fct(iw10) > fct(iw3)
    timeouts(window=iw10) == 2 * timeouts(window=iw3)
    abs(fct(iw10, packets=9) - fct(iw3, packets=9)) > abs(fct(iw10, packets=10) - fct(iw3, packets=10))
    slope(fct(), congestion="80..90") > slope(fct(), congestion="60..80")
    increases(fct(), congestion="60..90")
    iqr(sum(timeouts(iw10, flow="*"))) < 2
    fraction(fct(iw10) > fct(iw3)) > 0.5
    p95(elapsed_s) <= 1.1 * p95(elapsed_s, baseline)
    explained(fct(), window=[iw3, iw10], packets=[9, 10]) > 0.5

The syntax is a subset of Python's expressions: numbers, `+ - * /`, comparisons, names and calls of metrics,
and calls of the functions below. Nothing is executed.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lasthop.common.errors import nearest

FLOW = "flow"
"""The pseudo-factor by which a term selects flows, page loads or applications."""
REPLICATION = "replication"
"""The pseudo-factor by which a term selects replications, by their numbers within a set."""
EXPLAINED = "explained"
"""The share of the variation over combinations of several factors' levels that the first factor explains."""
FUNCTIONS = ("slope", "least", "greatest", EXPLAINED)
"""Functions of an expression over levels: least-squares slope, minimum, maximum, explained share."""
ROWS = ("sum", "min", "max")
"""Aggregates of a column over the rows of a replication."""
QUANTILES: dict[str, tuple[float, ...]] = {
    "median": (0.5,),
    "p25": (0.25,),
    "p75": (0.75,),
    "p95": (0.95,),
    "p99": (0.99,),
    "iqr": (0.75, 0.25),
    "quantile": (),
}
"""Statistics over replications: a quantile, or the difference of two; `quantile` takes it as an argument."""
MEAN = "mean"
FRACTION = "fraction"
_STATISTICS = (*QUANTILES, MEAN, FRACTION)
BASELINE = "baseline"
"""The selection of the records of another folder in a term or a statistic."""
TRENDS = {"increases": 1, "decreases": -1}
RELATIONS: dict[type[ast.cmpop], str] = {ast.Gt: ">", ast.Lt: "<", ast.GtE: ">=", ast.LtE: "<=", ast.Eq: "=="}
WEAK = ("==", "<=", ">=")
"""Relations that have a tolerance."""
_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_RESERVED = ("abs", *ROWS, *_STATISTICS, *FUNCTIONS, *TRENDS)

Levels = Mapping[str, tuple[str, ...]]
"""Selected levels by factor."""


class ClaimError(ValueError):
    """A claim is invalid; the text has the reason and the nearest valid alternative."""


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Term:
    """The mean of a column of the records at these levels; for several levels, the mean of their means.

    `rows` is the aggregate over the rows of a replication: their mean, or one of `ROWS`. With `baseline`, the
    records are those of another folder.
    """

    text: str
    column: str
    levels: Levels = field(default_factory=dict)
    rows: str = "mean"
    baseline: bool = False


@dataclass(frozen=True)
class Operation:
    """A binary operation: `+`, `-`, `*`, `/`, or a relation, whose value is 1 if it holds, or else 0."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Absolute:
    inner: Expression


@dataclass(frozen=True)
class Over:
    """One of `FUNCTIONS` of an expression over the combinations of levels of one or more factors."""

    function: str
    inner: Expression
    through: Levels


@dataclass(frozen=True)
class Among:
    """A statistic of an expression over replications: the quantile `at`, or the mean.

    Replications are pooled over the levels in `through`.
    """

    inner: Expression
    at: float | None
    through: Levels


Expression = Number | Term | Operation | Absolute | Over | Among


@dataclass(frozen=True)
class Comparison:
    """A relation between two expressions."""

    text: str
    relation: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Trend:
    """An expression that increases (`sign` 1) or decreases (-1) from level to level of a factor."""

    text: str
    sign: int
    inner: Expression
    factor: str
    levels: tuple[str, ...]

    def at(self, level: str) -> Expression:
        return Over("least", self.inner, {self.factor: (level,)})


@dataclass(frozen=True)
class Alone:
    """An expression without a claim, of which only the value is needed."""

    text: str
    inner: Expression


Statement = Comparison | Trend | Alone


def _unknown(kind: str, word: str, valid: Sequence[str]) -> ClaimError:
    return ClaimError(
        f"there is no {kind} '{word}'; did you mean '{nearest(word, valid)}'? Valid: {', '.join(valid)}."
    )


@dataclass(frozen=True)
class Vocabulary:
    """The names that the statements of one study may use."""

    factors: Mapping[str, Sequence[str]]
    metrics: Mapping[str, Expression] = field(default_factory=dict)
    selections: Mapping[str, Levels] = field(default_factory=dict)

    def levels(self, factor: str, chosen: object) -> tuple[str, ...]:
        """Return the levels of a factor that a level, a list, a range such as `60..90`, or `*` selects."""
        if factor not in (FLOW, REPLICATION, *self.factors):
            raise _unknown("factor", factor, [*self.factors, FLOW])
        words = chosen if isinstance(chosen, list) else [chosen]
        if not words or not all(isinstance(w, str | int | float) and not isinstance(w, bool) for w in words):
            raise ClaimError(
                f"{factor} is '{chosen}': write a level, a list of levels or a range such as '60..90'."
            )
        if factor == REPLICATION:
            for word in words:
                ends(factor, str(word))
        if factor in (FLOW, REPLICATION):
            return tuple(map(str, words))
        selected = {level for word in words for level in self._select(factor, str(word))}
        levels = [level for level in self.factors[factor] if level in selected]
        values = {level: number(level) for level in levels}
        # Numbers are in ascending order, regardless of the scenario's order.
        return tuple(
            levels if None in values.values() else sorted(levels, key=lambda level: values[level] or 0.0)
        )

    def _select(self, factor: str, word: str) -> list[str]:
        levels = self.factors[factor]
        if word in levels:
            return [word]
        if word == "*":
            return list(levels)
        if ".." not in word:
            raise _unknown(f"level of {factor}", word, levels)
        low, high = ends(factor, word)
        inside = [level for level in levels if (value := number(level)) is not None and low <= value <= high]
        if not inside:
            raise ClaimError(f"no level of {factor} is within '{word}'. Levels: {', '.join(levels)}.")
        return inside

    def selection(self, chosen: Mapping[str, object]) -> Levels:
        return {factor: self.levels(factor, levels) for factor, levels in chosen.items()}


def ends(factor: str, word: str) -> tuple[float, float]:
    """Return the ends of a range such as `60..90`, `80..` or a single number."""
    low, dots, high = (part.strip() for part in word.partition(".."))
    try:
        return float(low or "-inf"), float(high or "inf") if dots else float(low)
    except ValueError:
        raise ClaimError(
            f"{factor} is '{word}': the ends of a range must be numbers, as in '60..90'."
        ) from None


def number(level: str) -> float | None:
    """Return a level as a number, or `None`."""
    try:
        return float(level)
    except ValueError:
        return None


def _syntax(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except MemoryError:  # the parser's own stack
        raise RecursionError from None
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        if "follows keyword" in reason:
            reason = f"write '{BASELINE}' before FACTOR=LEVEL, as in p95(elapsed_s, {BASELINE}, flow='call')"
        raise ClaimError(f"'{text}' is not a valid expression: {reason}.") from None


def parse_metric(name: str, text: str) -> Expression:
    """Read a metric that is computed from columns, such as `lost_packets / sent_packets`."""
    if name in _RESERVED or not name.isidentifier():
        raise ClaimError(f"'{name}' is not a valid name of a metric.")

    def read(node: ast.expr) -> Expression:
        match node:
            case ast.Name(id=column):
                return Term(column, column)
            case _:
                return _arithmetic(node, text, read)

    return read(_syntax(text))


def _arithmetic(node: ast.expr, text: str, read: Callable[[ast.expr], Expression]) -> Expression:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return Number(_finite(value))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return Operation(_OPERATORS[type(operator)], read(left), read(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Operation("-", Number(0.0), read(operand))
    raise ClaimError(
        f"'{ast.unparse(node)}' in '{text}' is neither a number, nor a metric, nor arithmetic with them."
    )


def _finite(value: float) -> float:
    try:
        if math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise ClaimError("a number is too large.")


class Parser:
    """Parses statements with the names of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._words = vocabulary

    def alone(self, text: str) -> Alone:
        """Read an expression without a relation."""
        return Alone(text, self._expression(_syntax(text)))

    def statements(self, text: str) -> list[Statement]:
        """Parse a statement; a chain such as `a > b > c` gives a statement for each of its relations."""
        node = _syntax(text)
        match node:
            case ast.Compare(left=first, ops=relations, comparators=others):
                sides = [first, *others]
                return [
                    self._comparison(left, relation, right)
                    for (left, right), relation in zip(itertools.pairwise(sides), relations, strict=True)
                ]
            case ast.Call(func=ast.Name(id=name)) if name in TRENDS:
                inner, through = self._over(node)
                ((factor, levels),) = through.items()
                if len(levels) < 2:
                    raise ClaimError(f"'{ast.unparse(node)}' needs at least two levels of {factor}.")
                return [Trend(ast.unparse(node), TRENDS[name], inner, factor, levels)]
        raise ClaimError(
            f"'{text}' is not a statement: compare two expressions with {', '.join(RELATIONS.values())}, "
            f"or write {' or '.join(f'{trend}(..., factor=levels)' for trend in TRENDS)}."
        )

    def _comparison(self, left: ast.expr, relation: ast.cmpop, right: ast.expr) -> Comparison:
        if type(relation) not in RELATIONS:
            word = ast.unparse(ast.Compare(left, [relation], [right]))
            raise ClaimError(f"'{word}' has an invalid relation. Valid: {', '.join(RELATIONS.values())}.")
        sign = RELATIONS[type(relation)]
        text = f"{ast.unparse(left)} {sign} {ast.unparse(right)}"
        return Comparison(text, sign, self._expression(left), self._expression(right))

    def _expression(self, node: ast.expr) -> Expression:
        match node:
            case ast.Call(func=ast.Name(id="abs"), args=[inner], keywords=[]):
                return Absolute(self._expression(inner))
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                value, through = self._over(node)
                for factor, levels in through.items() if name == "slope" else ():
                    if len(levels) < 2 or any(number(level) is None for level in levels):
                        need = f"at least two levels of {factor}, which must be numbers"
                        raise ClaimError(f"'{ast.unparse(node)}' needs {need}.")
                return Over(name, value, through)
            case ast.Call(func=ast.Name(id=name)) if name in ROWS:
                return self._of_rows(name, node)
            case ast.Call(func=ast.Name(id=name)) if name in _STATISTICS:
                return self._among(name, node)
            case ast.Call(func=ast.Name(id=name)) if name in TRENDS:
                raise ClaimError(f"'{name}' is a statement; it has no value that expressions could use.")
            case ast.Call(func=ast.Name(id=name)):
                return self._term(name, node)
            case ast.Name(id=name) if name not in _RESERVED:
                return self._term(name, ast.Call(node, [], []))
        return _arithmetic(node, ast.unparse(node), self._expression)

    def _over(self, node: ast.Call) -> tuple[Expression, Levels]:
        name, factors = ast.unparse(node.func), len(node.keywords)
        right = factors == 1 if name != EXPLAINED else factors > 1
        if len(node.args) != 1 or not right or any(keyword.arg is None for keyword in node.keywords):
            need = "one factor with levels" if name != EXPLAINED else "at least two factors with levels"
            raise ClaimError(f"'{ast.unparse(node)}' needs one expression and {need}.")
        return self._expression(node.args[0]), self._through(node)

    def _through(self, node: ast.Call) -> Levels:
        """Parse the levels that a function iterates over."""
        through: Levels = {}
        for keyword in node.keywords:
            through = _both(through, self._words.selection({str(keyword.arg): _literal(keyword.value)}))
        return through

    def _of_rows(self, name: str, node: ast.Call) -> Expression:
        inner = self._expression(node.args[0]) if len(node.args) == 1 and not node.keywords else None
        if not isinstance(inner, Term) or inner.rows != "mean":
            raise ClaimError(
                f"'{ast.unparse(node)}': {name} needs a single metric, as in {name}(timeouts())."
            )
        return replace(inner, text=ast.unparse(node), rows=name)

    def _among(self, name: str, node: ast.Call) -> Expression:
        text = ast.unparse(node)
        at = QUANTILES.get(name, ())
        of_baseline = bool(node.args) and self._is_baseline(node.args[-1])
        match (name, node.args[:-1] if of_baseline else node.args):
            case ("quantile", [inner, ast.Constant(value=int() | float() as value)]) if 0 <= value <= 1:
                at = (float(value),)
            case ("quantile", _):
                raise ClaimError(
                    f"'{text}' needs one expression and a share from 0 to 1, as in quantile(fct(), 0.9)."
                )
            case (_, [inner]):
                pass
            case _:
                raise ClaimError(f"'{text}' needs one expression, which may be followed by '{BASELINE}'.")
        nested = (
            n.func.id for n in ast.walk(inner) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        )
        if any(function in _STATISTICS for function in nested):
            raise ClaimError(f"'{text}' contains a statistic over replications within another one.")
        if any(keyword.arg is None for keyword in node.keywords):
            raise ClaimError(f"'{text}': write factor=level.")
        through = self._through(node)
        read = self._condition(inner) if name == FRACTION else self._expression(inner)
        if of_baseline:
            read = rewrite(read, lambda term: replace(term, text=text, baseline=True))
        if name in (FRACTION, MEAN):
            return Among(read, None, through)
        quantiles: list[Expression] = [Among(read, share, through) for share in at]
        return quantiles[0] if len(quantiles) == 1 else Operation("-", quantiles[0], quantiles[1])

    def _condition(self, node: ast.expr) -> Expression:
        """Parse a condition, which is true or false in a replication; all relations of a chain must hold."""
        if not isinstance(node, ast.Compare):
            raise ClaimError(
                f"'{FRACTION}({ast.unparse(node)})' needs a relation, as in {FRACTION}(timeouts() > 0)."
            )
        sides = itertools.pairwise([node.left, *node.comparators])
        parts = [self._comparison(a, relation, b) for (a, b), relation in zip(sides, node.ops, strict=True)]
        relations: list[Expression] = [Operation(part.relation, part.left, part.right) for part in parts]
        return functools.reduce(lambda left, right: Operation("*", left, right), relations)

    def _term(self, name: str, node: ast.Call) -> Expression:
        levels: dict[str, tuple[str, ...]] = {}

        def choose(more: Levels) -> None:
            for factor, own in more.items():
                if factor in levels:
                    raise ClaimError(f"'{ast.unparse(node)}' selects {factor} twice.")
                levels[factor] = own

        of_baseline = any(map(self._is_baseline, node.args))
        for argument in node.args:
            if self._is_baseline(argument):
                continue
            if not isinstance(argument, ast.Name) or argument.id not in self._words.selections:
                raise _unknown("selection", ast.unparse(argument), [*self._words.selections, BASELINE])
            choose(self._words.selections[argument.id])
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ClaimError(f"'{ast.unparse(node)}': write factor=level.")
            choose({keyword.arg: self._words.levels(keyword.arg, _literal(keyword.value))})
        metric = self._words.metrics.get(name, Term(name, name))
        text = ast.unparse(node)
        return rewrite(metric, lambda term: replace(term, text=text, levels=levels, baseline=of_baseline))

    def _is_baseline(self, node: ast.expr) -> bool:
        """Whether an argument selects the baseline; a selection of this name takes precedence."""
        return isinstance(node, ast.Name) and node.id == BASELINE and BASELINE not in self._words.selections


def _literal(node: ast.expr) -> object:
    """Return the levels in a statement: words, numbers, texts or a list."""
    match node:
        case ast.Name(id=word):
            return word
        case ast.Constant(value=value):
            return value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_literal(element) for element in elements]
    raise ClaimError(
        f"'{ast.unparse(node)}' is not a level; a level that is not a plain word needs quotation marks."
    )


def rewrite(expression: Expression, change: Callable[[Term], Expression]) -> Expression:
    """Return an expression with every term replaced."""
    match expression:
        case Number():
            return expression
        case Term():
            return change(expression)
        case Operation(operator, left, right):
            return Operation(operator, rewrite(left, change), rewrite(right, change))
        case Absolute(inner):
            return Absolute(rewrite(inner, change))
        case Over() | Among():
            return replace(expression, inner=rewrite(expression.inner, change))


def sides(statement: Statement) -> list[Expression]:
    if isinstance(statement, Comparison):
        return [statement.left, statement.right]
    if isinstance(statement, Alone):
        return [statement.inner]
    return [Over("least", statement.inner, {statement.factor: statement.levels})]


def bound_terms(node: Expression, bound: Levels | None = None) -> Iterator[tuple[Term, Levels]]:
    """Yield every term, with the levels that enclosing functions iterate over."""
    bound = bound or {}
    match node:
        case Term():
            yield node, bound
        case Over(through=through) | Among(through=through):
            bound = _both(bound, through)
    for part in _parts(node):
        yield from bound_terms(part, bound)


def _both(bound: Levels, more: Levels) -> Levels:
    twice = sorted(set(bound) & set(more))
    if twice:
        raise ClaimError(f"{twice[0]} is iterated over twice.")
    return {**bound, **more}


def _parts(node: Expression) -> tuple[Expression, ...]:
    match node:
        case Operation(_, left, right):
            return left, right
        case Absolute(inner) | Over(_, inner) | Among(inner):
            return (inner,)
    return ()


def quantiles(node: Expression) -> Iterator[float]:
    """Yield the share of every quantile over replications in an expression."""
    if isinstance(node, Among) and node.at is not None:
        yield node.at
    for part in _parts(node):
        yield from quantiles(part)


def bare_quantiles(statement: Statement) -> list[Among]:
    """Return the quantiles of a comparison of linear functions of them, each of one cell; else nothing."""
    if not isinstance(statement, Comparison):
        return []
    found: list[Among] = []
    nodes = sides(statement)
    while nodes:
        match nodes.pop():
            case Operation("+" | "-", left, right) | Operation("*", Number() as left, right):
                nodes += [left, right]
            case Operation("*" | "/", left, Number() as right):
                nodes += [left, right]
            case Among(_, float(), through) as quantile if all(len(own) == 1 for own in through.values()):
                found.append(quantile)
            case Number():
                pass
            case _:
                return []
    return found

"""Explanation of WHERE: the boolean factors of a clause in words, and the tuples for which each was evaluated.

price in [3, inf)  [interval]     sym in 'a' or 'b'  [union]     a + b < 3  [opaque]     FALSE  [never]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest

from psoup.answer.explain.sample import Sample
from psoup.clauses.describe import evaluations
from psoup.expressions.render import render
from psoup.expressions.tree import AttributeRef, Expr
from psoup.model import SECOND, DataType, Kind, time_text
from psoup.phrases import counted
from psoup.plan.factors import Factor, Term
from psoup.plan.written_text import guards, is_difference, written_factor
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import StreamView
from psoup.values.columns import key_float


@dataclass(frozen=True, slots=True)
class FactorExplanation:
    """A boolean factor. `kind`: `interval`, `union` (several intervals or attributes), `opaque` or `never`.

    `derived`: its computed expressions. The engine evaluates each one once for all queries, and indexes it like a
    column. `evaluated`: for each expression the number of tuples since its first use, and the number of those for which
    it was evaluated. The writer skips it for tuples that the other factors of all queries already decide. `passes`: the
    share, 0 to 1, of a sample of the newest tuples that passes this factor alone; None if unknown.
    """

    text: str
    kind: str
    derived: tuple[str, ...]
    evaluated: tuple[tuple[int, int], ...] = ()
    passes: float | None = None

    def lines(self, number: int) -> list[str]:
        """The factor as text for a terminal; `number`: its place in WHERE, from 1."""
        passes = "" if self.passes is None else f"; {self.passes:.1%} of the newest tuples pass"
        lines = [f"  factor {number} [{self.kind}] {self.text}{passes}"]
        for text, (seen, evaluated) in zip(self.derived, self.evaluated, strict=True):
            counts = f", evaluated for {evaluated:,} of {counted(seen, 'new tuple')}" if seen else ""
            lines.append(f"           derived attribute: {text}{counts}")
        return lines


def explain_factors(
    factors: Sequence[Factor], view: StreamView, clause: ClauseRecord, sample: Sample
) -> tuple[FactorExplanation, ...]:
    """Explain the factors of a query. `clause`: the clause of the query; `sample`: the tuples that pass each factor."""
    index = view.index
    evaluated = evaluations(index.attributes, clause.attributes, index.waits, index.plans())
    passed, silent = zip_longest(factors, sample.passed), guards(factors)
    return tuple(
        _factor(factor, evaluated, None if count is None else count / sample.rows)
        for factor, count in passed
        if factor not in silent
    )


def _factor(factor: Factor, evaluated: Mapping[Expr, tuple[int, int]], passes: float | None) -> FactorExplanation:
    terms = factor.terms
    text = " OR ".join(_term(term) for term in terms) or "FALSE"
    computed = [t.attribute for t in terms if not isinstance(t.attribute, AttributeRef)]
    if not terms:
        kind = "never"
    elif len(terms) == 1 and _opaque(terms[0]):
        kind = "opaque"
    elif len(terms) == 1 and len(terms[0].intervals) + terms[0].nulls == 1:
        kind = "interval"
    else:
        kind = "union"
    counts = tuple(evaluated.get(expr, (0, 0)) for expr in computed)
    return FactorExplanation(text, kind, tuple(map(render, computed)), counts, passes)


def _opaque(term: Term) -> bool:
    return not isinstance(term.attribute, AttributeRef) and str(term.attribute.type) == "BOOLEAN"


def _term(term: Term) -> str:
    data_type = term.attribute.type
    texts = [_key(data_type, i.low, "") for i in term.intervals if isinstance(i.low, bytes) and i.high == i.low + b"\0"]
    if len(texts) == len(term.intervals) == 1 and not term.nulls:
        return f"{render(term.attribute)} = {texts[0]}"
    if is_difference(term.attribute):
        return written_factor(Factor((term,)))
    ranges = [f"[{_key(data_type, i.low, '-inf')}, {_key(data_type, i.high, 'inf')})" for i in term.intervals]
    if len(texts) == len(ranges):
        ranges = texts
    if term.nulls:
        ranges.append("NULL")
    shown = ranges if len(ranges) <= 8 else [*ranges[:8], f"… {len(ranges) - 8} more"]
    return f"{render(term.attribute)} in {' or '.join(shown)}"


def _key(data_type: DataType, key: int | bytes | None, unbounded: str) -> str:
    """The text of the value that an order key encodes."""
    if key is None:
        return unbounded
    if isinstance(key, bytes):
        return repr(key.decode(errors="backslashreplace"))
    if data_type.kind is Kind.TIMESTAMP:
        return time_text(key)
    if data_type.kind is Kind.DATE:
        return time_text(key * 86_400 * SECOND)[:10]
    if data_type.kind is Kind.DECIMAL:
        return str(Decimal(key).scaleb(-data_type.scale))
    return str(key_float(key)) if data_type.kind is Kind.DOUBLE else str(key)

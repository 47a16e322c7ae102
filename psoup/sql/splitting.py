"""The conditions of a join, split: what is said of one source goes to its side, what is said of several to the Join.

    WHERE f.delay > 60 AND w.wind > 20 AND f.origin = w.origin AND f.at <= w.till AND (f.a = 1 OR w.b = 2)
          side 0           side 1          key                     band               rest

A side is a statement of its own, made of the words of the conditions; so what registers it, evaluates it or keeps its
results needs to know nothing of joins. Equalities follow from others: of a = b and b = c the Join has a = c, too; of
a = b and a = 5 the other side has b = 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from sqlglot import exp

from psoup.expressions.tree import AttributeRef, Call, Expr, of_source, source_of, sources_of
from psoup.model import Kind
from psoup.plan.canonical import describe_window, key_text
from psoup.plan.factors import Factor, Key
from psoup.plan.nodes import PairFactor
from psoup.sql.binder import Binder
from psoup.sql.dialect import PSoup
from psoup.sql.from_list import FromList
from psoup.sql.grammar import EXTENT
from psoup.sql.source import StatementText
from psoup.wording import quoted

MAX_PAIR_FACTORS = 64
"""Factors over several sources that a statement may have."""

_KEY = "eq"
_BANDS = frozenset({"lt", "le", "gt", "ge"})
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_CONSTANT_KINDS = frozenset({Kind.BIGINT, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP})
"""Types whose constants are written as they are read."""


@dataclass(slots=True)
class Split:
    """The conditions of a join: texts for each side, and the factors over several sources."""

    texts: list[list[str]]
    keys: list[PairFactor] = field(default_factory=list)
    bands: list[PairFactor] = field(default_factory=list)
    rest: list[Expr] = field(default_factory=list)

    def take(self, conjunct: Expr) -> None:
        """Sort in a condition over several sources."""
        for part in _conjuncts(conjunct):
            pair = _pair(part)
            if pair is None:
                self.rest.append(part)
            elif pair.operator == _KEY:
                self.keys.append(pair)
            else:
                self.bands.append(pair)

    @property
    def count(self) -> int:
        """How many factors there are over several sources."""
        return len(self.keys) + len(self.bands) + len(self.rest)


def split(source: StatementText, origin: FromList, where: exp.Expr | None, binder: Binder) -> Split:
    """Split the conditions of ON, USING and WHERE. Raises SqlError, for a WHERE that is not BOOLEAN and so on."""
    found = Split([[] for _ in origin.windows])
    for left, right in origin.using:
        found.take(binder.condition(exp.EQ(this=left, expression=right)))
    for node in _nodes((*origin.conditions, *(() if where is None else (where,)))):
        bound = binder.condition(node)
        places = sources_of(bound)
        if len(places) > 1:
            found.take(bound)
        else:
            start, stop = node.meta[EXTENT]
            found.texts[min(places, default=0)].append(source.text[start:stop])
        if found.count > MAX_PAIR_FACTORS:
            raise source.error(
                f"more than {MAX_PAIR_FACTORS} conditions are over several sources", node, hint="split the query"
            )
    found.keys += _implied(found.keys)
    return found


def side_text(origin: FromList, place: int, conditions: Iterable[str]) -> str:
    """A side as a statement over its stream."""
    spec, alias = origin.names.sources[place]
    named = f"{_name(spec.name)} AS {_name(alias)}" if alias != spec.name else _name(spec.name)
    where = " AND ".join(f"({condition})" for condition in dict.fromkeys(conditions))
    window = describe_window(origin.windows[place])
    return f"SELECT * FROM {named}{f' WHERE {where}' if where else ''} {window}"


def constants_of(keys: Sequence[PairFactor], factors: Sequence[Sequence[Factor]]) -> dict[int, list[str]]:
    """Conditions that follow for each side from the keys, and from the constants in the factors of the other sides."""
    told: dict[int, list[str]] = {}
    known = dict(_points(factors))
    for members in _classes(keys):
        here = [(source_of(ref), of_source(ref, 0)) for ref in members]
        values = {known[at] for at in here if at in known}
        if len(values) != 1:
            continue
        for place, ref in here:
            if isinstance(ref, AttributeRef) and ref.index >= 0 and (place, ref) not in known:
                told.setdefault(place, []).append(f"{quoted(ref.name)} = {next(iter(values))}")
    return told


def connected(sources: int, factors: Iterable[PairFactor]) -> bool:
    """Whether keys and bands connect all sources: else some of them are crossed."""
    group = list(range(sources))
    for factor in factors:
        left, right = factor.sources
        group = [group[left] if at == group[right] else at for at in group]
    return len(set(group)) == 1


def _points(factors: Sequence[Sequence[Factor]]) -> Iterator[tuple[tuple[int, Expr], str]]:
    """The expressions that a side holds equal to a constant, with the side's place, and the constant as text."""
    for place, of_side in enumerate(factors):
        for factor in of_side:
            if len(factor.terms) != 1 or factor.terms[0].nulls or len(factor.terms[0].intervals) != 1:
                continue
            (term,) = factor.terms
            kind, low, high = term.attribute.type, term.intervals[0].low, term.intervals[0].high
            if kind.kind in _CONSTANT_KINDS and low is not None and high == _after(low):
                yield (place, term.attribute), key_text(kind, low)


def _after(key: Key) -> Key:
    """The least key that is greater."""
    return key + b"\0" if isinstance(key, bytes) else key + 1


def _nodes(conditions: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    """The conditions joined by AND, in the order of the text."""
    waiting = list(conditions)[::-1]
    while waiting:
        node = waiting.pop()
        inner = node
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.And):
            waiting += [inner.expression, inner.this]
        else:
            yield node


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, Call) and condition.name == "and":
        for part in condition.args:
            yield from _conjuncts(part)
    else:
        yield condition


def _pair(condition: Expr) -> PairFactor | None:
    """The condition as a comparison of two sources; None if it is no such."""
    if not isinstance(condition, Call) or condition.name not in (_KEY, *_BANDS):
        return None
    left, right = condition.args
    if len(sources_of(left)) != 1 or len(sources_of(right)) != 1:
        return None
    return PairFactor(condition.name, left, right)


def _classes(keys: Sequence[PairFactor]) -> list[list[Expr]]:
    """The expressions that keys say are equal, of one type each, in the order of the keys."""
    classes: list[list[Expr]] = []
    for key in keys:
        if key.left.type != key.right.type:
            continue  # 0.1 as DECIMAL and as DOUBLE are equal to values that differ from each other
        met = [members for members in classes if key.left in members or key.right in members]
        whole = list(dict.fromkeys([*(expr for members in met for expr in members), key.left, key.right]))
        classes = [members for members in classes if members not in met] + [whole]
    return classes


def _implied(keys: Sequence[PairFactor]) -> list[PairFactor]:
    """Keys that follow from others."""
    stated = {frozenset((key.left, key.right)) for key in keys}
    return [
        PairFactor(_KEY, left, right, implied=True)
        for members in _classes(keys)
        for left, right in combinations(members, 2)
        if source_of(left) != source_of(right) and frozenset((left, right)) not in stated
    ]


def _name(name: str) -> str:
    """A name as a statement takes it: in quotes, unless it is surely none of the words of SQL."""
    return name if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED else quoted(name)


_RESERVED = frozenset(word for words in PSoup.Tokenizer.KEYWORDS for word in words.split())

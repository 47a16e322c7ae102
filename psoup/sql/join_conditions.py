"""The split of a join's conditions: a side gets the conditions over its source, the Join those over several sources.

    WHERE f.delay > 60 AND w.wind > 20 AND f.origin = w.origin AND f.at <= w.till AND (f.a = 1 OR w.b = 2)
          side 0           side 1          key                     band               rest

This module writes a separate statement for each side, from the texts of its conditions. So the code that registers a
side, evaluates it or keeps its results knows no joins. Some equalities follow from other equalities. From a = b and b =
c, the Join also gets a = c. From a = b and a = 5, the side of b gets b = 5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from sqlglot import exp

from psoup.expressions.tree import AttributeRef, Call, Expr, source_of, sources_of
from psoup.model import Kind, WindowClause
from psoup.phrases import quoted
from psoup.plan.canonical import written_window
from psoup.plan.nodes import PairFactor
from psoup.sql.binder import Binder
from psoup.sql.from_list import FromList
from psoup.sql.names import NamedStream
from psoup.sql.parser.dialect import PSoup
from psoup.sql.parser.grammar import EXTENT
from psoup.sql.source import StatementText

MAX_PAIR_FACTORS = 64
"""The most factors over several sources in a statement."""

_KEY = "eq"
_BANDS = frozenset({"lt", "le", "gt", "ge"})
_HOLE = re.compile(r"\?|\$\w+")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_CONSTANT_KINDS = frozenset({Kind.BIGINT, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP})
"""Types for which a constant can be copied to another column without a change of its value."""


Written = Callable[[int, int], str]
"""A function that returns the part of a statement between two offsets, with constants instead of parameters."""


@dataclass(slots=True)
class Split:
    """The split conditions of a join: texts for each side, and the factors over several sources.

    `constants`: the columns that must equal a constant, with its text. `open`: whether a factor over several sources
    has a parameter.
    """

    texts: list[list[str]]
    constants: dict[Expr, str] = field(default_factory=dict)
    open: bool = False
    keys: list[PairFactor] = field(default_factory=list)
    bands: list[PairFactor] = field(default_factory=list)
    rest: list[Expr] = field(default_factory=list)

    def take(self, conjunct: Expr) -> None:
        """Add a condition over several sources, split at each AND."""
        for part in conjuncts(conjunct):
            pair = pair_factor(part)
            if pair is None:
                self.rest.append(part)
            elif pair.operator == _KEY:
                self.keys.append(pair)
            else:
                self.bands.append(pair)

    @property
    def count(self) -> int:
        """The number of factors over several sources."""
        return len(self.keys) + len(self.bands) + len(self.rest)


def split(source: StatementText, origin: FromList, where: exp.Expr | None, binder: Binder, written: Written) -> Split:
    """Split the conditions of ON, USING and WHERE. Raises SqlError, such as for a WHERE that is not BOOLEAN."""
    conditions = Split([[] for _ in origin.windows])
    for left, right in origin.using:
        conditions.take(binder.condition(exp.EQ(this=left, expression=right)))
    for node in and_nodes((*origin.conditions, *(() if where is None else (where,)))):
        bound = binder.condition(node)
        places = sources_of(bound)
        if len(places) > 1:
            conditions.take(bound)
            conditions.open |= node.find(exp.Placeholder) is not None
        else:
            conditions.texts[min(places, default=0)].append(written(*node.meta[EXTENT]))
            _note_constant(conditions.constants, node, binder, written)
        if conditions.count > MAX_PAIR_FACTORS:
            raise source.error(
                f"more than {MAX_PAIR_FACTORS} conditions are over several sources", node, hint="split the query"
            )
    conditions.keys += implied_keys(conditions.keys)
    _spread_constants(conditions)
    return conditions


def _note_constant(constants: dict[Expr, str], node: exp.Expr, binder: Binder, written: Written) -> None:
    """Record the constant of a condition `column = constant` or `constant = column`."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.EQ):
        return
    for column, constant in ((node.this, node.expression), (node.expression, node.this)):
        sign = "-" if isinstance(constant, exp.Neg) else ""
        value = constant.this if sign else constant
        if isinstance(column, exp.Column) and isinstance(value, exp.Literal | exp.Placeholder):
            ref = binder.operand(column)
            if ref.type.kind in _CONSTANT_KINDS:
                shown = written(int(value.meta["start"]), int(value.meta["end"]) + 1)
                constants.setdefault(ref, f"{sign}{shown}")


def _spread_constants(conditions: Split) -> None:
    """Add conditions `column = constant` to sides.

    A column gets one if a key equates it with another column that must equal the constant.
    """
    for members in _classes(conditions.keys):
        values = {conditions.constants[ref] for ref in members if ref in conditions.constants}
        for ref in members if len(values) == 1 else ():
            if isinstance(ref, AttributeRef) and ref.index >= 0 and ref not in conditions.constants:
                conditions.texts[ref.source].append(f"{quoted(ref.name)} = {next(iter(values))}")


def side_text(origin: FromList, place: int, conditions: Iterable[str]) -> str:
    """The text of a side's statement."""
    return selection_text(origin.names.sources[place], origin.windows[place], conditions)


def selection_text(stream: NamedStream, window: WindowClause, conditions: Iterable[str]) -> str:
    """The text of a selection of one stream: `SELECT * FROM stream AS alias WHERE (condition) AND … BEGIN … END …`."""
    spec, alias = stream
    named = f"{_name(spec.name)} AS {_name(alias)}" if alias != spec.name else _name(spec.name)
    where = " AND ".join(f"({condition})" for condition in dict.fromkeys(conditions))
    bounds = "" if spec.table is not None else f" {written_window(window)}"
    return f"SELECT * FROM {named}{f' WHERE {where}' if where else ''}{bounds}"


def filled(text: str, constants: Mapping[int, str]) -> Written:
    """Make a function that returns parts of `text`, with `constants` instead of the parameters at their offsets."""

    def written(start: int, stop: int) -> str:
        parts, at = [], start
        for offset in sorted(offset for offset in constants if start <= offset < stop):
            hole = _HOLE.match(text, offset)
            assert hole is not None
            parts += [text[at:offset], constants[offset]]
            at = hole.end()
        return "".join([*parts, text[at:stop]])

    return written


def and_nodes(conditions: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
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


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """Yield the conditions that AND joins in a bound condition."""
    if isinstance(condition, Call) and condition.name == "and":
        for part in condition.args:
            yield from conjuncts(part)
    else:
        yield condition


def pair_factor(condition: Expr) -> PairFactor | None:
    """The condition as a comparison of two sources, or None if it has another form."""
    if not isinstance(condition, Call) or condition.name not in (_KEY, *_BANDS):
        return None
    left, right = condition.args
    if len(sources_of(left)) != 1 or len(sources_of(right)) != 1:
        return None
    return PairFactor(condition.name, left, right)


def _classes(keys: Sequence[PairFactor]) -> list[list[Expr]]:
    """Classes of expressions that keys make equal, in the order of the keys. The expressions of a class have one
    type."""
    classes: list[list[Expr]] = []
    for key in keys:
        if key.left.type != key.right.type:
            continue  # 0.1 as DECIMAL and as DOUBLE may equal the same value of one column, but differ from each other
        met = [members for members in classes if key.left in members or key.right in members]
        whole = list(dict.fromkeys([*(expr for members in met for expr in members), key.left, key.right]))
        classes = [members for members in classes if members not in met] + [whole]
    return classes


def implied_keys(keys: Sequence[PairFactor]) -> list[PairFactor]:
    """The keys that follow from `keys`, but are not among them."""
    stated = {frozenset((key.left, key.right)) for key in keys}
    return [
        PairFactor(_KEY, left, right, implied=True)
        for members in _classes(keys)
        for left, right in combinations(members, 2)
        if source_of(left) != source_of(right) and frozenset((left, right)) not in stated
    ]


def _name(name: str) -> str:
    """A name as SQL text. It is in quotes unless it is certainly not a word of SQL."""
    return name if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED else quoted(name)


_RESERVED = frozenset(word for words in PSoup.Tokenizer.KEYWORDS for word in words.split())

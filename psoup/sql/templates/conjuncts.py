"""WHERE of a template, as far as it is known before the values are: what a value decides is computed directly.

    sym = ? AND qty BETWEEN ? AND 9 AND (a = 1 OR b = 2)

    attribute sym:  eq 0                          one interval each, intersected
    attribute qty:  ge 1, and [.., 10) of the constants
    finished:       (a = 1 OR b = 2), with its text

Only conditions `attribute RELOP ?`, BETWEEN and IN, joined by AND, are of this form, and only for constants that are
compared with the attribute as it is. Otherwise the caller binds and normalises the whole WHERE again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from psoup.expressions.conversion import cast
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BOOLEAN, TEXT, DataType, Kind
from psoup.plan.canonical import expr_text, term_text
from psoup.plan.factors import Factor, Interval, Key, Term
from psoup.sql.where.factors import factor_of, factor_text, parts_of
from psoup.sql.where.formula import Formula, Leaf
from psoup.sql.where.intervals import Intervals, compared, cut, ends, intersection, normal

_AS_IT_IS = frozenset(
    {(kind, kind) for kind in Kind}
    | {(Kind.BIGINT, Kind.DECIMAL), (Kind.BIGINT, Kind.DOUBLE), (Kind.DECIMAL, Kind.BIGINT), (Kind.DOUBLE, Kind.BIGINT)}
)
"""Kinds of attribute and constant that are compared without a cast of the attribute."""

_EXACT_DOUBLE = 2**53
_KNOWN = 1_024
"""Factors that are remembered for each attribute of a template."""


class Slow(Exception):
    """The constant changes more than an interval."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`attribute operator operand`; an operand is the number of a hole or a constant. `in` has many, `between` two."""

    attribute: Expr
    operator: str
    operands: tuple[int | Literal, ...]


Keys = Callable[[Sequence[Literal]], Intervals]


_Found = tuple[str, Factor] | None
"""A factor with its text, or None if it is never true."""


@dataclass(frozen=True, slots=True)
class AttributeConditions:
    """All that WHERE says about one attribute: `rest` without parameters, and a function of them for each other.

    `holes`: what the functions look at. `known`: what came out for the constants in them, so that queries share it.
    `conditions`: what the functions are of.
    """

    attribute: Expr
    name: str
    rest: Intervals | None
    conditions: tuple[Condition, ...]
    keys: tuple[Keys, ...]
    holes: tuple[int, ...]
    known: dict[object, _Found]

    def factor(self, literals: Sequence[Literal]) -> _Found:
        """The factor for these constants. Raises Slow."""
        parts: list[object] = []
        for hole in self.holes:
            literal = literals[hole]
            kind = literal.type  # its parts, as to hash the whole is dear; the precision changes nothing
            parts += (kind.kind, kind.scale, literal.value)
        key = tuple(parts)
        found = self.known.get(key, self)
        if found is self:
            found = self._computed(literals)
            if len(self.known) >= _KNOWN:
                self.known.clear()
            self.known[key] = found
        return found  # type: ignore[return-value]

    def _computed(self, literals: Sequence[Literal]) -> _Found:
        intervals = self.rest
        for keys in self.keys:
            own = keys(literals)
            intervals = own if intervals is None else intersection(intervals, own)
        if not intervals:
            return None
        term = Term(self.attribute, intervals)
        return term_text(term, self.name), Factor((term,))


@dataclass(frozen=True, slots=True)
class Conjuncts:
    """A WHERE; `finished` are the factors without parameters and their texts, None if they are never true."""

    groups: tuple[AttributeConditions, ...]
    finished: tuple[tuple[str, Factor], ...] | None

    def factors(self, literals: Sequence[Literal]) -> tuple[tuple[str, ...], tuple[Factor, ...]]:
        """The factors in canonical order and their texts, of one constant for each hole. Raises Slow."""
        each = [group.factor(literals) for group in self.groups]
        found = [one for one in each if one is not None]
        if len(found) < len(each) or self.finished is None:
            return ("FALSE",), (Factor(()),)
        found.extend(self.finished)
        if len(found) == 1:
            ((text, factor),) = found
            return (text,), (factor,)
        found.sort(key=_text)
        texts, factors = zip(*found, strict=True)
        return texts, factors


def _text(found: tuple[str, Factor]) -> str:
    return found[0]


def conjuncts(conditions: Sequence[Condition], constants: Sequence[Expr]) -> Conjuncts | None:
    """The parts of a WHERE put together; None if an attribute is none whose keys a constant can be among."""
    if any(isinstance(c.attribute, Literal) or c.attribute.type == BOOLEAN for c in conditions):
        return None
    whole = Call(BOOLEAN, "and", tuple(constants)) if constants else None
    parts: tuple[Formula, ...] | None = () if whole is None else parts_of(whole)
    by_attribute: dict[Expr, list[Condition]] = {}
    for condition in conditions:
        by_attribute.setdefault(condition.attribute, []).append(condition)
    rests = {part.attribute: part.intervals for part in parts or () if isinstance(part, Leaf)}
    groups = tuple(
        AttributeConditions(
            attribute,
            expr_text(attribute),
            rests.get(attribute),
            tuple(own),
            tuple(_keys(one) for one in own),
            tuple(sorted({operand for one in own for operand in one.operands if isinstance(operand, int)})),
            {},
        )
        for attribute, own in by_attribute.items()
    )
    if parts is None:
        return Conjuncts(groups, None)
    others = {factor_of(p) for p in parts if not (isinstance(p, Leaf) and p.attribute in by_attribute)}
    return Conjuncts(groups, tuple((factor_text(factor), factor) for factor in others))


def _keys(condition: Condition) -> Keys:
    """The intervals of one condition as a function of the constants."""
    kind, operands = condition.attribute.type, condition.operands
    if condition.operator == "between":
        low, high = _comparison(kind, "ge", operands[0]), _comparison(kind, "le", operands[1])
        return lambda literals: intersection(low(literals), high(literals))
    if condition.operator == "in":
        points = [_comparison(kind, "eq", operand) for operand in operands]
        return lambda literals: normal(kind, [interval for point in points for interval in point(literals)])
    return _comparison(kind, condition.operator, operands[0])


def _comparison(kind: DataType, operator: str, operand: int | Literal) -> Keys:
    if isinstance(operand, Literal):
        fixed = compared_with(kind, operator, operand)
        return lambda _: fixed
    if operator == "ne":
        return lambda literals: compared_with(kind, "ne", literals[operand])
    first, beyond = ends(kind)

    def keys(literals: Sequence[Literal]) -> Intervals:
        literal = literals[operand]
        if literal.value is None:
            return ()
        least, above = _cut(kind, literal)
        low = above if operator == "gt" else least if operator != "lt" and operator != "le" else None
        high = least if operator == "lt" else above if operator == "le" or operator == "eq" else None
        return _one(low, high, first, beyond)

    return keys


def _one(low: Key | None, high: Key | None, first: Key, beyond: Key | None) -> Intervals:
    """`intervals.normal` of one interval."""
    if low is not None:
        if low <= first:  # type: ignore[operator]
            low = None
        elif beyond is not None and low >= beyond:  # type: ignore[operator]
            return ()
    if high is not None:
        if high <= first:  # type: ignore[operator]
            return ()
        if beyond is not None and high >= beyond:  # type: ignore[operator]
            high = None
        elif low is not None and low >= high:  # type: ignore[operator]
            return ()
    return (Interval(low, high),)


def compared_with(kind: DataType, operator: str, literal: Literal) -> Intervals:
    """The keys of an attribute of type `kind` for which the comparison is true. Raises Slow."""
    if literal.value is None:
        return ()
    return compared(operator, kind, _fitting(kind, literal))


def _fitting(kind: DataType, literal: Literal) -> Literal:
    """The constant in a type that the attribute is compared with as it is; a TEXT constant takes the attribute's."""
    if (kind.kind, literal.type.kind) in _AS_IT_IS:
        return literal
    if literal.type != TEXT:
        raise Slow
    converted = cast(literal, kind)
    assert isinstance(converted, Literal)
    return converted


def _cut(kind: DataType, literal: Literal) -> tuple[Key, Key]:
    """`intervals.cut`, at once for the usual constants."""
    value, given = literal.value, literal.type.kind
    if given is kind.kind:
        if given is Kind.TEXT:
            key = value.encode()  # type: ignore[union-attr]
            return key, key + b"\0"
        if given is Kind.DOUBLE:
            return _double_cut(value)  # type: ignore[arg-type]
        if given is not Kind.DECIMAL or literal.type.scale == kind.scale:
            return value, value + 1  # type: ignore[operator, return-value]
    elif given is Kind.BIGINT and kind.kind is Kind.DOUBLE and -_EXACT_DOUBLE <= value <= _EXACT_DOUBLE:  # type: ignore[operator]
        return _double_cut(float(value))  # type: ignore[arg-type]
    literal = _fitting(kind, literal)
    if literal.value is None:  # TEXT that reads as NULL
        raise Slow
    return cut(kind, literal)


def _double_cut(value: float) -> tuple[int, int]:
    """As `columns.float_keys`, for one value."""
    if value != value or value == 0.0:
        value = 0.0 if value == 0.0 else float("nan")
    (key,) = struct.unpack("<q", struct.pack("<d", value))
    if key < 0:
        key ^= 0x7FFF_FFFF_FFFF_FFFF
    return key, key + 1

"""The quick form of a template's WHERE: most work is done once, and little for each row of values.

    sym = ? AND qty BETWEEN ? AND 9 AND (a = 1 OR b = 2)

    attribute sym:  eq 0                          one interval each, intersected
    attribute qty:  ge 1, and [.., 10) of the constants
    finished:       (a = 1 OR b = 2), with its text

Conditions `attribute RELOP ?`, BETWEEN, IN and `attribute LIKE ?`, joined by AND, have this form. A constant must need
no cast of the attribute, and a pattern must not be equivalent to an interval. Otherwise the caller binds the whole
WHERE again for the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psoup.errors import InvalidInput
from psoup.expressions.rules_texts import like
from psoup.expressions.tree import Call, Expr, Literal, LongNumber
from psoup.model import BOOLEAN, TEXT
from psoup.plan.canonical import expr_text, factor_text, term_text
from psoup.plan.factors import Factor, Interval, Term
from psoup.sql.templates.comparisons import Keys, Slow, one_by_one
from psoup.sql.where.factors import factor_of, like_prefix, parts_of
from psoup.sql.where.formula import Formula, Leaf
from psoup.sql.where.intervals import Intervals, intersection, normal

_TRUE = (Interval(1, 2),)
_MAX_FACTORS = 1_024
"""The most factors that a template keeps for each attribute."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition `attribute operator operand`. An operand is the number of a hole, or a constant.

    `in` has any number of operands, `between` two. The operand of `like` is a hole.
    """

    attribute: Expr
    operator: str
    operands: tuple[int | Literal, ...]


_NamedFactor = tuple[str, Factor] | None
"""A factor with its text, or None if it is never true."""


@dataclass(frozen=True, slots=True)
class AttributeConditions:
    """All conditions of WHERE on one attribute.

    `rest`: the intervals of the conditions without parameters, or None. `conditions`: the conditions with parameters.
    `keys`: for each of these, a function from the constants to its intervals. `holes`: the holes that these functions
    read. `known`: a cache of factors by the constants in these holes, so that queries share factors.
    """

    attribute: Expr
    name: str
    rest: Intervals | None
    conditions: tuple[Condition, ...]
    keys: tuple[Keys, ...]
    holes: tuple[int, ...]
    known: dict[object, _NamedFactor]

    def factor(self, literals: Sequence[Literal]) -> _NamedFactor:
        """The factor for these constants. Raises Slow."""
        parts: list[object] = []
        for hole in self.holes:
            literal = literals[hole]
            if type(literal) is LongNumber:
                raise Slow
            kind = literal.type  # not the constant itself: its hash is slow, and its precision changes nothing
            parts += (kind.kind, kind.scale, literal.value)
        key = tuple(parts)
        factor = self.known.get(key, self)
        if factor is self:
            factor = self._computed(literals)
            if len(self.known) >= _MAX_FACTORS:
                self.known.clear()
            self.known[key] = factor
        return factor  # type: ignore[return-value]

    def _computed(self, literals: Sequence[Literal]) -> _NamedFactor:
        intervals = self.rest
        for keys in self.keys:
            allowed = keys(literals)
            intervals = allowed if intervals is None else intersection(intervals, allowed)
        if not intervals:
            return None
        term = Term(self.attribute, intervals)
        return term_text(term, self.name), Factor((term,))


@dataclass(frozen=True, slots=True)
class Conjuncts:
    """A WHERE in the quick form. `finished`: the factors without parameters and their texts. None if they are never
    true.

    `patterns`: each attribute in a condition LIKE ?, with the number of the hole.
    """

    groups: tuple[AttributeConditions, ...]
    finished: tuple[tuple[str, Factor], ...] | None
    patterns: tuple[tuple[Expr, int], ...] = ()

    def factors(self, literals: Sequence[Literal]) -> tuple[tuple[str, ...], tuple[Factor, ...]]:
        """The factors in canonical order, and their texts: (texts, factors). `literals`: the constant of each hole.
        Raises Slow."""
        searched = [_searched(attribute, literals[hole]) for attribute, hole in self.patterns]
        each = [group.factor(literals) for group in self.groups]
        pairs = [pair for pair in each if pair is not None]
        if len(pairs) < len(each) or self.finished is None:
            return ("FALSE",), (Factor(()),)
        pairs.extend(self.finished)
        pairs.extend(searched)
        if len(pairs) == 1:
            ((text, factor),) = pairs
            return (text,), (factor,)
        pairs.sort(key=_text)
        texts, factors = zip(*pairs, strict=True)
        if searched and len(set(texts)) < len(texts):
            raise Slow
        return texts, factors


def _searched(attribute: Expr, literal: Literal) -> tuple[str, Factor]:
    """The factor of `attribute LIKE literal`, and its text. Raises Slow if it is an interval, or an invalid pattern."""
    if literal.type != TEXT or literal.value is None or like_prefix(str(literal.value), "") is not None:
        raise Slow
    try:
        call = like("like", (attribute, literal))
    except InvalidInput:
        raise Slow from None  # the caller binds the whole WHERE, and its refusal has the place
    return expr_text(call), Factor((Term(call, _TRUE),))


def _text(pair: tuple[str, Factor]) -> str:
    return pair[0]


def conjuncts(conditions: Sequence[Condition], constants: Sequence[Expr]) -> Conjuncts | None:
    """The quick form of a WHERE. None if a constant may not be comparable with the keys of its attribute."""
    if any(isinstance(c.attribute, Literal) or c.attribute.type == BOOLEAN for c in conditions):
        return None
    likes = [c for c in conditions if c.operator == "like"]
    if any(c.attribute.type != TEXT for c in likes):
        return None
    patterns = tuple((c.attribute, hole) for c in likes for hole in c.operands if isinstance(hole, int))
    whole = Call(BOOLEAN, "and", tuple(constants)) if constants else None
    parts: tuple[Formula, ...] | None = () if whole is None else parts_of(whole)
    by_attribute: dict[Expr, list[Condition]] = {}
    for condition in conditions:
        if condition.operator != "like":
            by_attribute.setdefault(condition.attribute, []).append(condition)
    rests = {part.attribute: part.intervals for part in parts or () if isinstance(part, Leaf)}
    groups = tuple(
        AttributeConditions(
            attribute,
            expr_text(attribute),
            rests.get(attribute),
            tuple(group),
            tuple(_keys(condition) for condition in group),
            tuple(
                sorted({operand for condition in group for operand in condition.operands if isinstance(operand, int)})
            ),
            {},
        )
        for attribute, group in by_attribute.items()
    )
    if parts is None:
        return Conjuncts(groups, None, patterns)
    others = {factor_of(p) for p in parts if not (isinstance(p, Leaf) and p.attribute in by_attribute)}
    return Conjuncts(groups, tuple((factor_text(factor), factor) for factor in others), patterns)


def _keys(condition: Condition) -> Keys:
    """A function that maps the constants in the holes to the intervals of one condition."""
    kind, operands = condition.attribute.type, condition.operands
    if condition.operator == "between":
        low, high = one_by_one(kind, "ge", operands[0]), one_by_one(kind, "le", operands[1])
        return lambda literals: intersection(low(literals), high(literals))
    if condition.operator == "in":
        points = [one_by_one(kind, "eq", operand) for operand in operands]
        return lambda literals: normal(kind, [interval for point in points for interval in point(literals)])
    return one_by_one(kind, condition.operator, operands[0])

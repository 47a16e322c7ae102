"""Formulas: conditions without NOT, built from leaves by AND and OR. A leaf is a set of keys of one attribute.

    NOT (a > 3 OR b = 'x')   ->   All(a in (-inf, 4), b not in ['x', 'x\\0'))

A formula distinguishes only TRUE from all other results. A leaf is true where its attribute's key lies in its
intervals, and at NULL if `nulls` is set. It is never true where the attribute is an error. So NOT over a leaf is the
complement of its intervals. Leaves of one attribute under one AND or OR become one leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psoup.expressions.tree import AttributeRef, Call, Expr
from psoup.model import BOOLEAN
from psoup.plan.factors import Interval
from psoup.sql.where.intervals import EVERYTHING, Intervals, intersection, union

TRUE_KEYS: Intervals = (Interval(1, None),)
FALSE_KEYS: Intervals = (Interval(None, 1),)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A formula that is true for the keys of `attribute` in `intervals`, and for NULL if `nulls` is set."""

    attribute: Expr
    intervals: Intervals
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class All:
    """A formula that is true if all `parts` are true. Without parts it is always true.

    `origin`: a bound expression with the same meaning.
    """

    parts: tuple[Formula, ...]
    origin: Expr | None = None


@dataclass(frozen=True, slots=True)
class Either:
    """A formula that is true if at least one of `parts` is true. Without parts it is never true. `origin` as for
    `All`."""

    parts: tuple[Formula, ...]
    origin: Expr | None = None


Formula = Leaf | All | Either

ALWAYS = All(())
NEVER = Either(())


def leaf(attribute: Expr, intervals: Intervals, nulls: bool = False) -> Formula:
    """A leaf, or ALWAYS or NEVER if it is simpler. Only a stored attribute can give ALWAYS, because it is never an
    error."""
    if not intervals and not nulls:
        return NEVER
    if nulls and intervals == EVERYTHING and isinstance(attribute, AttributeRef):
        return ALWAYS
    return Leaf(attribute, intervals, nulls)


def opaque(condition: Expr, negated: bool = False) -> Formula:
    """The leaf of a condition that the engine evaluates as a derived BOOLEAN attribute."""
    return leaf(condition, FALSE_KEYS if negated else TRUE_KEYS)


def conjunction(parts: Iterable[Formula], origin: Expr | None = None) -> Formula:
    """The conjunction of `parts`, simplified. O(n log n)."""
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, All) else (part,))
    if NEVER in flat:
        return NEVER
    merged: list[Formula] = []
    for group in _by_attribute(flat):
        if not isinstance(group[0], Leaf):
            merged.append(group[0])
            continue
        keys, nulls = group[0].intervals, group[0].nulls
        for other in group[1:]:
            assert isinstance(other, Leaf)
            keys, nulls = intersection(keys, other.intervals), nulls and other.nulls
        merged.append(leaf(group[0].attribute, keys, nulls))
    if NEVER in merged:
        return NEVER
    needed = tuple(part for part in merged if part != ALWAYS)
    return needed[0] if len(needed) == 1 else All(needed, origin)


def disjunction(parts: Iterable[Formula], origin: Expr | None = None) -> Formula:
    """The disjunction of `parts`, simplified. O(n log n)."""
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Either) else (part,))
    if ALWAYS in flat:
        return ALWAYS
    merged: list[Formula] = []
    for group in _by_attribute(flat):
        if not isinstance(group[0], Leaf):
            merged.append(group[0])
            continue
        leaves = [part for part in group if isinstance(part, Leaf)]
        keys = union(interval for part in leaves for interval in part.intervals)
        merged.append(leaf(group[0].attribute, keys, any(part.nulls for part in leaves)))
    if ALWAYS in merged:
        return ALWAYS
    return merged[0] if len(merged) == 1 else Either(tuple(merged), origin)


def _by_attribute(parts: Sequence[Formula]) -> list[list[Formula]]:
    """Group parts: the leaves of one attribute in one list, every other part alone. Groups are in the order of their
    first part."""
    groups: dict[object, list[Formula]] = {}
    for position, part in enumerate(parts):
        key: object = part.attribute if isinstance(part, Leaf) else position
        groups.setdefault(key, []).append(part)
    return list(groups.values())


def negation(expr: Expr) -> Expr:
    """NOT `expr`, as a bound expression."""
    return Call(BOOLEAN, "not", (expr,))

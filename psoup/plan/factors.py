"""WHERE after binding: a conjunction of boolean factors, each a union of interval terms.

WHERE is a conjunction of *boolean factors*. A factor is a union of *terms*. A term is satisfied if the order key of one
attribute lies in one of some intervals. The attribute is a column, or an expression that the engine treats as a column:
a *derived attribute*.

    a > 3 AND (b = 1 OR c IS NULL) AND a*b < 9
      factor 1: { a in [4, inf) }
      factor 2: { b in [1, 2) } or { c NULL }
      factor 3: { (a*b) in (-inf, 9) }
    name LIKE '%x%y'  ->  factor: { (name LIKE '%x%y') in [1, 2) }, a derived BOOLEAN: an *opaque factor*

The binder has pushed NOT to the leaves. So only the keys for which a leaf is TRUE matter. Errors satisfy no term. NULL
satisfies a term only if its `nulls` is set.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.expressions.tree import Expr

Key = int | bytes


@dataclass(frozen=True, slots=True)
class Interval:
    """The order keys k with low <= k < high. None: the interval has no end there. Keys are int64, or bytes for TEXT."""

    low: Key | None
    high: Key | None


@dataclass(frozen=True, slots=True)
class Term:
    """A condition on one attribute: its order key lies in one of `intervals`, or it is NULL and `nulls` is set.

    The intervals are sorted and disjoint, and none is empty.
    """

    attribute: Expr
    intervals: tuple[Interval, ...]
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class Factor:
    """A conjunct of WHERE: at least one of `terms` holds. The terms have different attributes. Without terms it is
    never true."""

    terms: tuple[Term, ...]

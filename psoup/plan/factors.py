"""WHERE after binding: a conjunction of boolean factors, each a union of interval terms.

WHERE is a conjunction of *boolean factors*; a factor is a union of *terms*; a term says that the order key of
one attribute (a column, or an expression that is treated as a column: a *derived attribute*) lies in one of
some intervals:

    a > 3 AND (b = 1 OR c IS NULL) AND a*b < 9
      factor 1: { a in [4, inf) }
      factor 2: { b in [1, 2) } or { c NULL }
      factor 3: { (a*b) in (-inf, 9) }
    name LIKE '%x%y'  ->  factor: { (name LIKE '%x%y') in [1, 2) }, a derived BOOLEAN: an *opaque factor*

NOT has been pushed to the leaves, so only the TRUE set of each leaf matters: NULL and errors lie outside every
interval, and in a term only if it says `nulls`.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.expressions.tree import Expr

Key = int | bytes


@dataclass(frozen=True, slots=True)
class Interval:
    """Order keys k with low <= k < high; None: unbounded. Keys are int64, or bytes for TEXT."""

    low: Key | None
    high: Key | None


@dataclass(frozen=True, slots=True)
class Term:
    """The order key of `attribute` lies in one of `intervals` (sorted, disjoint, none empty), or is NULL if `nulls`."""

    attribute: Expr
    intervals: tuple[Interval, ...]
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class Factor:
    """A conjunct: at least one of `terms` holds. No terms: never true. Terms have different attributes."""

    terms: tuple[Term, ...]

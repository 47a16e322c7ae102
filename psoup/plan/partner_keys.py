"""The conditions of a partner join that decide on partners by values alone: equal keys, and one band beside them.

    a.k = b.k                                      equal keys
    a.k = b.k AND b.v BETWEEN a.v AND a.v + 9      equal keys, and a band

With other conditions, the pairs of rows decide.
"""

from __future__ import annotations

from psoup.expressions.tree import Expr, sources_of
from psoup.model import Kind
from psoup.plan.partners import PartnerJoin

_LOW = {"le": "ge", "ge": "le"}
"""The comparisons of a band with both ends included. Each has the comparison with exchanged sides."""


def finds_by_values(node: PartnerJoin) -> bool:
    """Whether equal keys, and perhaps one band, decide on partners. Otherwise the pairs of rows do."""
    return equal_keys(node) is not None and band_bounds(node) is not None


def equal_keys(node: PartnerJoin) -> list[tuple[Expr, Expr]] | None:
    """The equalities of a join: an expression over the left and one over the right. None if their types differ, or if
    there are other conditions than equalities and bands."""
    if node.rest:
        return None
    left = frozenset(source.place for source in node.left.sources)
    pairs = [(each.left, each.right) for each in node.keys]
    pairs = [(first, second) if sources_of(first) <= left else (second, first) for first, second in pairs]
    pairs += [] if node.member is None else [node.member]
    return pairs if all(first.type == second.type for first, second in pairs) else None


def band_bounds(node: PartnerJoin) -> list[tuple[Expr, Expr]] | None:
    """The lower and the upper bound of a band: pairs of an expression of the left and one of the right. [] without one.

    None if the bands are not one lower and one upper bound of the same number.
    """
    left = frozenset(source.place for source in node.left.sources)
    bands = dict[str, tuple[Expr, Expr]]()
    for each in node.bands:
        on_left = sources_of(each.left) <= left
        operator = each.operator if on_left else _LOW.get(each.operator, "")
        bands[operator] = (each.left, each.right) if on_left else (each.right, each.left)
    if not node.bands:
        return []
    if len(node.bands) != 2 or set(bands) != {"le", "ge"}:
        return None
    low, high = bands["le"], bands["ge"]
    types = {expr.type for expr in (*low, *high)}
    same = low[1] == high[1] and len(types) == 1 and low[1].type.kind not in (Kind.TEXT, Kind.WIDE)
    return [low, high] if same else None

"""Joins without a condition between some sources: each row of one source meets each row of the other.

    r, s, t WHERE r.k = s.k      t is apart from r and s: its rows times the joined rows of r and s

The number of pairs is known before any pair is made. A join with too many is refused at once, with that number.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from psoup.budgets import JOIN_PAIRS
from psoup.config import JoinLimits
from psoup.errors import ResourceExhausted
from psoup.plan.nodes import Join
from psoup.plan.plan_facts import plan_fact


def refuse_product(node: Join, rows: Sequence[int], limits: JoinLimits) -> None:
    """Refuse a join of too many pairs. `rows`: the number of rows of each input. Raises ResourceExhausted.

    Sources that a condition connects count as one row, because the number of their joined rows is not known yet.
    """
    apart = sources_apart(node)
    pairs = prod(rows[place] for place in apart)
    if pairs > limits.pairs:
        names = [" and ".join(leaf.alias for leaf in part.leaves) for part in node.inputs]
        listed = " times ".join(f"{rows[place]:,} of {names[place]}" for place in apart)
        raise ResourceExhausted(
            f"this join has {pairs:,} pairs of rows ({listed}), because no condition connects these sources; one"
            f" invocation may look at {limits.pairs:,} (join_pairs); add a condition such as a.k = b.k, a LIMIT, or"
            " narrow the windows",
            reason="JOIN_BUDGET",
            **JOIN_PAIRS.over(pairs, limits.pairs),
            factor="no condition",
        )


@plan_fact
def sources_apart(node: Join) -> tuple[int, ...]:
    """The numbers of the inputs that no key or band connects with another input. () if a join has at most one."""
    group = list(range(len(node.inputs)))
    inputs = {leaf.place: at for at, part in enumerate(node.inputs) for leaf in part.leaves}
    for factor in (*node.keys, *node.bands):
        left, right = (inputs[place] for place in factor.sources)
        group = [group[left] if at == group[right] else at for at in group]
    alone = [place for place, at in enumerate(group) if group.count(at) == 1]
    return tuple(alone) if len(set(group)) > 1 else ()

"""Explanation of a join with a rule for rows without a partner, or of a join of joins: the rows that it gives now.

    LEFT JOIN r.k = s.k    | 20 rows: 8 with a partner, 12 without
    ANTI JOIN r.k = s.k    | 12 rows
    FULL JOIN r.k = s.k    | an invocation is refused: …

EXPLAIN evaluates such a join as an invocation does, but stops after `_MOST` rows or candidates.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from psoup.answer.plan_nodes import Findings
from psoup.errors import ResourceExhausted
from psoup.execution.plan import rows_of
from psoup.execution.rows.leaf_rows import LeafRows
from psoup.execution.rows.source_rows import Reading
from psoup.phrases import counted
from psoup.plan.nodes import Join, Node, PartnerJoin

_MOST = 1_048_576
"""The most candidates, and the most rows, that EXPLAIN evaluates. They take up to 0.4 s."""
_AT_ONCE = 65_536
"""The most rows of a piece."""


def explain_partners(node: Join | PartnerJoin, reading: Reading | ResourceExhausted) -> Findings:
    """Evaluate a join, and report its rows, and the rows without a partner. O(rows + candidates, up to _MOST)."""
    if isinstance(reading, ResourceExhausted):
        return _refused(reading)
    limited = replace(reading, joins=replace(reading.joins, pairs=min(reading.joins.pairs, _MOST)))
    rows = rows_of(node, limited)
    assert isinstance(rows, LeafRows)
    rows.cut(_MOST, 0)
    optional = _optional(node)
    total, missing, whole = 0, 0, True
    try:
        for piece in rows.pieces(_AT_ONCE):
            total += len(piece[0])
            lacking = [np.all([piece[at] < 0 for at in side], axis=0) for side in optional]
            missing += sum(int(np.count_nonzero(each)) for each in lacking)
    except ResourceExhausted as refused:
        if refused.reason != "JOIN_BUDGET" or reading.joins.pairs <= _MOST:
            return _refused(refused)
        whole = False
    finally:
        rows.close()
    return _findings(total, missing, optional=bool(optional), whole=whole and total < _MOST)


def _refused(problem: ResourceExhausted) -> Findings:
    return Findings({}, {"problem": problem.message}, [f"an invocation is refused: {problem.message}"])


def _findings(rows: int, missing: int, *, optional: bool, whole: bool) -> Findings:
    figures: dict[str, float] = {"rows": rows, "whole": whole}
    line = counted(rows, "row")
    if not whole:
        line = f"at least {line}" if rows else "more rows than EXPLAIN counts"
    elif optional:
        figures |= {"partners": rows - missing, "missing": missing}
        line += f": {rows - missing:,} with a partner, {missing:,} without"
    return Findings(figures, {}, [line])


def _optional(node: Node) -> list[range]:
    """The leaves of each input that is missing in rows without a partner, as places in a piece."""
    if not isinstance(node, PartnerJoin) or node.kind.filters:
        return []
    left, right = len(node.left.leaves), len(node.right.leaves)
    return [range(left)] * node.kind.keeps_right + [range(left, left + right)] * node.kind.keeps_left

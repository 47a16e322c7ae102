"""Explanation of a partitioned window: its keys and rows now, and the tuples that an invocation reads for it.

    LastRows PARTITION BY sym ROWS 10    | 480,000 rows of 48,000 keys
                                         | reads the keys of 1,048,576 tuples in 16 chunks, and skips 4 chunks

EXPLAIN reads the window as an invocation does, if the stream has at most `_MOST` tuples.
"""

from __future__ import annotations

from psoup.answer.plan_nodes import Findings
from psoup.errors import ResourceExhausted
from psoup.execution.rows.last_rows import WindowFigures, in_window, limits_of
from psoup.execution.select.clause_matches import Side, matches_in
from psoup.phrases import counted
from psoup.plan.nodes import LastRows
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget

_MOST = 4_194_304
"""The most tuples of a stream in which EXPLAIN reads the window. It takes some tens of milliseconds."""


def explain_last_rows(node: LastRows, side: Side, snapshot: Snapshot, tenant: str, budget: ReadBudget) -> Findings:
    """The keys, the rows and the work of a window. `side`: the stream, the clause of WHERE, and the tuple IDs up to
    NOW. O(tuples, up to _MOST).
    """
    view, clause, low, high = side
    facts = {"window": node.input.window_text}
    if high - low > _MOST:
        return Findings({}, facts)
    figures, config = WindowFigures(), snapshot.config
    try:
        matches = matches_in(*side, snapshot.run, config.archive_rows, budget, config.texts)
        limits = limits_of(snapshot, tenant, budget)
        in_it = in_window(node.input, view, low, high, matches, limits, clause.factors, figures)
    except ResourceExhausted as problem:
        return Findings({}, {**facts, "problem": problem.message}, [f"an invocation is refused: {problem.message}"])
    rows = sum(match.count for match in in_it)
    if node.input.partition is None or not node.input.partition.keys:
        return Findings({"rows": rows}, facts, [counted(rows, "row")])
    read = figures.chunks - figures.skipped
    numbers: dict[str, float] = {
        "rows": rows,
        "keys": figures.keys,
        "tuples_read": figures.read,
        "chunks_read": read,
        "chunks_skipped": figures.skipped,
    }
    work = f"reads the keys of {counted(figures.read, 'tuple')} in {counted(read, 'chunk')}"
    skipped = f", and skips {counted(figures.skipped, 'chunk')}" if figures.skipped else ""
    return Findings(numbers, facts, [f"{counted(rows, 'row')} of {counted(figures.keys, 'key')}", work + skipped])

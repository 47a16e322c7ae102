"""Explanation of a join: its rows now, the order of its sources, and the figures of each step.

    Join r.k = w.k    | 12 tuples from 5,000 candidates
                      | then w by r.k = w.k: 400 in, 12 out, 5,000 candidates
                      | 1,049 pairs kept, of 256 pairs of chunks; 3 more pairs of chunks have too many, or errors

EXPLAIN evaluates the join as an invocation does, but stops after `_MOST` candidates. The figures then describe a part
of the join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psoup.answer.plan_nodes import Findings
from psoup.config import GroupLimits
from psoup.errors import ResourceExhausted
from psoup.execution.join.located_side import found_sides
from psoup.execution.join.sides import MatchedSide
from psoup.execution.rows.last_rows import Limits, in_windows
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.clause_matches import Side
from psoup.joins.join_pieces import Joined, joined
from psoup.joins.pairs_store import PairTable, join_with_pairs
from psoup.phrases import counted
from psoup.plan.nodes import Join, Node, partitioned
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget

_MOST = 4_194_304
"""The most candidates that EXPLAIN evaluates. They take some tens of milliseconds."""


def explain_join(node: Join, reading: Reading | ResourceExhausted) -> Findings:
    """Evaluate a join of the matches of its sides, and report its figures. O(candidates up to _MOST)."""
    if isinstance(reading, ResourceExhausted):
        message = reading.message
        return Findings({}, {"problem": message}, [f"an invocation is refused: {message}"])
    texts, budget = reading.texts, reading.budget
    sides = [MatchedSide(matches, texts, budget, reading.joins.bytes) for matches in reading.matches]
    limits = replace(reading.joins, pairs=min(reading.joins.pairs, _MOST))
    join = joined(node, sides, now=reading.now, texts=texts, budget=budget, limits=limits)
    rows, whole = 0, True
    try:
        for piece in join:
            rows += len(piece[0])
    except ResourceExhausted as problem:
        if problem.reason != "JOIN_BUDGET":
            raise
        whole = False
    finally:
        join.close()
        for side in sides:
            side.close()
    findings = _findings(node, join, rows, whole)
    return findings if reading.pairs is None else _with_pairs(findings, reading.pairs)


def reading_of(
    plan: Node, wanted: Sequence[Side], now: int | None, snapshot: Snapshot, groups: GroupLimits, budget: ReadBudget
) -> Reading | ResourceExhausted:
    """The matches of a join's sides, as in an invocation. Returns the refusal instead if too many tuples are
    on disk.
    """
    config, views = snapshot.config, [view for view, *_ in wanted]
    try:
        matches = found_sides(wanted, snapshot.run, config.archive_rows, budget, config.texts)
    except ResourceExhausted as problem:
        if problem.reason != "ARCHIVE_BUDGET":
            raise
        return problem
    if windows := partitioned(plan):
        limits_of_windows = Limits(config.texts, budget, groups, snapshot.run)
        matches = in_windows(windows, wanted, matches, limits_of_windows)
    join = join_with_pairs(plan)
    pairs = None if join is None else snapshot.pairs.of(join, [view.stream_id for view in views])
    limits = config.sort_rows, config.joins, groups, snapshot.run, views[0].keys, pairs
    return Reading(matches, now, config.texts, budget, *limits)


def _with_pairs(findings: Findings, table: PairTable) -> Findings:
    """The findings, with the figures of the maintained pairs of the join."""
    made, blocks = table.blocks
    figures = {
        "pairs_kept": table.pairs,
        "pairs_bytes": table.nbytes,
        "pairs_of_chunks": blocks,
        "not_kept": made - blocks,
    }
    line = f"{counted(table.pairs, 'pair')} kept, of {counted(blocks, 'pair of chunks', 'pairs of chunks')}"
    if made > blocks:
        line += (
            f"; {counted(made - blocks, 'more pair of chunks', 'more pairs of chunks')} with too many, or with errors"
        )
    facts = {**findings.facts, "pairs_refused": table.refused} if table.refused else findings.facts
    if table.refused:
        line += f"; no more are made until a chunk comes or leaves: {table.refused}"
    return Findings({**findings.figures, **figures}, facts, [*findings.lines, line])


def _findings(node: Join, join: Joined, rows: int, whole: bool) -> Findings:
    """The figures of a join. `rows`: the rows found; `whole`: whether the join was evaluated to its end."""
    steps = [step for step in join.figures if step.pieces]
    names = [source.alias or source.spec.name for source in node.sources]
    figures: dict[str, float] = {
        "rows": rows,
        "candidates": join.candidates,
        "bytes": join.peak,
        "errors": join.errors,
        "whole": whole,
    }
    facts = {"route": ", ".join([names[0], *(names[step.source] for step in steps)])}
    bound = "" if whole else "at least "
    lines = [f"{bound}{counted(rows, 'tuple')} from {counted(join.candidates, 'candidate')}"]
    if join.nested:
        facts["order"] = "as in FROM, over the rows that have partners"
        lines.append("in the order of FROM, over the rows that have partners")
    if join.errors:
        lines.append(f"{counted(join.errors, 'evaluation error')}")
    for number, step in enumerate(steps, 1):
        name, by = names[step.source], f" by {step.text}" if step.text else ""
        facts[f"step_{number}"] = f"{name}{by}"
        figures |= {
            f"step_{number}_in": step.rows_in,
            f"step_{number}_out": step.rows_out,
            f"step_{number}_candidates": step.candidates,
            f"step_{number}_pieces": step.pieces,
        }
        made = f"{step.rows_in:,} in, {step.rows_out:,} out, {counted(step.candidates, 'candidate')}"
        lines.append(f"then {name}{by}: {made}")
    return Findings(figures, facts, lines)

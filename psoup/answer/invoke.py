"""Invocation: the current answer of a query, gathered from chunks and stored results.

    window ─> range of IDs of each source ─> matches per chunk ─> the plan, over references ─> columns ─> Arrow

`invoke` finds the matches. The rows are gathered later, one record batch at a time, when the reader takes them. The
answer holds the snapshot until then. Cost: O(rows of the result + tuples of the window / 64).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from psoup.answer.answer import Answer, Matched, by_way
from psoup.answer.automatic.noted_answers import note_answer
from psoup.answer.completeness import Completeness, part_of, parts_of
from psoup.answer.join_ranges import Placed, placed
from psoup.answer.kept_answers.complete import complete_answer, is_kept
from psoup.answer.question import Question
from psoup.execution.aggregate.window_case import WindowCase
from psoup.execution.join.located_side import errors_of, found_sides
from psoup.execution.plan import Reading
from psoup.execution.rows.last_rows import in_window, in_windows, limits_of
from psoup.execution.select.match_forms import ChunkMatches
from psoup.execution.select.window import Ranges, Reach, WindowChoice
from psoup.execution.ways import WINDOW
from psoup.joins.pairs_store import PairTable, join_with_pairs
from psoup.plan.nodes import partitioned
from psoup.published.records import NO_CLAUSE, ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.work.read_budget import ReadBudget

__all__ = [
    "Answer",
    "Matched",
    "answer_of",
    "answer_of_record",
    "answer_over",
    "answer_seen",
    "answer_to",
    "by_way",
    "invoke",
    "join_answer",
    "updated_answer",
]


def invoke(
    snapshot: Snapshot,
    query_id: int,
    *,
    tenant: str,
    now: int,
    as_of: int | None = None,
    window: WindowChoice | None = None,
    accept_truncation: bool = False,
    budget: ReadBudget | None = None,
    ranges: Ranges | None = None,
    latest: bool = False,
) -> Answer:
    """Answer a query. `now`: the clock, microseconds. `as_of` replaces NOW. `window` replaces some or all windows.

    No tuple after `as_of` is in the answer: a window that ends later is cut there. The cut window is final once the
    watermark has passed `as_of`.

    `ranges`: the ranges of an earlier answer of the same join at `as_of`. `invoke` gives that answer again, without the
    tuples that have arrived since. `latest`: as in Question.

    Raises NotFound; OutOfRange for an `as_of` after NOW. Raises OutOfRange for a window that begins before the oldest
    kept tuple, unless `accept_truncation`. Raises ResourceExhausted if too many of its tuples are on disk, not covered.
    """
    question = Question(now, as_of, window, accept_truncation, budget or ReadBudget(), latest)
    return answer_to(snapshot, query_id, tenant, question, ranges)


def answer_to(
    snapshot: Snapshot, query_id: int, tenant: str, question: Question, ranges: Ranges | None = None
) -> Answer:
    """Answer a query, as `invoke` does."""
    record = snapshot.query(query_id, tenant)
    answer = answer_of_record(snapshot, record, question, ranges)
    if record.keeping.auto:
        note_answer(snapshot, record, answer)
    return answer


def answer_of_record(
    snapshot: Snapshot, record: QueryRecord, question: Question, ranges: Ranges | None = None
) -> Answer:
    """Answer a query, as `invoke` does, without a note that it was asked."""
    if ranges is None and is_kept(record, question):
        return complete_answer(snapshot, record, question, lambda: _evaluated(snapshot, record, question))
    return _evaluated(snapshot, record, question, ranges)


def updated_answer(snapshot: Snapshot, record: QueryRecord, question: Question) -> Answer:
    """The answer of a query for which `is_kept`, without a client that asks for it. Once it is read to its end, it is
    kept. Does not count as a use of the query. Raises as `invoke`."""
    evaluate = partial(_evaluated, snapshot, record, question)
    return complete_answer(snapshot, record, question, evaluate, by_client=False)


def _evaluated(snapshot: Snapshot, record: QueryRecord, question: Question, ranges: Ranges | None = None) -> Answer:
    """The answer of a query from the matches of its clauses. Raises as `invoke`."""
    if record.sqc_id == NO_CLAUSE:
        by_registration = question.as_of is None and question.window is None and ranges is None
        if by_registration and (place := placed(snapshot, record)) is not None:
            return _placed_answer(snapshot, record, place, question.now, question.budget)
        return join_answer(snapshot, record, snapshot.sources_of(record), question, ranges)
    return answer_of(snapshot, record, snapshot.clause(record.sqc_id), question)


def answer_of(snapshot: Snapshot, record: QueryRecord, clause: ClauseRecord, question: Question) -> Answer:
    """Answer a query over one stream whose WHERE is `clause`. Raises as `invoke`."""
    window = record.query.window if question.window is None else question.windows(record.query)[0]
    seen = question.seen_of_one(snapshot.by_id[record.stream_id], window)
    return answer_over(snapshot, record, clause, seen, question.budget)


def answer_over(
    snapshot: Snapshot, record: QueryRecord, clause: ClauseRecord, seen: Reach, budget: ReadBudget
) -> Answer:
    """Answer a query over one stream from the tuples that it sees. Raises as `invoke`."""
    view, config = seen.view, snapshot.config
    low, high = seen.range.low, seen.range.high
    budget.window = high - low
    budget.check()
    texts = config.texts
    plan = record.query.plan
    matched, between = WINDOW.take(plan, WindowCase(view, clause, low, high, plan, snapshot, budget))
    part = part_of(snapshot, seen)
    if windows := partitioned(plan):
        of_chunks = [match for match in matched if isinstance(match, ChunkMatches)]  # folds serve no such window
        limits = limits_of(snapshot, view.tenant, budget)
        matched = in_window(windows[0], view, low, high, of_chunks, limits, clause.factors)
        part = part._replace(window_kind=windows[0].window_kind)
    errors = sum([m.errors for m in matched]) + (0 if between is None or between.fold is None else between.fold.errors)
    completeness = Completeness(snapshot.sequence, seen.now, errors, (part,))
    reading = Reading(
        [matched], seen.now, texts, budget, config.sort_rows, groups=snapshot.groups_of(view.tenant), between=between
    )
    return Answer(record, completeness, reading, (view.stream_id,))


def join_answer(
    snapshot: Snapshot,
    record: QueryRecord,
    sides: Sequence[Matched],
    question: Question,
    ranges: Ranges | None = None,
) -> Answer:
    """Answer a query over several streams; `sides`: in the order of FROM. `ranges` and errors: as `invoke`."""
    seen = question.seen([view for view, _ in sides], question.windows(record.query), ranges)
    return answer_seen(snapshot, record, sides, seen, question.budget)


def answer_seen(
    snapshot: Snapshot, record: QueryRecord, sides: Sequence[Matched], seen: Sequence[Reach], budget: ReadBudget
) -> Answer:
    """Answer a query over several streams from the tuples that it sees of each. Raises as `invoke`."""
    views, config = [view for view, _ in sides], snapshot.config
    made_of = [part.range[:2] for part in seen]
    budget.window = sum([high - low for low, high in made_of])
    budget.check()
    wanted = [(part.view, clause, *part.range[:2]) for part, (_, clause) in zip(seen, sides, strict=True)]
    matches_of_sides = found_sides(wanted, snapshot.run, config.archive_rows, budget, config.texts)
    if windows := partitioned(record.query.plan):
        matches_of_sides = in_windows(windows, wanted, matches_of_sides, limits_of(snapshot, record.tenant, budget))
    pairs = _pairs(snapshot, record, views) if snapshot.pairs else None
    groups = snapshot.groups_of(record.tenant)
    limits = (config.sort_rows, config.joins, groups, snapshot.run, views[0].keys, pairs)
    reading = Reading(matches_of_sides, seen[0].now, config.texts, budget, *limits)
    reading.lost_before = [part.view.lost_before for part in seen]
    reading.tables = [part.view for part in seen]

    def completeness() -> Completeness:
        errors = sum([errors_of(matches) for matches in matches_of_sides])
        return Completeness(snapshot.sequence, seen[0].now, errors, parts_of(snapshot, record.query.plan, seen))

    return Answer(record, completeness, reading, [view.stream_id for view in views], made_of)


def _placed_answer(snapshot: Snapshot, record: QueryRecord, place: Placed, clock: int, budget: ReadBudget) -> Answer:
    """Answer a join by the ranges and chunks that an earlier invocation noted in the snapshot."""
    budget.window = place.tuples
    budget.check()
    config, now = snapshot.config, place.now(clock)
    pairs = _pairs(snapshot, record, place.views) if snapshot.pairs else None
    groups = snapshot.groups_of(record.tenant)
    limits = (config.sort_rows, config.joins, groups, snapshot.run, place.views[0].keys, pairs)
    reading = Reading(place.located(), now, config.texts, budget, *limits)

    def completeness() -> Completeness:
        return Completeness(snapshot.sequence, now, 0, parts_of(snapshot, record.query.plan, place.seen(clock)))

    return Answer(record, completeness, reading, place.streams, place.ranges)


def _pairs(snapshot: Snapshot, record: QueryRecord, views: Sequence[StreamView]) -> PairTable | None:
    """The table of pairs that the engine maintains for the join. Returns None if it maintains none."""
    node = join_with_pairs(record.query.plan)
    return None if node is None else snapshot.pairs.of(node, [view.stream_id for view in views])

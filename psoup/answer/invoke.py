"""Invocation: the current answer of a query, gathered from chunks and stored results.

    window ─> range of IDs of each source ─> matches per chunk ─> the plan, over references ─> columns ─> Arrow

`invoke` finds the matches. The rows are gathered later, one record batch at a time, when the reader takes them. The
answer holds the snapshot until then. Cost: O(rows of the result + tuples of the window / 64).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from psoup.answer.completeness import Completeness, part_of, parts_of
from psoup.answer.join_ranges import Placed, placed
from psoup.answer.question import Question
from psoup.data.archived_chunk import Chunk
from psoup.execution.aggregate.window_case import WindowCase
from psoup.execution.join.located_side import chunks_of, count_of, errors_of, found_sides
from psoup.execution.plan import Reading, rows_of
from psoup.execution.rows.answer_case import AnswerCase, AnswerPart
from psoup.execution.rows.last_rows import in_window, in_windows, limits_of
from psoup.execution.rows.record_batch import Message, form_of, read
from psoup.execution.select.match_forms import ChunkMatches, Matches, packed
from psoup.execution.select.window import Ranges, Reach, WindowChoice
from psoup.execution.ways import ANSWER, WINDOW
from psoup.joins.pairs_store import PairTable, join_with_pairs
from psoup.model import Kind
from psoup.plan.nodes import Node, partitioned
from psoup.published.records import NO_CLAUSE, ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Column
from psoup.values.kinds import arrow_type
from psoup.work.read_budget import ReadBudget

_MAX_ROWS = 65_536
_BATCH_BYTES = 1 << 30
"""The most bytes of a batch with several rows. The offsets of an Arrow text column have 31 bits."""

Matched = tuple[StreamView, ClauseRecord]
"""A source of a join: its stream, and the clause of its side."""


class Answer:
    """The answer of one invocation. It holds its snapshot as long as it exists."""

    def __init__(
        self,
        record: QueryRecord,
        completeness: Completeness | Callable[[], Completeness],
        reading: Reading,
        streams: Sequence[int],
        ranges: Ranges = (),
        plan: Node | None = None,
    ) -> None:
        """`completeness`: the value, or a function that computes it at first use.

        `streams`: the stream ID of each source. `ranges`: for a join, the range of tuple IDs of each source. `plan`:
        a plan over the same source that replaces the plan of the query.
        """
        self.record = record
        self._completeness = completeness
        self.budget = reading.budget
        self._plan = plan or record.query.plan
        self._select = self._plan.schema
        self._reading = reading
        self._streams = streams
        self.ranges = ranges

    @property
    def completeness(self) -> Completeness:
        """The completeness of the answer: which events it reflects, and which tuples it lacks."""
        if not isinstance(self._completeness, Completeness):
            self._completeness = self._completeness()
        return self._completeness

    def lean(self) -> Answer:
        """A copy of the answer for the time until its reader comes. It holds the chunks but no results, so it takes
        less memory.
        """
        reading = self._reading
        matches = [[packed(match) for match in source if match.count] for source in reading.matches]
        lean = replace(reading, matches=matches)
        return Answer(self.record, self.completeness, lean, self._streams, self.ranges, self._plan)

    @property
    def errors(self) -> int:
        """Tuples that are missing because a value in WHERE could not be computed; see Completeness.

        For a join, a combination of tuples also counts if a condition over several sources could not be computed. For
        groups, keys, arguments of aggregates and their FILTERs also count if they could not be computed. These two
        counts cover only the rows that were read so far.
        """
        return self.completeness.errors + self._reading.join_errors + self._reading.folded_errors

    @property
    def select_errors(self) -> int:
        """Values of the SELECT list, and keys of ORDER BY, that are NULL because they could not be computed.

        Counted over the rows that the latest pass over `batches` or `messages` has taken so far.
        """
        return self._reading.errors

    @property
    def unknown(self) -> int:
        """Rows of a join AS OF without a version that are older than the table's HISTORY.

        A version may have held at their times, and is lost. Counted as `select_errors`.
        """
        return self._reading.unknown

    @property
    def chunks(self) -> list[tuple[int, list[Chunk]]]:
        """The stream ID of each source, and the chunks of it that the answer holds as long as it exists."""
        sources = zip(self._streams, self._reading.matches, strict=True)
        return [(stream_id, chunks_of(matches)) for stream_id, matches in sources]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of every batch."""
        form = form_of(self._select)
        return form.schema if form else pa.schema([(o.name, arrow_type(o.type)) for o in self._select])

    @property
    def schema_message(self) -> bytes:
        """The schema as the first message of an Arrow IPC stream."""
        form = form_of(self._select)
        return form.schema_message if form else self.schema.serialize().to_pybytes()

    @property
    def matched(self) -> int:
        """Tuples of the windows that satisfy WHERE. Over one stream: the rows before GROUP BY, DISTINCT and LIMIT."""
        between = self._reading.between
        ends = sum([count_of(matches) for matches in self._reading.matches])
        return ends + (0 if between is None or between.fold is None else between.fold.matched)

    @property
    def likeness(self) -> str:
        """A fingerprint of the answer at one NOW: equal texts mean equal answers.

        The text holds the number of matches, and the IDs of the first and last. These suffice: at one NOW, matches are
        only added at the end and removed at the start. If matches may be folded, the text has the ends of the window
        instead of the IDs.
        """
        if (between := self._reading.between) is not None:
            return f"{between.window}/{self.matched}"
        return ", ".join([f"{_ends(matches)}/{count_of(matches)}" for matches in self._reading.matches])

    def batches(self, max_rows: int = _MAX_ROWS, max_bytes: int = _BATCH_BYTES) -> Iterator[pa.RecordBatch]:
        """The rows, in order, at most `max_rows` in a batch. Raises ResourceExhausted if a sort is over its budget.

        Rows of plain columns are gathered in batches of at most `max_bytes`, or of one row.
        """
        schema: pa.Schema | None = None
        for part in self.messages(max_rows, max_bytes):
            if isinstance(part, Message):
                schema = self.schema if schema is None else schema
                yield read(part.gathered(), schema)
            else:
                yield part

    def messages(self, max_rows: int = _MAX_ROWS, max_bytes: int = _BATCH_BYTES) -> Iterator[Message | pa.RecordBatch]:
        """Yield the rows as `batches` does, but rows of plain columns as messages, which are gathered on demand.

        A message has at most `max_bytes`, or one row. A batch has about half of that, if texts have usual lengths.
        """
        self._reading.begin()
        max_bytes = min(max_bytes, _BATCH_BYTES)
        for part in ANSWER.take(self._plan, self._case(max_rows, max_bytes)):
            if not isinstance(part, Message):
                yield self._batch(part)
            elif part.size <= max_bytes:  # nearly always
                yield part
            else:
                yield from _cut(part, max_bytes)

    def _case(self, max_rows: int, max_bytes: int) -> AnswerCase:
        return AnswerCase(self._plan, self._reading, max_rows, max_bytes, rows_of)

    def to_table(self) -> pa.Table:
        """The whole answer as one Arrow table."""
        batches = list(self.batches())
        return pa.Table.from_batches(batches) if batches else self.schema.empty_table()

    def _batch(self, columns: list[Column]) -> pa.RecordBatch:
        self._reading.count(columns)
        arrays = [
            column.to_arrow().cast(pa.string()) if column.type.kind is Kind.TEXT else column.to_arrow()
            for column in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, [o.name for o in self._select])


def by_way(answer: Answer, name: str) -> Iterator[AnswerPart]:
    """The rows of an answer by the named way, even if a quicker way accepts the answer. Raises what the way raises."""
    (way,) = [way for way in ANSWER.ways if way.name == name]
    return iter(way.run(answer._case(_MAX_ROWS, _BATCH_BYTES)))


def _ends(matches: Sequence[Matches]) -> tuple[int, int] | None:
    """The tuple IDs of the first and the last match, in stream order. Returns None if nothing matches."""
    some = [match for match in matches if match.count]
    if not some:
        return None
    first, last = some[0], some[-1]
    return first.data.places.id_of(int(first.offsets[0])), last.data.places.id_of(int(last.offsets[-1]))


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
    part = part_of(seen)
    if windows := partitioned(plan):
        of_chunks = [match for match in matched if isinstance(match, ChunkMatches)]  # folds serve no such window
        matched = in_window(windows[0], view, low, high, of_chunks, limits_of(snapshot, view.tenant, budget))
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
    views = [view for view, _ in sides]
    seen = question.seen(views, question.windows(record.query), ranges)
    config, budget = snapshot.config, question.budget
    made_of = [part.range[:2] for part in seen]
    budget.window = sum([high - low for low, high in made_of])
    budget.check()
    wanted = [(part.view, clause, *part.range[:2]) for part, (_, clause) in zip(seen, sides, strict=True)]
    matches_of_sides = found_sides(wanted, snapshot.run, config.archive_rows, budget, config.texts)
    if windows := partitioned(record.query.plan):
        ranges_of_sides = [(part.view, *part.range[:2]) for part in seen]
        limits_of_windows = limits_of(snapshot, record.tenant, budget)
        matches_of_sides = in_windows(windows, ranges_of_sides, matches_of_sides, limits_of_windows)
    pairs = _pairs(snapshot, record, views) if snapshot.pairs else None
    groups = snapshot.groups_of(record.tenant)
    limits = (config.sort_rows, config.joins, groups, snapshot.run, views[0].keys, pairs)
    reading = Reading(matches_of_sides, seen[0].now, config.texts, budget, *limits)
    reading.lost_before = [part.view.lost_before for part in seen]
    reading.tables = [part.view for part in seen]

    def completeness() -> Completeness:
        errors = sum([errors_of(matches) for matches in matches_of_sides])
        return Completeness(snapshot.sequence, seen[0].now, errors, parts_of(record.query.plan, seen))

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
        return Completeness(snapshot.sequence, now, 0, parts_of(record.query.plan, place.seen(clock)))

    return Answer(record, completeness, reading, place.streams, place.ranges)


def _pairs(snapshot: Snapshot, record: QueryRecord, views: Sequence[StreamView]) -> PairTable | None:
    """The table of pairs that the engine maintains for the join. Returns None if it maintains none."""
    node = join_with_pairs(record.query.plan)
    return None if node is None else snapshot.pairs.of(node, [view.stream_id for view in views])


def _cut(message: Message, max_bytes: int) -> Iterator[Message]:
    """Yield the message, halved again and again until each part has at most `max_bytes` bytes, or one row."""
    if message.size <= max_bytes or message.rows == 1:
        yield message
        return
    for half in message.halves():
        yield from _cut(half, max_bytes)

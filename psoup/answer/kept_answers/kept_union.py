"""The kept answer of UNION ALL of selections: the rows of each SELECT are kept like an answer of one stream.

    UNION ALL      a0 a1 a2 | b0 b1 | c0        the messages of the first SELECT, then of the second, …
    changed        a1 a2 a3 | b0 b1 | c0        spliced where rows came or left; other messages are sent again

All SELECT lists must have columns of 8 bytes, of the same types, as they are in the streams. The answer is evaluated
if new rows are on disk, or may have NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from psoup.answer.answer import Answer
from psoup.answer.completeness import Completeness, parts_of
from psoup.answer.kept_answers.kept_parts import KeptPart, is_plain
from psoup.answer.kept_answers.kept_values import AnswerFigures, KeptSelection, KeptSlot, KeptUnion
from psoup.answer.kept_answers.placed_answers import note_current
from psoup.answer.kept_answers.row_pieces import Piece, written
from psoup.answer.kept_answers.sent_answers import Keep, RowRange, SentAnswer
from psoup.answer.kept_answers.stream_rows import Change, StreamRows, came, changed_pieces, ids_of, reason_to_give_up
from psoup.execution.plan import Reading
from psoup.execution.rows.record_batch import Form, form_of
from psoup.execution.select.window import Reach
from psoup.expressions.tree import AttributeRef
from psoup.plan.nodes import Node, Project, Relation, SetOperation, SetOperator, Source
from psoup.plan.plan_facts import plan_fact
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget


class UnionForm(NamedTuple):
    """The form of the messages of a UNION ALL. `branches`: for each SELECT its source, and the form of its columns."""

    form: Form
    branches: tuple[tuple[int, Form], ...]


@plan_fact
def union_form(plan: Node) -> UnionForm | None:
    """The form of UNION ALL of selections over streams whose messages can be spliced. Returns None for other plans."""
    if not (isinstance(plan, Project) and isinstance(plan.input, Relation) and _shows_all(plan, plan.input)):
        return None
    form, selects = form_of(plan.schema), _selects(plan.input.input)
    if not is_plain(form) or selects is None:
        return None
    branches = list[tuple[int, Form]]()
    for select in selects:
        columns = form_of(select.schema)
        assert isinstance(select.input, Source), "a SELECT of one stream"
        if columns is None or columns.schema.types != form.schema.types:
            return None
        branches.append((select.input.place, columns))
    places = sorted([place for place, _ in branches])
    return UnionForm(form, tuple(branches)) if places == list(range(len(plan.sources))) else None


def _shows_all(plan: Project, relation: Relation) -> bool:
    """Whether a SELECT list has the columns of a relation, in their order."""
    exprs = [output.expr for output in plan.outputs]
    places = [expr.index if isinstance(expr, AttributeRef) else -1 for expr in exprs]
    return places == list(range(len(relation.schema)))


def _selects(node: Node) -> list[Project] | None:
    """The SELECTs of a UNION ALL of streams, in their order. Returns None for other nodes."""
    if isinstance(node, SetOperation) and node.operator is SetOperator.UNION and node.all:
        left, right = _selects(node.left), _selects(node.right)
        return None if left is None or right is None else left + right
    if isinstance(node, Project) and isinstance(node.input, Source) and node.input.spec.table is None:
        return [node]
    return None


class UnionRead:
    """An invocation of a UNION ALL, with a kept answer or without one. `seen`: the window of each source."""

    def __init__(
        self, snapshot: Snapshot, slot: KeptSlot, seen: Sequence[Reach], budget: ReadBudget, otherwise: Keep
    ) -> None:
        """`otherwise`: keeps an answer whose rows cannot be kept."""
        form, sources = union_form(slot.record.query.plan), snapshot.sources_of(slot.record)
        assert form is not None, "the plan has another form"
        self._snapshot = snapshot
        self._slot = slot
        self._seen = seen
        self._budget = budget
        self._otherwise = otherwise
        self._form = form
        self._branches = [
            StreamRows(snapshot, sources[place][1], seen[place], budget) for place, _ in self._form.branches
        ]

    def keep(self, answer: Answer, parts: tuple[KeptPart, ...], size: int) -> None:
        """Keep an answer that was evaluated, and read to its end."""
        rows = sum([part.rows for part in parts])
        pieces = None if answer.errors or answer.select_errors or size > self._most else self._all_rows(answer)
        if pieces is None or sum([len(piece.ids) for of_branch in pieces for piece in of_branch]) != rows:
            self._otherwise(answer, parts, size)
            return
        of_branches = [list(written(self._form.form, of_branch, rows)) for of_branch in pieces]
        self._put(of_branches)

    def brought_up_to_date(self, former: KeptUnion) -> Answer | None:
        """The answer from the kept rows. Returns None if it must be evaluated. Raises as `matches_in`."""
        self._budget.window = sum([high - low for low, high in [branch.window for branch in self._branches]])
        self._budget.check()
        changes = list[Change]()
        for branch, before in zip(self._branches, former.branches, strict=True):
            change = branch.change(before)
            if change is None:
                return None
            changes.append(change)
        if why := reason_to_give_up(changes):
            self._slot.give_up(why)
            return None
        if not any(change.any for change in changes):
            return self._unchanged(former)
        forms = [columns for _, columns in self._form.branches]
        pieces = [changed_pieces(columns, change) for columns, change in zip(forms, changes, strict=True)]
        some = [of_branch for of_branch in pieces if of_branch is not None]
        return self._spliced(some) if len(some) == len(pieces) else None

    def _unchanged(self, former: KeptUnion) -> Answer:
        """The answer with the kept messages, as no row came or left."""
        now, windows = former, [branch.window for branch in self._branches]
        if windows != [branch.covered for branch in former.branches]:
            moved = zip(former.branches, windows, strict=True)
            now = KeptUnion(tuple([replace(branch, covered=window) for branch, window in moved]))
            self._slot.put(now, former.nbytes)
        note_current(self._snapshot, self._slot.record, now)
        parts = now.parts
        return SentAnswer(*self._sent(now.figures), lambda _: parts)

    @property
    def _most(self) -> int:
        return self._slot.room.most_of_one

    def _all_rows(self, answer: Answer) -> list[list[Piece]] | None:
        """The rows of each SELECT of an answer. Returns None if a chunk is on disk, or a column may have NULL."""
        branches = list[list[Piece]]()
        for place, columns in self._form.branches:
            matches = answer._reading.matches[place]
            run = came(columns, matches)
            if run is None:
                return None
            branches.append([Piece(ids_of(matches), run)] if run.shape[1] else [])
        return branches

    def _spliced(self, branches: Sequence[Sequence[Piece]]) -> Answer:
        """The answer with messages that are spliced from kept ones and new rows."""
        ids_of_parts = list[list[Array]]()

        def parts(most_rows: int) -> Iterator[KeptPart]:
            ids_of_parts.clear()
            for pieces in branches:
                ids_of_parts.append([])
                for ids, part in written(self._form.form, pieces, most_rows):
                    ids_of_parts[-1].append(ids)
                    yield part

        def keep(sent: tuple[KeptPart, ...]) -> None:
            rest = iter(sent)
            self._put([[(ids, next(rest)) for ids in of_branch] for of_branch in ids_of_parts])

        rows = sum([len(piece.ids) for pieces in branches for piece in pieces])
        return SentAnswer(*self._sent(AnswerFigures(rows, "")), parts, keep, self._slot.room)

    def _put(self, branches: Sequence[Sequence[tuple[Array, KeptPart]]]) -> None:
        """Keep the tuple IDs and the messages of each SELECT."""
        selections = list[KeptSelection]()
        for branch, rows in zip(self._branches, branches, strict=True):
            ids, parts = tuple([ids for ids, _ in rows]), tuple([part for _, part in rows])
            selections.append(KeptSelection(branch.stamp, branch.window, ids, parts, True))
        value = KeptUnion(tuple(selections))
        self._slot.put(value, value.nbytes)

    def _sent(
        self, figures: AnswerFigures
    ) -> tuple[QueryRecord, Callable[[], Completeness], Reading, RowRange, AnswerFigures]:
        """The arguments of a SentAnswer with these figures, without its messages."""
        record, config, seen = self._slot.record, self._snapshot.config, self._seen
        reading = Reading([[] for _ in seen], seen[0].now, config.texts, self._budget, config.sort_rows)
        extent = RowRange([part.view.stream_id for part in seen], [part.range[:2] for part in seen])

        def completeness() -> Completeness:
            parts = parts_of(self._snapshot, record.query.plan, seen)
            return Completeness(self._snapshot.sequence, seen[0].now, 0, parts)

        return record, completeness, reading, extent, figures

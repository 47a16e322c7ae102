"""A SELECT answered once, over a snapshot, without being registered.

    text ─ the schemas of the snapshot ─> StandingQuery ─ ask ─> Answer
                                              └─ as a clause that no chunk has met: all is evaluated

Nothing is changed: no event, no ID, no results kept. What a registration refuses is refused here by the same rules,
and the answer is what the query would have, registered and invoked at this snapshot.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from psoup.answer.invoke import Answer, Matched, answer_of, join_answer
from psoup.answer.question import Question
from psoup.data.windows import check_window
from psoup.errors import FailedPrecondition, InvalidInput, ResourceExhausted
from psoup.execution.select.archive_work import COVER
from psoup.execution.select.window import WindowChoice
from psoup.model import StreamSpec
from psoup.plan.standing import StandingQuery
from psoup.published.records import NO_CLAUSE, ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.reading import ReadBudget
from psoup.results.chunk_results import ALL
from psoup.sql import Prepared, prepare, standing_query
from psoup.sql.guards import check_budget
from psoup.sql.templates.forms import form_of, in_order
from psoup.sql.templates.ladder import Values, bind_values, gathered

NO_QUERY = -1
"""The ID that stands in place of a query's."""

_LONGEST = 4_096
_CHARACTERS = 65_536
"""Characters of a text that is remembered, and of all: the template of a form of 4,000 characters took 1.1 MB."""

Schemas = Callable[[str], StreamSpec | None]


@dataclass(frozen=True, slots=True)
class BoundQuestion:
    """A statement after binding, for `Questions` to remember; `template` belongs to the text `form`."""

    query: StandingQuery
    form: str = ""
    template: Prepared | None = None

    @property
    def specs(self) -> tuple[StreamSpec, ...]:
        """The definitions of its streams that it was bound to."""
        return tuple([source.spec for source in self.query.sources])


def bind_question(
    snapshot: Snapshot, sql: str, *, tenant: str, values: Values | None = None, form: str = ""
) -> BoundQuestion:
    """Bind a SELECT to the schemas of the snapshot; `values`: one row, for its parameters. Any thread.

    `form`: the text that `Questions.form` wants a template for. Raises what a registration of the statement raises.
    """
    check_budget(sql)
    schemas, names = _schemas(snapshot, tenant), snapshot.names(tenant)
    template = None
    if values is not None:
        form, template = sql, prepare(sql, schemas, names)
        query = _with_values(template, values)
    else:
        query = standing_query(sql, schemas, names)
        if form:
            with suppress(InvalidInput):
                template = prepare(form, schemas, names)
    for source in query.sources:
        check_window(source.window, source.spec)
    return BoundQuestion(query, form, template)


class Questions:
    """Statements that are remembered once asked: a repeated text, or form, is bound in some microseconds.

    One thread at a time; any tenants, as an entry holds for one definition of a stream only.
    """

    def __init__(self) -> None:
        self._queries = _Remembered[StandingQuery]()
        self._templates = _Remembered[Prepared | None]()
        """By form, or by a text with parameters; None: seen once, or none can be made of it."""

    def known(self, snapshot: Snapshot, sql: str, *, tenant: str, values: Values | None = None) -> StandingQuery | None:
        """Return the query, if its text or form is remembered; else None. Raises what binding raises."""
        schemas = _schemas(snapshot, tenant)
        if values is not None:
            template = self._templates.get(sql, schemas)
            return None if template is None else _with_values(template, values)
        query = self._queries.get(sql, schemas)
        return self._of_form(sql, schemas) if query is None else query

    def _of_form(self, sql: str, schemas: Schemas) -> StandingQuery | None:
        """Bind the query by the template of its form; None if that fails: binding it by itself says why."""
        ordered = in_order(sql)
        parts = form_of(ordered)
        template = None if parts is None else self._templates.get(parts[0], schemas)
        if parts is None or template is None:
            return None
        try:
            query = template.bind(parts[1])
        except InvalidInput:
            return None
        return replace(query, text=sql) if query.text == ordered else None

    def form(self, sql: str) -> str:
        """Return the form of a statement if it was seen before, so that it deserves a template; else note it: ""."""
        parts = form_of(in_order(sql))
        if parts is None:
            return ""
        if parts[0] not in self._templates:
            self._templates.put(parts[0], None, ())
            return ""
        return parts[0]

    def learn(self, bound: BoundQuestion) -> None:
        """Remember a statement that was bound."""
        self._queries.put(bound.query.text, bound.query, bound.specs)
        if bound.template is not None:
            self._templates.put(bound.form, bound.template, bound.specs)

    def bind(self, snapshot: Snapshot, sql: str, *, tenant: str, values: Values | None = None) -> StandingQuery:
        """Return the query, known or bound now. Raises what a registration of it raises."""
        query = self.known(snapshot, sql, tenant=tenant, values=values)
        if query is None:
            form = "" if values is not None else self.form(sql)
            bound = bind_question(snapshot, sql, tenant=tenant, values=values, form=form)
            self.learn(bound)
            query = bound.query
        return query


T = TypeVar("T")


class _Remembered(Generic[T]):
    """Objects made of texts for definitions of their streams; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, tuple[T | None, tuple[StreamSpec, ...]]] = OrderedDict()
        self._characters = 0

    def __contains__(self, text: str) -> bool:
        return text in self._made

    def get(self, text: str, schemas: Schemas) -> T | None:
        """Return the object of a text, if its streams are still defined in the same way."""
        made, specs = self._made.get(text, (None, ()))
        if not specs or any(schemas(spec.name) is not spec for spec in specs):
            return None
        self._made.move_to_end(text)
        return made

    def put(self, text: str, made: T, specs: tuple[StreamSpec, ...]) -> None:
        """Remember the object of a text, as long as these are the definitions of its streams; none: until another."""
        if len(text) > _LONGEST:
            return
        if text not in self._made:
            self._characters += len(text)
        self._made[text] = (made, specs)
        self._made.move_to_end(text)
        while self._characters > _CHARACTERS:
            gone, _ = self._made.popitem(last=False)
            self._characters -= len(gone)


def _schemas(snapshot: Snapshot, tenant: str) -> Schemas:
    def find(name: str) -> StreamSpec | None:
        view = snapshot.streams.get((tenant, name.lower()))
        return None if view is None else view.spec

    return find


def _with_values(template: Prepared, values: Values) -> StandingQuery:
    (query,), rows = gathered(bind_values(template, values, way="rows"))
    template.check_row(rows[0])
    return query


def ask(
    snapshot: Snapshot,
    query: StandingQuery,
    *,
    tenant: str,
    now: int,
    as_of: int | None = None,
    window: WindowChoice | None = None,
    accept_truncation: bool = False,
    budget: ReadBudget | None = None,
) -> Answer:
    """The answer of a bound query. The arguments, errors and the answer are those of `invoke`.

    Raises FailedPrecondition, reason STREAM_CHANGED, if a stream was dropped or defined anew since it was bound:
    bind it again. Values of WHERE that cannot be computed are counted in the part of the window that was looked at.
    """
    matched = [
        _matched(snapshot, selection.source.spec, (side,), tenant)
        for selection, side in zip(query.selections, query.sides or (query,), strict=True)
    ]
    view, clause = matched[0]
    sqc_id = NO_CLAUSE if query.sides else ALL
    record = QueryRecord(NO_QUERY, tenant, view.stream_id, sqc_id, now, snapshot.sequence, (query,))
    question = Question(now, as_of, window, accept_truncation, budget or ReadBudget())
    try:
        if query.sides:
            return join_answer(snapshot, record, matched, question)
        return answer_of(snapshot, record, clause, question)
    except ResourceExhausted as problem:
        if problem.reason != "ARCHIVE_BUDGET":
            raise
        said = problem.message.replace(COVER, f"`psoup register` and {COVER}")
        raise ResourceExhausted(said, reason=problem.reason, **problem.facts) from None


def _matched(snapshot: Snapshot, spec: StreamSpec, queries: Sequence[StandingQuery], tenant: str) -> Matched:
    """A stream that is still as `spec` says, and a clause that no chunk has met: that of the only query."""
    view = snapshot.streams.get((tenant, spec.name.lower()))
    if view is None or view.spec is not spec:
        raise FailedPrecondition(
            f"stream {spec.name!r} was changed while the statement was read; ask again", reason="STREAM_CHANGED"
        )
    return view, ClauseRecord(ALL, 0, view.stream_id, (), (), queries)

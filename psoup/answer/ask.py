"""Ad-hoc queries: a SELECT answered once over a snapshot, without a registration.

    text ─ the schemas of the snapshot ─> StandingQuery ─ ask ─> Answer
                                              └─ as a clause that no chunk has met: all is evaluated

`ask` changes nothing: it makes no event, no ID and no stored results. It refuses the statements that a registration
refuses. The answer equals the answer of the query registered and invoked at this snapshot.
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
from psoup.model import DataType, StreamSpec
from psoup.plan.nodes import Source
from psoup.plan.standing_query import StandingQuery
from psoup.published.records import NO_CLAUSE, ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.results.chunk_results import ALL
from psoup.sql import PreparedStatement, prepare, standing_query
from psoup.sql.parser.guards import check_budget
from psoup.sql.templates.forms import form_of, in_order
from psoup.sql.templates.ladder import ParameterValues, bind_values, gathered
from psoup.work.read_budget import ReadBudget

NO_QUERY = -1
"""The query ID in the record of an ad-hoc query."""

_LONGEST = 4_096
"""The most characters of a text that the cache remembers. The template of a form of 4,000 characters took 1.1 MB."""
_CHARACTERS = 65_536
"""An upper bound of the total characters of all texts in a cache."""

Schemas = Callable[[str], StreamSpec | None]


@dataclass(frozen=True, slots=True)
class BoundQuestion:
    """A bound statement, which the cache `Questions` can remember.

    `form`: the text from which a template was asked for, or "". `template`: the template of that text; None if there is
    none.
    """

    query: StandingQuery
    form: str = ""
    template: PreparedStatement | None = None

    @property
    def specs(self) -> tuple[StreamSpec, ...]:
        """The definitions of the streams that the statement was bound to."""
        return tuple([source.spec for source in self.query.sources])


def bind_question(
    snapshot: Snapshot, sql: str, *, tenant: str, values: ParameterValues | None = None, form: str = ""
) -> BoundQuestion:
    """Bind a SELECT to the schemas of the snapshot. Any thread may call this.

    `values`: one row of values for the parameters of the statement. `form`: a text of which to make a template as well
    (`Questions.form` returns it). Raises what a registration of the statement raises.
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


def bind_unknown(snapshot: Snapshot, sql: str, *, tenant: str) -> tuple[StandingQuery, tuple[DataType | None, ...]]:
    """Bind a SELECT with NULL for each of its parameters. Also returns the types that they should have.

    A type is None if the parameter may have any type. Raises what a registration of the statement raises.
    """
    check_budget(sql)
    template = prepare(sql, _schemas(snapshot, tenant), snapshot.names(tenant))
    values = dict.fromkeys(template.names) if any(template.names) else (None,) * len(template.names)
    query = template.bind(values)
    for source in query.sources:
        check_window(source.window, source.spec)
    return query, template.types


class Questions:
    """A cache of bound statements. It binds a repeated text, or a new text of a known form, in some microseconds.

    Only one thread at a time may use it. Tenants share it: an entry is valid only for the stream definitions that it
    was bound to.
    """

    def __init__(self) -> None:
        self._queries = _Remembered[StandingQuery]()
        self._templates = _Remembered[PreparedStatement | None]()
        """Templates by form, or by a text with parameters. None: the cache saw the form once, or the form has no
        template.
        """

    def known(
        self, snapshot: Snapshot, sql: str, *, tenant: str, values: ParameterValues | None = None
    ) -> StandingQuery | None:
        """Return the query if its text or form is in the cache. Returns None if it is not. Raises what binding
        raises.
        """
        schemas = _schemas(snapshot, tenant)
        if values is not None:
            template = self._templates.get(sql, schemas)
            return None if template is None else _with_values(template, values)
        query = self._queries.get(sql, schemas)
        return self._of_form(sql, schemas) if query is None else query

    def _of_form(self, sql: str, schemas: Schemas) -> StandingQuery | None:
        """Bind the query by the template of its form. Returns None if that fails; the caller then parses the text."""
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
        """Return the form of a statement if the cache has seen this form before. A template of it is then worth its
        cost.

        At the first sight of a form, the cache notes it and returns "".
        """
        parts = form_of(in_order(sql))
        if parts is None:
            return ""
        if parts[0] not in self._templates:
            self._templates.put(parts[0], None, ())
            return ""
        return parts[0]

    def learn(self, bound: BoundQuestion) -> None:
        """Add a bound statement to the cache."""
        self._queries.put(bound.query.text, bound.query, bound.specs)
        if bound.template is not None:
            self._templates.put(bound.form, bound.template, bound.specs)

    def bind(
        self, snapshot: Snapshot, sql: str, *, tenant: str, values: ParameterValues | None = None
    ) -> StandingQuery:
        """Return the bound query, from the cache if possible. Raises what a registration of the statement raises."""
        query = self.known(snapshot, sql, tenant=tenant, values=values)
        if query is None:
            form = "" if values is not None else self.form(sql)
            bound = bind_question(snapshot, sql, tenant=tenant, values=values, form=form)
            self.learn(bound)
            query = bound.query
        return query


T = TypeVar("T")


class _Remembered(Generic[T]):
    """An LRU cache from texts to objects. An object is valid while the streams of its text keep their definitions."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, tuple[T | None, tuple[StreamSpec, ...]]] = OrderedDict()
        self._characters = 0

    def __contains__(self, text: str) -> bool:
        return text in self._made

    def get(self, text: str, schemas: Schemas) -> T | None:
        """Return the object of a text. Returns None if there is none, or if a stream of the text was redefined."""
        made, specs = self._made.get(text, (None, ()))
        if not specs or any(schemas(spec.name) is not spec for spec in specs):
            return None
        self._made.move_to_end(text)
        return made

    def put(self, text: str, made: T, specs: tuple[StreamSpec, ...]) -> None:
        """Remember the object of a text, which is valid while `specs` are the definitions of its streams.

        Without `specs`, the cache notes only that it has seen the text.
        """
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


def _with_values(template: PreparedStatement, values: ParameterValues) -> StandingQuery:
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
    """The answer of a bound query. Arguments, errors and answer are the same as for `invoke`.

    Raises FailedPrecondition, reason STREAM_CHANGED, if a stream was dropped or redefined after the query was bound.
    The caller then binds it again. A WHERE value that cannot be computed counts as an error only if the reader
    evaluated its tuple.
    """
    matched = [
        _matched(snapshot, selection.source, (side,), tenant)
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


def _matched(snapshot: Snapshot, source: Source, queries: Sequence[StandingQuery], tenant: str) -> Matched:
    """The stream, and a clause record that no chunk covers, so that the reader evaluates the tuples.

    Raises FailedPrecondition if the definition of the stream is not `spec` any more.
    """
    spec = source.spec
    view = snapshot.streams.get((tenant, spec.name.lower()))
    if view is None or view.spec is not spec:
        raise FailedPrecondition(
            f"{spec.noun} {spec.name!r} was changed while the statement was read; ask again", reason="STREAM_CHANGED"
        )
    return view.for_source(source), ClauseRecord(ALL, 0, view.stream_id, (), (), queries)

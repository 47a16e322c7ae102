"""A SELECT answered once, over a snapshot, without being registered.

    text ─ Questions.bind: the schemas of the snapshot ─> StandingQuery ─ ask ─> Answer
                                                              └─ as a clause that no chunk has met: all is evaluated

Nothing is changed: no event, no ID, no results kept. What a registration refuses is refused here by the same rules,
and the answer is what the query would have, registered and invoked at this snapshot.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from psoup.answer.archive_work import COVER
from psoup.answer.invoke import Answer, answer_of
from psoup.data.windows import check_window
from psoup.errors import FailedPrecondition, ResourceExhausted
from psoup.model import StreamSpec, WindowClause
from psoup.plan.standing import StandingQuery
from psoup.published.records import ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.reading import ReadBudget
from psoup.results.chunk_results import ALL
from psoup.sql import Template, prepare
from psoup.sql.guards import check_budget
from psoup.sql.templates.forms import Forms
from psoup.sql.templates.ladder import Values, bind_text, bind_values, gathered

NO_QUERY = -1
"""The ID that stands in place of a query's."""

_KEPT = 64
"""Statements that are remembered as they are bound."""
_LONGEST = 4_096
"""Characters of a statement that is remembered."""

T = TypeVar("T", StandingQuery, Template)


class Questions:
    """Statements that a thread remembers once asked: a repeated text is bound in some microseconds.

    One thread at a time; any tenants, as an entry holds for one definition of a stream only.
    """

    def __init__(self) -> None:
        self._forms = Forms()
        self._queries: OrderedDict[str, tuple[StandingQuery, StreamSpec]] = OrderedDict()
        self._templates: OrderedDict[str, tuple[Template, StreamSpec]] = OrderedDict()

    def bind(self, snapshot: Snapshot, sql: str, *, tenant: str, values: Values | None = None) -> StandingQuery:
        """The query of a SELECT; `values`: one row, for its parameters. Raises what a registration of it raises."""

        def lookup(name: str) -> StreamSpec | None:
            view = snapshot.streams.get((tenant, name.lower()))
            return None if view is None else view.spec

        def bound() -> StandingQuery:
            return bind_text(self._forms, sql, lookup, names)

        def prepared() -> Template:
            return prepare(sql, lookup, names)

        names = snapshot.names(tenant)
        if values is None:
            return _remembered(self._queries, sql, lookup, bound)
        template = _remembered(self._templates, sql, lookup, prepared)
        (query,), _ = gathered(bind_values(template, values, way="rows"))
        return query


def _remembered(
    memory: OrderedDict[str, tuple[T, StreamSpec]],
    sql: str,
    lookup: Callable[[str], StreamSpec | None],
    make: Callable[[], T],
) -> T:
    """The outcome for a text as made before, if its stream is still defined in the same way; else made now."""
    entry = memory.get(sql)
    if entry is not None and lookup(entry[0].stream) is entry[1]:
        memory.move_to_end(sql)
        return entry[0]
    check_budget(sql)
    made = make()
    spec = lookup(made.stream)
    assert spec is not None, "it was bound to a stream"
    check_window(made.window, spec)
    if len(sql) <= _LONGEST:
        memory[sql] = (made, spec)
        while len(memory) > _KEPT:
            memory.popitem(last=False)
    return made


def ask(
    snapshot: Snapshot,
    query: StandingQuery,
    *,
    tenant: str,
    now: int,
    as_of: int | None = None,
    window: WindowClause | None = None,
    accept_truncation: bool = False,
    budget: ReadBudget | None = None,
) -> Answer:
    """The answer of a bound query. The arguments, errors and the answer are those of `invoke`.

    Raises FailedPrecondition, reason STREAM_CHANGED, if its stream was dropped or defined anew since it was bound:
    bind it again. Values of WHERE that cannot be computed are counted in the part of the window that was looked at.
    """
    (selection,) = query.selections
    view = snapshot.streams.get((tenant, query.stream.lower()))
    if view is None or view.spec is not selection.source.spec:
        raise FailedPrecondition(
            f"stream {query.stream!r} was changed while the statement was read; ask again", reason="STREAM_CHANGED"
        )
    queries: Sequence[StandingQuery] = (query,)
    record = QueryRecord(NO_QUERY, tenant, view.stream_id, ALL, now, snapshot.sequence, queries)
    clause = ClauseRecord(ALL, 0, view.stream_id, (), (), queries)
    try:
        return answer_of(
            snapshot,
            record,
            clause,
            now=now,
            as_of=as_of,
            window=window,
            accept_truncation=accept_truncation,
            budget=budget,
        )
    except ResourceExhausted as problem:
        if problem.reason != "ARCHIVE_BUDGET":
            raise
        said = problem.message.replace(COVER, f"`psoup register` and {COVER}")
        raise ResourceExhausted(said, reason=problem.reason, **problem.facts) from None

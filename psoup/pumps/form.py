"""The form of a derivation: its query, bound to the present streams, as plans that show tuple IDs and times.

    Project k, w          Project _id1, _id2, _time1, _time2, k, w
      Join …        ──>     Join …

The times of a row decide its instant, and whether each tuple was in its window then. The IDs order rows of one instant.
A query with an operator that keeps state has a plan for each input of the operator (`psoup.pumps.operators`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from psoup.derivation import Derivation, StreamOperator
from psoup.invariants import corrupt
from psoup.model import StreamSpec
from psoup.plan.derived_shape import shape_of
from psoup.plan.nodes import Project, Source
from psoup.plan.standing_query import StandingQuery
from psoup.plan.state_bounds import StateEdge, rows_bound, state_edge
from psoup.published.records import NO_CLAUSE, ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.operators import Binding, binding_of
from psoup.pumps.part import id_output, time_outputs
from psoup.results.chunk_results import ALL
from psoup.sql import bound_derivation, changes_are_known, stays

FOLLOWED = 2
"""With more ticks in a window, and without tables, a pump follows changes. Otherwise it evaluates each answer."""
_NO_QUERY = -1


class Form(NamedTuple):
    """A bound derivation. `specs`: the definitions of its sources when it was bound, in the order of FROM.

    `plan`: shows the tuple IDs of all sources, their times, then the columns of the SELECT. None for a query with an
    operator that keeps state, which has a `binding`, and with EVERY (`psoup.pumps.tick_answers`). `widths`, `lates`: as
    in `psoup.plan.derived_stays`.
    """

    derived: Derivation
    query: StandingQuery
    plan: Project | None
    binding: Binding | None
    widths: tuple[int | None, ...]
    lates: tuple[int, ...]
    specs: tuple[StreamSpec, ...]

    def is_timeless(self, place: int) -> bool:
        """Whether the times of a source say nothing about instants: a table in system time beside event-time streams.

        A version of such a table meets the rows at whose times it holds, no matter when it came.
        """
        return self.derived.event_time and not self.specs[place].event_time

    def shifts(self, place: int) -> tuple[int, ...]:
        """The microseconds from a tuple's time until it enters. With an operator with state, also until it leaves."""
        width, late = self.widths[place], self.lates[place]
        return (late,) if self.binding is None or width is None else (late, width + 1)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources, in the order of FROM."""
        return self.query.sources

    @property
    def state(self) -> StateEdge:
        """The edge of the plan whose result takes the state of a pump. With EVERY it may be the answer."""
        if self.derived.every is None or self.binding is not None:
            return state_edge(self.query.plan, self.widths, leaves=self.binding is not None)
        return StateEdge(self.query.plan, "the answer", rows_bound(self.query.plan, self.widths))

    def views(self, snapshot: Snapshot) -> list[StreamView]:
        """The views of the sources. A table AS OF a stream has all its versions."""
        ids = [source.stream_id for source in self.derived.sources]
        return [snapshot.by_id[i].for_source(source) for i, source in zip(ids, self.sources, strict=True)]

    def record(self, snapshot: Snapshot, tenant: str, now: int) -> QueryRecord:
        """The record of the query, which is not registered."""
        first, several = self.derived.sources[0].stream_id, len(self.sources) > 1
        sqc_id = NO_CLAUSE if several else ALL
        return QueryRecord(_NO_QUERY, tenant, first, sqc_id, now, snapshot.sequence, (self.query,))

    def clauses(self) -> list[ClauseRecord]:
        """For each source, a clause that no chunk covers, so that the tuples are evaluated."""
        sides = self.query.sides or (self.query,)
        ids = [source.stream_id for source in self.derived.sources]
        return [ClauseRecord(ALL, 0, i, (), (), (side,)) for i, side in zip(ids, sides, strict=True)]


def form_of(derived: Derivation, streams: Mapping[int, StreamView]) -> Form:
    """Bind a derivation. `streams`: all streams, by ID; the sources are among them. Raises SqlError."""
    specs = {source.name.lower(): streams[source.stream_id].spec for source in derived.sources}
    query = bound_derivation(derived, lambda name: specs.get(name.lower()))
    now = tuple([streams[source.stream_id].spec for source in derived.sources])
    if derived.every is not None:
        return _with_ticks(derived, query, now)
    lates, widths, settles = stays(query, derived.operator)
    facts = widths, lates, now
    shape = shape_of(query.plan)
    if shape is None:
        raise corrupt("derivation", "its plan has operators that no pump has", select=derived.select)
    if shape.operator is not None or derived.operator is StreamOperator.DSTREAM:
        return Form(derived, query, None, binding_of(shape, settles), *facts)
    if not isinstance(query.plan, Project):
        raise corrupt("derivation", "its plan shows no columns", select=derived.select)
    places = range(len(query.sources))
    plan = Project(query.plan.input, (*map(id_output, places), *time_outputs(places), *query.plan.outputs))
    return Form(derived, query, plan, None, *facts)


def _with_ticks(derived: Derivation, query: StandingQuery, specs: tuple[StreamSpec, ...]) -> Form:
    """The form of a derivation with EVERY. It has a binding if its changes are followed from tick to tick.

    Otherwise the whole answer is evaluated at each tick.
    """
    lates, widths, _ = stays(query, StreamOperator.DSTREAM)  # all rows that enter and leave
    shape, binding = shape_of(query.plan), None
    follows = derived.operator is not StreamOperator.RSTREAM and changes_are_known(query)
    if shape is not None and follows and _is_wide(widths, derived.every or 0):
        binding = binding_of(shape)
    return Form(derived, query, None, binding, widths, lates, specs)


def _is_wide(widths: Sequence[int | None], every: int) -> bool:
    """Whether a window has so many ticks that following its changes costs less than reading it at each one."""
    return any(width is None or width > FOLLOWED * every for width in widths)

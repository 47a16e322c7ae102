"""An invocation, read from its request: the query, the time and the window."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.answer.invoke import Answer, invoke
from psoup.errors import NotFound, ResourceExhausted
from psoup.events.tags import NO_TAG
from psoup.execution.select.archive_work import COVER
from psoup.execution.select.window import Ranges, WindowChoice, all_in_memory
from psoup.expressions import supplied_functions
from psoup.plan.sides import FIRST_SIDE
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import queries_pb2
from psoup_service.host.ids import Ids
from psoup_service.wire import answers


@dataclass(frozen=True, slots=True)
class InvokeArguments:
    """The arguments of an invocation, read from its request."""

    ids: Ids
    query_id: int
    name: str
    tenant: str
    now: int
    as_of: int | None
    window: WindowChoice | None
    accept_truncation: bool
    latest: bool = False
    """Whether tables have their newest versions in the ranges of the first page, whose NOW was `as_of`."""

    @property
    def ordinary(self) -> bool:
        """Whether the invocation asks for the query's own window at the present NOW."""
        return self.as_of is None and self.window is None

    def in_memory(self, snapshot: Snapshot) -> bool:
        """Whether the query's own window can be answered without waiting for a disk or a supplied function."""
        return is_in_memory(snapshot, self.query_id, self.now)

    def answer(self, snapshot: Snapshot, budget: ReadBudget, ranges: Ranges | None = None) -> Answer:
        """Evaluate the query up to the matches. Errors name the query as the client did.

        `ranges`: the tuples of the first page's answer, by source.
        """
        try:
            return invoke(
                snapshot,
                self.query_id,
                tenant=self.tenant,
                now=self.now,
                as_of=self.as_of,
                window=self.window,
                accept_truncation=self.accept_truncation,
                budget=budget,
                ranges=ranges,
                latest=self.latest,
            )
        except NotFound as problem:
            raise self.ids.named(problem, self.name) from None
        except ResourceExhausted as problem:
            if problem.reason != "ARCHIVE_BUDGET":
                raise
            named = problem.message.replace(COVER, COVER.replace("ID", self.name))
            raise ResourceExhausted(named, reason=problem.reason, **problem.facts) from None


def is_in_memory(snapshot: Snapshot, query_id: int, now: int) -> bool:
    """Whether a query's own window can be answered without waiting for a disk or a supplied function. A parked query
    is on the disk."""
    record = snapshot.queries.get(query_id) if 0 <= query_id < FIRST_SIDE else None
    if record is None or record.keeping.parked:
        return record is None
    waits = supplied_functions.are_there() and bool(supplied_functions.used_in([record.query.text]))
    return not waits and all_in_memory(snapshot, record, now)


def whole(snapshot: Snapshot, answer: Answer, max_bytes: int) -> queries_pb2.InvokeResponse:
    """The answer of a standing query in one message, with its key. If it is too large, the client asks for its pieces:
    then only that call counts as an invocation of an AUTO query."""
    response = answers.whole(answer, max_bytes, queries_pb2.InvokeResponse)
    if response.too_large:
        snapshot.automatic.take_back(answer.record.query_id)
    if answer.record.tags is not NO_TAG:
        response.key = answer.record.key
    return response

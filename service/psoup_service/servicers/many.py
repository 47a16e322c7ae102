"""The reply of InvokeMany: answers one after the other. Joins of one form are computed together.

    names   j j j j j j … s j j …        join, selection
            │ └────┬────┘ │ └ alone, again
            │      └ as many as the reply has room for, if they are LEAST or more: `psoup.answer.invoke_many`
            └ alone: says how large they are

Each answer equals the reply of Invoke, to the byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from psoup.answer.completeness import Completeness
from psoup.answer.invoke_many import LEAST, ManyJoins
from psoup.answer.table_rows import TableQuestion
from psoup.errors import Internal, InvalidInput, NotFound, PSoupError
from psoup.events.tags import NO_TAG
from psoup.plan.standing_query import StandingQuery
from psoup.plan.way import TryNext
from psoup.published.records import NO_CLAUSE
from psoup_proto.v1 import queries_pb2, types_pb2
from psoup_service.host.ids import Ids
from psoup_service.servicers.invoke_request import InvokeArguments, whole
from psoup_service.wire import answers, convert
from psoup_service.wire.completeness import completeness_message
from psoup_service.wire.written import PART_BYTES, OpenMessage, Written

MANY_S = 0.25
"""Seconds after which a reply about many queries ends with the outcomes so far."""

_MOST = 512
"""The most joins that one step computes: some ten milliseconds."""
_NO_QUERY = -1


class Many:
    """The answers of the queries in `names`, which are IDs or keys. `close` gives back its resources.

    `refused`: called for each query that fails.
    """

    def __init__(
        self,
        asking: TableQuestion,
        names: Sequence[str],
        ids: Ids,
        refused: Callable[[PSoupError], None],
        *,
        by_key: bool,
    ) -> None:
        self._refused = refused
        self._asking = asking
        self._names = names
        self._ids = ids
        self._by_key = by_key
        self._joins: ManyJoins | None = None
        self._start = self._stop = 0
        """Places in `names`. `_joins` has the answers from `_start` to `_stop`; no other step begins before `_stop`."""
        self._block: list[int] = []
        self._most = _MOST
        self._told: tuple[Completeness, StandingQuery, types_pb2.Completeness] | None = None
        """The latest completeness, its query, and its message."""
        self.outcomes = self.rows = 0
        """The number of outcomes in the reply, and the number of their rows."""

    def reply(self, max_bytes: int) -> Written:
        """The outcomes of the first names, at least one, up to `max_bytes` and about MANY_S seconds."""
        response, room, end = OpenMessage(queries_pb2.InvokeManyResponse), max_bytes, time.perf_counter() + MANY_S
        uncut = room
        for place in range(len(self._names)):
            try:
                answer = self._answer(place, room)
            except Internal:
                raise
            except PSoupError as error:
                self._refused(error)
                failure = convert.failure(error)
                response.open.outcomes.add(failure=failure)
                room -= failure.ByteSize()
            else:
                if answer.too_large and room < max_bytes:
                    break
                response.open.outcomes.add(answer=answer)
                self.rows += answer.rows
                room -= len(answer.arrow_ipc)
            self.outcomes += 1
            if room <= 0 or time.perf_counter() > end:
                break
            if uncut - room > PART_BYTES:
                response.cut()
                uncut = room
        return response.written()

    def close(self) -> None:
        """Give back the resources of the joins. Idempotent."""
        if self._joins is not None:
            self._joins.close()
            self._joins = None

    def _answer(self, place: int, room: int) -> queries_pb2.InvokeResponse:
        if self._joins is not None and place < self._stop:
            with suppress(TryNext):
                return self._together(self._joins, place, room)
        query_id, name = self._query(self._names[place])
        asking, put = self._asking, self._asking.question
        wanted = InvokeArguments(
            self._ids, query_id, name, asking.tenant, put.now, put.as_of, put.window, put.accept_truncation
        )
        made = wanted.answer(asking.snapshot, asking.budget)
        response = whole(asking.snapshot, made, room)
        if self._by_key:
            response.query_id = name
        if made.record.sqc_id == NO_CLAUSE and place >= self._stop and not response.too_large:
            self._look_ahead(place + 1, room, len(response.arrow_ipc))
        return response

    def _query(self, name: str) -> tuple[int, str]:
        """The ID and the name of a query. Raises InvalidInput, NotFound."""
        if not self._by_key:
            return self._ids.read_query(name), name
        query_id = self._asking.snapshot.query_with(name, self._asking.tenant).query_id
        return query_id, self._ids.query(query_id)

    def _look_ahead(self, start: int, room: int, size: int) -> None:
        """Begin to compute the next queries in one step: as many as fit into `room` if each answer has `size` bytes."""
        if self._joins is not None:
            if self._joins.failed:
                self._most //= 2
            self.close()
        count = min(self._most, len(self._names) - start, room // max(size, 1))
        if count < LEAST:
            self._stop = start + LEAST
            return
        self._start = start
        self._stop = start + count
        self._block = [self._known(name) for name in self._names[start : self._stop]]
        self._joins = ManyJoins(self._asking, np.array(self._block, np.int64))

    def _known(self, name: str) -> int:
        try:
            return self._query(name)[0]
        except (InvalidInput, NotFound):
            return _NO_QUERY

    def _together(self, joins: ManyJoins, place: int, room: int) -> queries_pb2.InvokeResponse:
        at = place - self._start
        answer = joins.answer(at, room)
        told, query = answer.completeness, answer.query
        if self._told is None or self._told[0] is not told or self._told[1] is not query:
            self._told = told, query, completeness_message(told, query)
        response = answers.whole_joined(answer, self._told[2], room)
        record = self._asking.snapshot.query(self._block[at], self._asking.tenant)
        if record.tags is not NO_TAG:
            response.key = record.key
        if self._by_key:
            response.query_id = self._ids.query(self._block[at])
        return response

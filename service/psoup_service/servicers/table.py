"""QueryService.InvokeTable: the answers of many queries as one table, in pieces.

    ranges, IDs, numbers ─┐
    labels, key prefix ───┴─> IDs by place ─> Table ─> schema | batch | batch | … | groups, failures

Reader threads read the IDs, look up queries and make rows, at the client's pace. The table holds its snapshot
while the call lasts, at most for the maximum age of a stream. Its chunks are charged (`psoup_service.host.reads.pins`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from psoup.admission.queries.tags import check_prefix, tag_in
from psoup.answer.table import QUICK, Table, invoke_table
from psoup.answer.table_rows import Group
from psoup.budgets import REPLY_BYTES
from psoup.errors import InvalidInput, NotFound, ResourceExhausted
from psoup.events.tags import Labels
from psoup.execution.many.query_sets import Failed
from psoup.execution.select.window import WindowChoice
from psoup.phrases import counted
from psoup.published.selection import with_labels, with_prefix
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import queries_pb2, types_pb2
from psoup_service.host.ids import Ids
from psoup_service.servicers.backend import NAMED, Backend
from psoup_service.servicers.invocation import check_pinned, instant, other_window
from psoup_service.wire import convert
from psoup_service.wire.answers import END_MARK
from psoup_service.wire.calls import Caller, ender
from psoup_service.wire.completeness import completeness_message

MOST_QUERIES = 1 << 20
"""The most queries of a call."""
_AT_ONCE = 1 << 14
"""The number of query numbers that one step reads."""
_RANGES = 1 << 14
"""The most ranges of a call."""
_PIECE = 4
"""The size of a message, in messages of a streamed answer. Many small batches take longer to make and to read."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The queries that a request asks for: by ranges, IDs, numbers, labels, or a prefix of keys."""

    request: queries_pb2.InvokeTableRequest
    labels: Labels
    tenant: str
    ids: Ids

    @property
    def named(self) -> int:
        """The number of queries that the request names one by one or by ranges."""
        request = self.request
        return len(request.query_ids) + len(request.numbers) + sum(max(part.count, 0) for part in request.ranges)

    @property
    def few_names(self) -> list[str] | None:
        """The IDs of the named queries. None if they are more than `NAMED`, or selected by labels or keys."""
        request = self.request
        if not 0 < self.named <= NAMED:
            return None
        ranges = [f"{part.query_id_prefix}{part.first + at}" for part in request.ranges for at in range(part.count)]
        return [*request.query_ids, *(f"{request.query_id_prefix}{number}" for number in request.numbers), *ranges]

    def found(self, snapshot: Snapshot) -> tuple[Array, list[Failed]]:
        """Return the query numbers by place, int64[n], and the failures.

        The number is -1 for IDs of another incarnation. O(n), and a step in Python for each ID that is a text.
        """
        request, failed = self.request, list[Failed]()
        if self.labels:
            return self._few(with_labels(snapshot, self.tenant, self.labels)), failed
        if request.key_prefix:
            return self._few(with_prefix(snapshot, self.tenant, request.key_prefix)), failed
        if request.ranges:
            return self._of_ranges(request.ranges, failed), failed
        if request.numbers:
            self._refuse(len(request.numbers))
            # A list at a time: all of them would keep the interpreter for a tenth of a second.
            starts = range(0, len(request.numbers), _AT_ONCE)
            numbers = np.concatenate([np.array(request.numbers[at : at + _AT_ONCE], np.int64) for at in starts])
            return self._here(request.query_id_prefix, numbers, 0, failed), failed
        self._refuse(len(request.query_ids))
        try:
            return self.ids.read_queries(request.query_ids), failed
        except NotFound:
            return self._one_by_one(request.query_ids, failed), failed

    def _of_ranges(self, ranges: Sequence[queries_pb2.QueryRange], failed: list[Failed]) -> Array:
        if any(part.count < 1 or part.first < 0 for part in ranges):
            raise InvalidInput("a range has no query; first is from 0, count from 1", field="ranges")
        self._refuse(sum(part.count for part in ranges))
        if any(part.first + part.count >= 2**63 for part in ranges):
            raise InvalidInput("a range goes beyond 2^63; no query has such a number", field="ranges")
        parts, place = list[Array](), 0
        for part in ranges:
            numbers = np.arange(part.first, part.first + part.count)
            parts.append(self._here(part.query_id_prefix, numbers, place, failed))
            place += len(numbers)
        return np.concatenate(parts)

    def _here(self, prefix: str, numbers: Array, place: int, failed: list[Failed]) -> Array:
        """The numbers of queries whose IDs begin with `prefix`; all -1 if the prefix is of another incarnation.

        `place`: the place of the first query.
        """
        try:
            self.ids.read_query(f"{prefix}0")
        except NotFound as problem:
            failed.append(Failed(problem.with_traceback(None), np.arange(place, place + len(numbers))))
            return np.full(len(numbers), -1)
        return np.maximum(numbers, -1)

    def _one_by_one(self, texts: Sequence[str], failed: list[Failed]) -> Array:
        """The query numbers of IDs. IDs of other incarnations have the number -1."""
        numbers = np.full(len(texts), -1)
        elsewhere: dict[str, tuple[NotFound, list[int]]] = {}
        for place, text in enumerate(texts):
            try:
                numbers[place] = self.ids.read_query(text)
            except NotFound as problem:
                entry = elsewhere.setdefault(text.split("-")[1], (problem, []))
                entry[1].append(place)
        failed += [Failed(problem.with_traceback(None), np.array(places)) for problem, places in elsewhere.values()]
        return numbers

    def _few(self, numbers: Array) -> Array:
        self._refuse(len(numbers))
        return numbers

    def _refuse(self, count: int) -> None:
        if count > MOST_QUERIES:
            raise InvalidInput(
                f"the call asks for {counted(count, 'query')}; the limit is {MOST_QUERIES:,}; ask in several calls",
                reason="TOO_MANY_QUERIES",
                used=count,
                limit=MOST_QUERIES,
            )


class TableCalls:
    """Base class of `QueryServicer`, with the call InvokeTable."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def InvokeTable(
        self, request: queries_pb2.InvokeTableRequest, caller: Caller
    ) -> AsyncIterator[queries_pb2.InvokeTableResponse]:
        """The answers of many queries as one table, in pieces."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        _check(request)
        wanted = _Wanted(request, tag_in("", request.labels).labels, tenant, backend.ids)
        window, as_of = other_window(request), await instant(backend, request)
        if (names := wanted.few_names) is None:
            await backend.derived_of_tenant(tenant, request.min_sequence)
        else:
            await backend.derived_of_queries(tenant, names, request.min_sequence)
        check_pinned(backend, tenant)
        now, budget, pin = backend.now(), backend.host.budget(tenant), None

        def make(snapshot: Snapshot, granted: ReadBudget) -> _Pieces:
            return _Pieces(wanted, snapshot, now, as_of, window, granted, backend)

        try:
            # A read that is announced as long waits in line. A read that turns out to be long holds one of few
            # threads.
            pieces = await backend.host.evaluate(make, budget=budget, tenant=tenant, long=wanted.named > QUICK)
            pin = backend.host.pins.hold_all(pieces.table.chunks, ender(), tenant)
            turn = partial(
                backend.host.evaluate,
                lambda _, __: pieces.next(),
                budget=budget,
                tenant=tenant,
                long=pieces.table.count > QUICK,
            )
            while message := await turn():
                backend.metrics.answered(message.rows)
                yield message
        finally:
            budget.close()
            if pin is not None:
                backend.host.pins.release(pin)


class _Pieces:
    """The messages of a table. All of it runs on reader threads, one call at a time."""

    def __init__(
        self,
        wanted: _Wanted,
        snapshot: Snapshot,
        now: int,
        as_of: int | None,
        window: WindowChoice | None,
        budget: ReadBudget,
        backend: Backend,
    ) -> None:
        numbers, failed = wanted.found(snapshot)
        accept = wanted.request.accept_truncation
        self.table: Table = invoke_table(
            snapshot,
            numbers,
            tenant=wanted.tenant,
            now=now,
            as_of=as_of,
            window=window,
            accept_truncation=accept,
            budget=budget,
            named=backend.ids.query,
        )
        # The generator must not refer to this object: such a cycle would keep a table that a client leaves.
        self._messages = _messages(self.table, wanted, numbers, failed, backend)

    def next(self) -> queries_pb2.InvokeTableResponse | None:
        """The next message, or None after the last. Raises what the table raises."""
        return next(self._messages, None)


def _messages(
    table: Table, wanted: _Wanted, numbers: Array, failed: list[Failed], backend: Backend
) -> Iterator[queries_pb2.InvokeTableResponse]:
    limits = backend.limits
    selected = wanted.labels or wanted.request.key_prefix
    yield queries_pb2.InvokeTableResponse(
        arrow_ipc=table.schema.serialize().to_pybytes(),
        queries=table.count,
        numbers=_places([numbers]) if selected else None,
        query_id_prefix=backend.ids.query_prefix if selected else "",
    )
    for batch in table.batches(max_bytes=2 * _PIECE * limits.chunk_bytes):
        message = queries_pb2.InvokeTableResponse(arrow_ipc=batch.serialize().to_pybytes(), rows=batch.num_rows)
        if message.ByteSize() > limits.reply_bytes:
            raise _too_large(message.ByteSize(), limits.reply_bytes, batch)
        yield message
        del message, batch
    yield queries_pb2.InvokeTableResponse(
        arrow_ipc=END_MARK,
        groups=[
            queries_pb2.TableGroup(completeness=_completeness(group), places=_places(group.places))
            for group in table.groups
        ],
        failures=[_failure(each, backend) for each in [*failed, *table.failures()]],
    )


def _failure(failed: Failed, backend: Backend) -> queries_pb2.TableFailure:
    backend.metrics.refused(failed.error)
    return queries_pb2.TableFailure(failure=convert.failure(failed.error), places=_places([failed.places]))


def _check(request: queries_pb2.InvokeTableRequest) -> None:
    """Raise InvalidInput unless a request names its queries in exactly one way."""
    ways = [request.ranges, request.query_ids, request.numbers, request.labels, request.key_prefix]
    if sum(map(bool, ways)) != 1:
        raise InvalidInput(
            "say which queries in one way: by ranges, IDs, numbers, labels, or a prefix of their keys",
            reason="SELECTION",
        )
    if len(request.ranges) > _RANGES:
        raise InvalidInput(f"ranges has {len(request.ranges):,} ranges; the limit is {_RANGES:,}", field="ranges")
    if request.key_prefix:
        check_prefix(request.key_prefix)


def _completeness(group: Group) -> types_pb2.Completeness:
    message = completeness_message(group.completeness, group.query)
    message.select_errors, message.unknown = group.select_errors, group.unknown
    return message


def _places(parts: Sequence[Array]) -> queries_pb2.Places:
    """Places as a message of ranges."""
    places = np.sort(np.concatenate(parts))
    starts = np.flatnonzero(np.diff(places, prepend=-2) != 1)
    counts = np.diff(starts, append=len(places))
    return queries_pb2.Places(first=places[starts].tolist(), count=counts.tolist())


def _too_large(size: int, limit: int, batch: pa.RecordBatch) -> ResourceExhausted:
    return ResourceExhausted(
        f"{counted(batch.num_rows, 'row')} of this table take {size:,} bytes, and a message may have {limit:,}; select"
        " fewer columns",
        reason="ROW_TOO_LARGE",
        bytes=size,
        **REPLY_BYTES.over(size, limit),
    )

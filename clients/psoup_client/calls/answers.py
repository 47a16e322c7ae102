"""Calls of the QueryService for the answers of many queries, and for the queries that a tuple matched.

    IDs ── blocks of 512 ──> InvokeMany ──> outcomes of the first k ──> answers, in order
                 ^                                  |
                 '────── the remaining IDs ─────────'   (the next call is made while the caller reads these)

For the answer of a single query see `Query.invoke`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, overload

from psoup_client.answer import Answer
from psoup_client.arguments import checking_arguments
from psoup_client.channel.connection import Connection
from psoup_client.columns.zones import instant
from psoup_client.errors import PSoupError, ServerFault, from_failure
from psoup_client.queries import AnyQueries
from psoup_client.query import ONE_MESSAGE_BYTES, AnyQuery, Query, answer_of, ids_of
from psoup_client.questions import question_of
from psoup_client.session import PAGE, Session, shown
from psoup_client.table import AnswerTable, table_of, table_request
from psoup_client.tags import check_key, check_labels
from psoup_client.times import Instant, to_proto
from psoup_proto.v1 import queries_pb2

_BLOCK = 512
"""The number of IDs in one call. A reply has room for fewer answers, unless they are tiny."""


@checking_arguments
class AnswerCalls(Session):
    """Calls about the answers of many queries, and about the queries that tuples match."""

    def invoke(
        self,
        query: AnyQuery | str | None = None,
        *,
        key: str | None = None,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Return the answer of the query with an ID, or a key, in one call: as `Query.invoke`, with its arguments."""
        check_key(key)
        if (query is None) == (key is None):
            raise ValueError("give the query's ID, or its key")
        named = query if isinstance(query, Query) else Query(self, _id_of(query), key=key or "")
        return named.invoke(
            as_of=as_of,
            window=window,
            windows=windows,
            accept_truncation=accept_truncation,
            wait_for=wait_for,
            timeout=timeout,
        )

    @overload
    def invoke_many(
        self,
        queries: Iterable[AnyQuery | str] | None = None,
        *,
        keys: Iterable[str] | None = None,
        labels: Mapping[str, str] | None = None,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        return_errors: Literal[False] = False,
        timeout: float | None = None,
    ) -> Iterator[Answer]: ...
    @overload
    def invoke_many(
        self,
        queries: Iterable[AnyQuery | str] | None = None,
        *,
        keys: Iterable[str] | None = None,
        labels: Mapping[str, str] | None = None,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        return_errors: bool,
        timeout: float | None = None,
    ) -> Iterator[Answer | PSoupError]: ...

    def invoke_many(
        self,
        queries: Iterable[AnyQuery | str] | None = None,
        *,
        keys: Iterable[str] | None = None,
        labels: Mapping[str, str] | None = None,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        return_errors: bool = False,
        timeout: float | None = None,
    ) -> Iterator[Answer | PSoupError]:
        """Return the answers of many queries (or IDs) in their order. It is far cheaper than a call for each.

        Instead of queries, give `keys`, or `labels` for all queries with these labels, in the order of their
        registration. Each answer names its query: `query_id`, `key`.

        Answers come some at a time; the next ones are fetched while the caller processes the present ones. Answers of
        one reply belong to one snapshot; later ones may reflect more. The error of a query is raised in the place of
        its answer, or returned there with `return_errors`. The other arguments are those of `Query.invoke`; `timeout`
        is for each call.
        """
        names = self._names(queries, keys, labels)
        request = question_of(
            queries_pb2.InvokeManyRequest,
            as_of,
            self.timezone,
            window,
            windows,
            accept_truncation,
            max_bytes=ONE_MESSAGE_BYTES,
        )
        asked = request.query_ids if keys is None else request.keys

        def invoke(some: Iterable[str]) -> Any:
            asked[:] = some
            reply = self._read(self.connection.queries.InvokeMany, request, wait_for, timeout)
            shown(self, max((each.answer.completeness.sequence for each in reply.outcomes), default=0))
            return reply

        def stream(query_id: str) -> Any:
            query, taken = Query(self, query_id), accept_truncation
            return query.stream(
                as_of=as_of, window=window, windows=windows, accept_truncation=taken, wait_for=wait_for, timeout=timeout
            )

        for name, outcome in _outcomes(self.connection, invoke, names):
            query_id = outcome.answer.query_id if keys is not None else name
            answer = _answer_or_error(outcome, query_id, stream)
            if isinstance(answer, PSoupError) and not return_errors:
                raise answer
            yield answer

    def invoke_table(
        self,
        queries: AnyQueries[Any] | Iterable[AnyQuery | str] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        key_prefix: str | None = None,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> AnswerTable:
        """Return the answers of many queries as one table, from one snapshot; for tens of thousands of small answers.

        The queries are the result of `register_many` (sent as a few ranges), or IDs or queries in any order. Or they
        are all queries with some `labels`, or with a key that begins with `key_prefix`, in the order of their
        registration. There are at most 1,048,576.

        The table's first column, `_query`, is the place of the query in the call, from 0; the columns of the answers
        follow. The error of a query is among the table's `failures`. Raises InvalidRequest with reason MIXED_COLUMNS if
        the answers of two queries have different columns. The other arguments are those of `Query.invoke`, for all
        queries; `timeout` is for the whole call.
        """
        request, ids = table_request(queries, labels, key_prefix)
        request.window, request.accept_truncation = window, accept_truncation
        request.windows.update(windows or {})
        if as_of is not None:
            request.as_of.CopyFrom(to_proto(instant(as_of, self.timezone)))
        connection = self.connection

        def attempt(sequence: int) -> AnswerTable:
            request.min_sequence = sequence
            table = table_of(connection.stream(connection.queries.InvokeTable, request, timeout), ids)
            shown(self, max((group.completeness.sequence for group in table.completeness), default=0))
            return table

        return self.reflecting(wait_for, attempt)

    def _names(
        self, queries: Iterable[AnyQuery | str] | None, keys: Iterable[str] | None, labels: Mapping[str, str] | None
    ) -> Iterator[str]:
        """Yield the IDs or keys of the queries that the caller's arguments name."""
        if (queries is not None) + (keys is not None) + (labels is not None) != 1:
            raise ValueError("give queries, keys or labels: one of them")
        if isinstance(keys, str):
            raise TypeError(f"keys is {keys!r}: give a list of keys")
        if keys is not None:
            return map(str, keys)
        if labels is not None:
            check_labels(labels)
            request = queries_pb2.ListQueriesRequest(page_size=PAGE, labels=labels)
            queries = [
                message.query_id for message in self._pages(self.connection.queries.ListQueries, request, "queries")
            ]
        return ids_of(queries)

    def matches(
        self,
        stream: str,
        tuple_id: int,
        *,
        keys: bool = False,
        labels: Mapping[str, str] | None = None,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> list[str]:
        """Return the IDs of the queries whose WHERE the tuple satisfies (windows apart), oldest first.

        With `keys`, return their keys instead; "" for a query without one. `matches_table` has both. With `labels`,
        only queries with all of these labels.

        The result reflects this client's own pushes; `wait_for` is a further sequence to reflect. Raises OutOfRange for
        a tuple that does not exist, or waits for the watermark.
        """
        check_labels(labels)
        request = queries_pb2.MatchesRequest(stream=stream, tuple_id=tuple_id, page_size=PAGE, labels=labels, keys=keys)
        field = "keys" if keys else "query_ids"
        return list(self._pages(self.connection.queries.Matches, request, field, wait_for, timeout))

    def matches_many(
        self,
        stream: str,
        tuple_ids: Sequence[int],
        *,
        keys: bool = False,
        limit: int = 1_000,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> list[list[str]]:
        """Look at many tuples together, as `matches` at one: of each the oldest `limit` queries, 10,000 at most."""
        matched: list[list[str]] = []
        for start in range(0, len(tuple_ids), PAGE):
            end = min(start + PAGE, len(tuple_ids))
            while len(matched) < end:  # a reply may have only the first tuples
                part = tuple_ids[len(matched) : end]
                request = queries_pb2.MatchesManyRequest(stream=stream, tuple_ids=part, limit=limit, keys=keys)
                reply = self._read(self.connection.queries.MatchesMany, request, wait_for, timeout)
                matched += [list(message.keys if keys else message.query_ids) for message in reply.tuples]
        return matched

    def wait_for(self, sequence: int, *, timeout: float | None = None) -> int:
        """Wait until the event with this sequence is visible to every call; returns the last one that is."""
        request = queries_pb2.WaitForSequenceRequest(sequence=sequence)
        return int(self.connection.call(self.connection.queries.WaitForSequence, request, timeout).sequence)


def _outcomes(
    connection: Connection, invoke: Callable[[Iterable[str]], Any], query_ids: Iterator[str]
) -> Iterator[tuple[str, Any]]:
    """Yield each ID with its outcome, in order. The next call is made while the caller reads the outcomes."""
    pending: deque[str] = deque(islice(query_ids, _BLOCK))
    with connection.ahead() as ahead:
        coming = ahead.submit(invoke, tuple(pending)) if pending else None
        while coming is not None:
            outcomes = coming.result().outcomes
            if not outcomes:
                raise ServerFault("the service answered none of the requested queries")
            answered = [pending.popleft() for _ in outcomes]
            pending.extend(islice(query_ids, _BLOCK - len(pending)))
            coming = ahead.submit(invoke, tuple(pending)) if pending else None
            yield from zip(answered, outcomes, strict=True)


def _answer_or_error(outcome: Any, query_id: str, stream: Callable[[str], Any]) -> Answer | PSoupError:
    """The answer in an outcome of InvokeMany, or its error. `stream`: fetches an answer by its query's ID in pieces."""
    reply = outcome.answer
    if outcome.WhichOneof("outcome") == "failure":
        return from_failure(outcome.failure)
    return _large(stream, query_id, reply.key) if reply.too_large else answer_of(reply, query_id)


def _large(stream: Callable[[str], Any], query_id: str, key: str) -> Answer | PSoupError:
    """Fetch in pieces an answer that does not fit in one message."""
    try:
        with stream(query_id) as pieces:
            answer: Answer = pieces.read_all()
    except PSoupError as problem:
        return problem
    answer.query_id, answer.key = query_id, key
    return answer


def _id_of(query: AnyQuery | str | None) -> str:
    return query.id if isinstance(query, AnyQuery) else query or ""

"""A standing query in the client: its ID, and the calls about it. The query stays if the object is lost.

>>> from psoup_client import Client
>>> with Client() as client:
...     _ = client.create_stream("CREATE STREAM calls (at TIMESTAMP NOT NULL, seconds BIGINT) TIMESTAMP BY at")
...     long_calls = client.register("SELECT at, seconds FROM calls WHERE seconds > 60 BEGIN (NOW - 1 HOUR)")
...     _ = client.push("calls", {"at": ["2024-05-01T10:00:00Z", "2024-05-01T11:30:00Z"], "seconds": [90, 120]})
...     now = long_calls.invoke()
...     then = long_calls.invoke(as_of="2024-05-01T10:30:00Z")
>>> [row["seconds"] for row in now], [row["seconds"] for row in then]
([120], [90])
>>> now.completeness.final, then.completeness.final
(False, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from psoup_client import html
from psoup_client.amounts import Altered, Amount, altering_of
from psoup_client.answer import Answer, AnswerStream
from psoup_client.arguments import checking_arguments
from psoup_client.explanation import Explanation
from psoup_client.payload import read
from psoup_client.query_info import QueryInfo, QuerySource
from psoup_client.questions import question_of
from psoup_client.session import Session
from psoup_client.times import Instant
from psoup_proto.v1 import queries_pb2, statements_pb2

ONE_MESSAGE_BYTES = 1024 * 1024
"""The greatest size of an answer in one message, in bytes. Larger answers come in pieces."""


class AnyQuery:
    """A registered query, of `Client` or of `AsyncClient`: its facts. Two are equal if their IDs are."""

    __slots__ = ("_client", "_id", "_info", "_key")

    def __init__(self, client: Session, info: QueryInfo | str, *, key: str = "") -> None:
        """`info`: the facts of the query, or its ID; "" for the query with the `key`."""
        self._client = client
        self._info = None if isinstance(info, str) else info
        self._id = info if isinstance(info, str) else info.query_id
        self._key = key

    @property
    def id(self) -> str:
        """The query's ID: opaque text."""
        return self._id or self.info.query_id

    @property
    def info(self) -> QueryInfo:
        """Facts of the query as of the object's creation; for a query among many, as of the first access."""
        if self._info is None:
            self._info = fetch_info(self._client, self._id, self._key)
            self._id = self._info.query_id
            self._key = ""
        return self._info

    @property
    def sql(self) -> str:
        """The statement as it was registered."""
        return self.info.sql

    @property
    def key(self) -> str:
        """The client's own name for it; "" without one."""
        return self.info.key

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the query."""
        return self.info.labels

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams of FROM, each once, in its order."""
        return self.info.streams

    @property
    def sources(self) -> tuple[QuerySource, ...]:
        """The sources of FROM: one, or several for a join."""
        return self.info.sources

    @property
    def window_kind(self) -> str:
        """`snapshot`, `landmark` or `sliding`; `table` for the rows of a table."""
        return self.info.window_kind

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, AnyQuery) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Query {self._id or self._key}>" if self._info is None else f"<Query {self.id}: {self.sql}>"

    def _repr_html_(self) -> str:
        """Show the facts of the query in a notebook, without a call to the service."""
        return html.facts({"query": self.id}) if self._info is None else self._info._repr_html_()


@checking_arguments
class Query(AnyQuery):
    """A registered query.

    Keep `id`: with it any client comes back to the query, `client.query(id)`. Two are equal if their IDs are.
    """

    __slots__ = ()

    def invoke(
        self,
        *,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Return the answer now, or with NOW set to `as_of`, as a whole in memory.

        `as_of` without a zone is in the client's `timezone`. The answer has no tuple after it: a window that ends later
        is cut there. `window` ("BEGIN … END …")
        replaces the query's own window, `windows` the windows of some sources of a join, by their names in the
        statement. `wait_for`: a sequence that the answer must reflect; by default it reflects this client's own
        acknowledged pushes. Raises OutOfRange if the window or `as_of` lies outside the kept tuples (see
        `accept_truncation`) or the known time.
        """
        names = {"query_id": self._id, "key": self._key, "max_bytes": ONE_MESSAGE_BYTES}
        request = question_of(
            queries_pb2.InvokeRequest, as_of, self._client.timezone, window, windows, accept_truncation, **names
        )
        connection = self._client.connection

        def attempt(sequence: int) -> Any:
            request.min_sequence = sequence
            return connection.call(connection.queries.Invoke, request, timeout)

        reply = self._client.reflecting(wait_for, attempt)
        self._id = self._id or reply.query_id
        self._key = ""
        if not reply.too_large:
            return answer_of(reply, self._id)
        with Query.stream(  # not self.stream: an `AsyncQuery` has another one, and is invoked by this method, too
            self,
            as_of=as_of,
            window=window,
            windows=windows,
            accept_truncation=accept_truncation,
            wait_for=wait_for,
            timeout=timeout,
        ) as pieces:
            answer = pieces.read_all()
        answer.query_id, answer.key = self._id, reply.key
        return answer

    def stream(
        self,
        *,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> AnswerStream:
        """Return the same answer in pieces, for a `with` statement; `timeout` is for all of it."""
        names = {"query_id": self._id, "key": self._key}
        request = question_of(
            queries_pb2.InvokeStreamRequest, as_of, self._client.timezone, window, windows, accept_truncation, **names
        )
        connection = self._client.connection

        def attempt(sequence: int) -> AnswerStream:
            request.min_sequence = sequence
            return AnswerStream(connection.stream(connection.queries.InvokeStream, request, timeout))

        return self._client.reflecting(wait_for, attempt)

    def explain(self, *, wait_for: int | None = None, timeout: float | None = None) -> Explanation:
        """Explain how the service keeps the query, and which data an invocation would read. It reflects the same events
        as `invoke`.
        """
        connection = self._client.connection
        request = queries_pb2.ExplainRequest(query_id=self._id, key=self._key)

        def attempt(sequence: int) -> Any:
            request.min_sequence = sequence
            return connection.call(connection.queries.Explain, request, timeout)

        reply = self._client.reflecting(wait_for, attempt)
        return Explanation.of(reply)

    def alter(
        self,
        *,
        amount: Amount | None = None,
        eager: bool | None = None,
        active: bool | None = None,
        parked: bool | None = None,
    ) -> bool:
        """Change how the service keeps the query, as `alter_queries` does; returns whether anything changed.

        Afterwards `info` has the new facts. Raises NotFound, and ValueError if nothing is to be changed.
        """
        request = altering_of([self.id], amount=amount, eager=eager, active=active, parked=parked)
        altered = alter(self._client, request)
        self._info = None if self._info is None else fetch_info(self._client, self.id)
        return altered.changed > 0

    def unregister(self) -> None:
        """Forget the query, for every client; raises NotFound if it is not there."""
        unregister(self._client, self.id)


def alter(client: Session, request: queries_pb2.AlterQueriesRequest, timeout: float | None = None) -> Altered:
    """Change how some queries are kept. Raises NotFound and InvalidRequest."""
    reply = client.connection.call(client.connection.queries.AlterQueries, request, timeout)
    client.note_sequence(reply.sequence)
    return Altered(reply.count, reply.changed)


def unregister(client: Session, query_id: str, key: str = "") -> None:
    """Unregister the query with an ID or a key. Raises NotFound."""
    query_id = fetch_info(client, query_id, key).query_id  # the repeatable call below never raises NotFound
    request = queries_pb2.UnregisterRequest(query_id=query_id, allow_missing=True)
    client.note_sequence(client.connection.call(client.connection.queries.Unregister, request).sequence)


def fetch_info(client: Session, query_id: str, key: str = "") -> QueryInfo:
    """Ask the service for a query by its ID or its key. Raises NotFound."""
    return QueryInfo.of(get_query(client, str(query_id), key))


def get_query(client: Session, query_id: str, key: str = "", timeout: float | None = None) -> queries_pb2.Query:
    """Ask the service for a query by its ID or its key. Raises NotFound."""
    request = queries_pb2.GetQueryRequest(query_id=query_id, key=key)

    def attempt(sequence: int) -> Any:
        request.min_sequence = sequence
        return client.connection.call(client.connection.queries.GetQuery, request, timeout)

    query: queries_pb2.Query = client.reflecting(0, attempt).query
    return query


def ids_of(queries: Iterable[AnyQuery | str] | None) -> Iterator[str]:
    """Yield the IDs of queries. Raises TypeError for an item that is neither a query nor a text."""
    if isinstance(queries, str):
        raise TypeError(f"queries is {queries!r}: give a list of queries or IDs")
    for query in queries or ():
        if not isinstance(query, AnyQuery | str):
            raise TypeError(f"a query is {query!r}: give a query or its ID")
        yield query if isinstance(query, str) else query.id


def answer_of(reply: queries_pb2.InvokeResponse | statements_pb2.AskResponse, query_id: str = "") -> Answer:
    """Build an answer from one message. `query_id`: the query; "" for a statement that was asked once."""
    key = reply.key if isinstance(reply, queries_pb2.InvokeResponse) else ""
    return Answer(read(reply.arrow_ipc), reply.completeness, query_id, key)

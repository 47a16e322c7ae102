"""The tools `list`, `describe` and `check`: streams, registered queries, and the query that a statement would make."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from psoup_proto.v1 import queries_pb2, streams_pb2
from psoup_service.assistants.calls import Bounds, McpCalls
from psoup_service.assistants.facts import ColumnFacts, Facts, QueryFacts, columns_of, query_facts
from psoup_service.assistants.tool import Arguments, Bounded, Tool
from psoup_service.wire.json_messages import timestamp_text

_MOST_PAGE = 1_000
_LISTED_COLUMNS = 50
_LISTED_CHARACTERS = 500
_DESCRIBED_COLUMNS = 500
_DESCRIBED_CHARACTERS = 8_000


class ListArguments(Bounded):
    """Arguments of `list`."""

    kind: Literal["streams", "queries", "both"] = Field(default="both", description="The things to list")
    page: str | None = Field(default=None, description="next_page of the reply before; needs kind")

    @model_validator(mode="after")
    def _page_of_one(self) -> ListArguments:
        if self.page is not None and self.kind == "both":
            raise ValueError("page continues one list; give its kind: streams or queries")
        return self


class StreamFacts(Facts):
    """A stream or a table. `more_columns`: columns that are left out. `tuples`: the number that queries can see."""

    name: str
    kind: Literal["stream", "table"]
    columns: list[ColumnFacts]
    more_columns: int | None = None
    tuples: int
    primary_key: list[str] | None = None
    time_column: str | None = None
    statement: str | None = None
    now: str | None = None
    queries: int | None = None


class StreamList(Facts):
    """Some streams. `next_page`: goes on after them."""

    items: list[StreamFacts]
    next_page: str | None = None


class QueryList(Facts):
    """Some queries. `next_page`: goes on after them."""

    items: list[QueryFacts]
    next_page: str | None = None


class ListFacts(Facts):
    """Lists of streams and queries."""

    streams: StreamList | None = None
    queries: QueryList | None = None


class DescribeArguments(Arguments):
    """Arguments of `describe`."""

    stream: str | None = Field(default=None, description="The name of a stream or a table")
    key: str | None = Field(default=None, description="The key of a registered query")
    query_id: str | None = Field(default=None, description="The ID of a registered query")

    @model_validator(mode="after")
    def _one(self) -> DescribeArguments:
        if sum(value is not None for value in (self.stream, self.key, self.query_id)) != 1:
            raise ValueError("give stream, key or query_id, and only one of them")
        return self


class Description(Facts):
    """A stream, or a query."""

    stream: StreamFacts | None = None
    query: QueryFacts | None = None


class CheckArguments(Arguments):
    """Arguments of `check`."""

    sql: str = Field(description="A SELECT, as for register")


class CheckFacts(Facts):
    """The query that a statement would be. `plan`: its steps, the last first."""

    query: QueryFacts
    plan: list[str]
    notes: list[str]


async def _list(calls: McpCalls, given: ListArguments) -> ListFacts:
    bounds, facts = given.bounds(calls), ListFacts()
    if given.kind == "both":
        bounds = Bounds(bounds.rows, bounds.size // 2)
    if given.kind != "queries":
        facts.streams = await _streams(calls, bounds, given.page or "")
    if given.kind != "streams":
        facts.queries = await _queries(calls, bounds, given.page or "")
    return facts


async def _streams(calls: McpCalls, bounds: Bounds, page: str) -> StreamList:
    rows = min(bounds.rows, _MOST_PAGE)
    while True:
        reply = await calls.one(
            "StreamService/ListStreams", streams_pb2.ListStreamsRequest(page_size=rows, page_token=page)
        )
        listed = StreamList(items=[_stream(stream, _LISTED_COLUMNS) for stream in reply.streams])
        if reply.next_page_token:
            listed.next_page = reply.next_page_token
        size = listed.size()
        if size <= bounds.size or rows == 1:
            return listed
        rows = _fewer(len(reply.streams), size, bounds)


async def _queries(calls: McpCalls, bounds: Bounds, page: str) -> QueryList:
    rows = min(bounds.rows, _MOST_PAGE)
    while True:
        reply = await calls.one(
            "QueryService/ListQueries", queries_pb2.ListQueriesRequest(page_size=rows, page_token=page)
        )
        listed = QueryList(items=[_brief(query) for query in reply.queries])
        if reply.next_page_token:
            listed.next_page = reply.next_page_token
        size = listed.size()
        if size <= bounds.size or rows == 1:
            return listed
        rows = _fewer(len(reply.queries), size, bounds)


def _fewer(rows: int, size: int, bounds: Bounds) -> int:
    """The rows of a page that probably fits."""
    return max(rows * bounds.size * 3 // (4 * size), 1) if rows > 1 else 1


def _brief(query: queries_pb2.Query) -> QueryFacts:
    """A query without its columns, and with the beginning of its statement."""
    facts = query_facts(query, columns=False)
    if len(facts.statement) > _LISTED_CHARACTERS:
        facts.statement = f"{facts.statement[:_LISTED_CHARACTERS]}…"
    return facts


def _stream(stream: streams_pb2.Stream, limit: int) -> StreamFacts:
    """A stream with at most `limit` of its columns."""
    facts = StreamFacts(
        name=stream.name,
        kind="table" if stream.primary_key else "stream",
        columns=columns_of(stream.columns[:limit]),
        tuples=stream.tuples,
    )
    if len(stream.columns) > limit:
        facts.more_columns = len(stream.columns) - limit
    if stream.primary_key:
        facts.primary_key = list(stream.primary_key)
    if stream.time_column:
        facts.time_column = stream.time_column
    return facts


async def _describe(calls: McpCalls, given: DescribeArguments) -> Description:
    if given.stream is None:
        request = queries_pb2.GetQueryRequest(key=given.key or "", query_id=given.query_id or "")
        reply = await calls.one("QueryService/GetQuery", request)
        return Description(query=query_facts(reply.query, columns=True))
    reply = await calls.one("StreamService/GetStream", streams_pb2.GetStreamRequest(name=given.stream))
    facts = _stream(reply.stream, _DESCRIBED_COLUMNS)
    if len(reply.stream.statement) <= _DESCRIBED_CHARACTERS:
        facts.statement = reply.stream.statement
    facts.queries = reply.stream.queries
    if reply.stream.HasField("now"):
        facts.now = timestamp_text(reply.stream.now)
    return Description(stream=facts)


async def _check(calls: McpCalls, given: CheckArguments) -> CheckFacts:
    reply = await calls.one("QueryService/Check", queries_pb2.CheckRequest(statement=given.sql))
    return CheckFacts(
        query=query_facts(reply.query, columns=True),
        plan=[node.text or node.operator for node in reply.nodes],
        notes=list(reply.notes),
    )


LIST = Tool(
    "list",
    "List streams and queries",
    "List the streams and tables with their columns, and the registered queries with their keys. Begin here.",
    ListArguments,
    ListFacts,
    ("StreamService/ListStreams", "QueryService/ListQueries"),
    _list,
)

DESCRIBE = Tool(
    "describe",
    "Describe a stream or a query",
    "Describe one stream or table (its columns, its CREATE statement, its time), or one registered query.",
    DescribeArguments,
    Description,
    ("StreamService/GetStream", "QueryService/GetQuery"),
    _describe,
)

CHECK = Tool(
    "check",
    "Check a statement",
    "Check a SELECT without asking it: its columns, windows and plan. An error has the line and column of the fault.",
    CheckArguments,
    CheckFacts,
    ("QueryService/Check",),
    _check,
)

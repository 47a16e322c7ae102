"""Descriptions of registered queries: frozen dataclasses, converted from the messages on the wire.

Nothing here calls the service.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from psoup_client import html
from psoup_client.amounts import amount_name
from psoup_client.schema import ColumnInfo, columns_of, window_kind
from psoup_client.times import from_proto
from psoup_proto.v1 import queries_pb2


@dataclass(frozen=True, slots=True)
class QuerySource(html.Facts):
    """A source of a query: a stream under the name `alias`; what the query selects of it, and its window.

    `role`: the use of its tuples. `rows`: they make the rows of the answer. `optional`: so do these, but some rows lack
    them. `partner`: a row needs a partner among them. `absence`: a row must not have a partner among them. `scalar`:
    they make the value of a scalar subselect.
    """

    alias: str
    stream: str
    clause: str
    window: str
    window_kind: str
    role: str = "rows"

    @staticmethod
    def of(message: queries_pb2.QuerySource) -> QuerySource:
        """Convert the message on the wire."""
        kind = window_kind(message.window_kind)
        role = queries_pb2.SourceRole.Name(message.role).removeprefix("SOURCE_ROLE_").lower()
        return QuerySource(message.alias, message.stream, message.clause, message.window, kind, role)


@dataclass(frozen=True, slots=True)
class QueryInfo(html.Facts):
    """A registered query. `clause` is its canonical FROM-WHERE part, `window_kind` snapshot, landmark or sliding,
    or table for the rows of a table.

    `streams`: the streams of FROM, each once. `sources`: the selection of each; one, or several for a join. For a join
    `stream` is the first stream, and `clause` and `window` are the texts of all sources together. `side_of`: the join
    of a side, which only jobs ask for; else "". `keep_pairs`: whether the pairs of the join are kept, by the option of
    `register`. `outside`: the reasons why the query is not in the index, so that each answer evaluates it row by row;
    () if it is in the index.

    `amount`: how much the service keeps of its answer, `none`, `partial`, `complete` or `auto`. `amount_in_force`: the
    present choice for `auto`, else the same. `eager`: whether a complete answer is brought up to date as tuples come.
    `active`: whether tuples meet the query as they come. `parked`: whether its statement is not in the service's
    memory.
    """

    query_id: str
    sql: str
    stream: str
    clause: str
    window: str
    window_kind: str
    columns: tuple[ColumnInfo, ...]
    registered: dt.datetime
    sequence: int
    key: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    expires_after: dt.timedelta | None = None
    expires: dt.datetime | None = None
    streams: tuple[str, ...] = ()
    sources: tuple[QuerySource, ...] = ()
    side_of: str = ""
    keep_pairs: bool = False
    outside: tuple[str, ...] = ()
    amount: str = "partial"
    eager: bool = False
    active: bool = True
    parked: bool = False
    amount_in_force: str = "partial"

    def _facts(self) -> dict[str, Any]:
        return {**self._listed(), "window": self.window_kind, "registered": self.registered, "expires": self.expires}

    def _repr_html_(self) -> str:
        """Show the facts of the query in a notebook, and the sources of a join."""
        return html.facts(self._facts()) + (html.items(self.sources) if len(self.sources) > 1 else "")

    def _listed(self) -> dict[str, Any]:
        """Return the facts that a list of queries shows."""
        return {"query": self.query_id, "key": self.key, "labels": self.labels, "sql": self.sql}

    @staticmethod
    def of(message: queries_pb2.Query) -> QueryInfo:
        """Convert the message on the wire."""
        sources = tuple(map(QuerySource.of, message.sources))
        if not sources:  # one stream: the query's own fields describe its source
            kind = window_kind(message.window_kind)
            sources = (QuerySource(message.stream, message.stream, message.clause, message.window, kind),)
        return QueryInfo(
            query_id=message.query_id,
            sql=message.statement,
            stream=message.stream,
            clause=message.clause,
            window=message.window,
            window_kind=window_kind(message.window_kind),
            columns=columns_of(message.columns),
            registered=from_proto(message.register_time),
            sequence=message.sequence,
            key=message.key,
            labels=dict(sorted(message.labels.items())),
            expires_after=message.expires_after.ToTimedelta() if message.HasField("expires_after") else None,
            expires=from_proto(message.expire_time) if message.HasField("expire_time") else None,
            streams=tuple(message.streams),
            sources=sources,
            side_of=message.side_of,
            keep_pairs=message.keep_pairs,
            outside=tuple(message.outside),
            amount=amount_name(message.amount),
            amount_in_force=amount_name(message.amount_in_force),
            eager=message.eager,
            active=message.active,
            parked=message.parked,
        )

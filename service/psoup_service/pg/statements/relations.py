"""The relations of a SELECT: `streams.name`, `queries."key"`, and names without a schema.

    SELECT * FROM queries.k                          ─> Invoke
    SELECT count(*) FROM queries.k                   ─> SELECT count(*) FROM (SELECT … FROM trades) [RANGE …] k
    SELECT … FROM streams.s, queries.k BEGIN (START) ─> SELECT … FROM s [BEGIN (START)], (SELECT …) [RANGE …] k

A view of `queries` is replaced by the statement of its query, with the window of that query. So its rows are the
rows of the query's answer. BEGIN and END of the SELECT itself hold for the streams that it names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from psoup.errors import NotFound, SqlError
from psoup.sql.identifiers import name_text
from psoup.sql.source import StatementText
from psoup_proto.v1 import queries_pb2, streams_pb2
from psoup_service.pg.statements.outlines import Named, Outline, outlined
from psoup_service.pg.statements.texts import Edit, Edited

STREAMS, QUERIES = "streams", "queries"


@dataclass(frozen=True, slots=True)
class Framed:
    """A SELECT over streams only. `edits`: the way from the written text to `text`. `view`: the only relation, if the
    SELECT is SELECT * of this view; then `text` is the written one."""

    text: str
    edits: tuple[Edited, ...] = ()
    view: Named | None = None


class Relations:
    """Finds the relations of SELECTs. `call`: makes a call of the contract."""

    def __init__(self, call: Callable[..., Awaitable[object]]) -> None:
        self._call = call

    async def framed(self, text: str, *, plain: bool = False, views_first: bool = False) -> Framed:
        """The SELECT over streams only. `plain`: also look for views among names without a schema.

        `views_first`: such a name means a view, if there are a view and a stream with this name.

        Raises SqlError for an unknown schema or view.
        """
        outline = await outlined(text)
        if outline.alone and outline.relations[0].schema == QUERIES:
            return Framed(text, (), outline.relations[0])
        views = dict[Named, queries_pb2.Query]()
        for relation in outline.relations:
            viewed = plain and not relation.schema
            if viewed and views_first:
                viewed = await self._is_view(text, relation)
            elif viewed:
                viewed = not await self._is_stream(relation)
            if viewed or relation.schema == QUERIES:
                views[relation] = await self.view(text, relation)
            elif relation.schema not in ("", STREAMS):
                raise StatementText(text).error(
                    f'relation "{relation.schema}.{relation.name}" does not exist',
                    relation.start,
                    hint="the schemas are streams and queries",
                    reason="UNKNOWN_STREAM",
                )
        if outline.alone and views:
            return Framed(text, (), outline.relations[0])
        edits = [Edit(start, stop, "") for start, stop in outline.prefixes]
        for named in outline.relations:
            if named.schema and named not in views:
                edits.append(Edit(named.start, named.stop, name_text(named.name)))
        if views:
            edits += await self._with_views(text, outline, views)
        edited = Edited(text, edits)
        return Framed(edited.text, (edited,))

    async def _with_views(self, text: str, outline: Outline, views: dict[Named, queries_pb2.Query]) -> list[Edit]:
        """The edits that put the statements of views in their places, and the window of the SELECT at its streams."""
        inner = {named: await outlined(query.statement) for named, query in views.items()}
        bracketed = outline.has_windows
        bracketed = bracketed or any(part.has_windows for part in inner.values())
        edits = list[Edit]()
        for named, query in views.items():
            statement, window = _inlined(query.statement, inner[named])
            window = window or ("[UNBOUNDED]" if bracketed and not inner[named].has_windows else "")
            alias = "" if named.aliased else f" {name_text(query.key)}"
            edits.append(Edit(named.start, named.stop, f"({statement}){' ' if window else ''}{window}{alias}"))
        if outline.window is not None:
            start, stop = outline.window
            edits.append(Edit(start, stop, ""))
            for named in outline.relations:
                if named not in views and not named.windowed and await self._takes_window(named):
                    edits.append(Edit(named.stop, named.stop, f" [{text[start:stop]}]"))
        return edits

    async def _is_stream(self, named: Named) -> bool:
        try:
            await self.stream(named)
        except NotFound:
            return False
        return True

    async def _is_view(self, text: str, named: Named) -> bool:
        try:
            await self.view(text, named)
        except SqlError:
            return False
        return True

    async def _takes_window(self, named: Named) -> bool:
        """Whether a relation is a stream, which has windows, and not a table."""
        return not (await self.stream(named)).primary_key

    async def stream(self, named: Named) -> streams_pb2.Stream:
        """The stream or table with a name. Raises NotFound."""
        request = streams_pb2.GetStreamRequest(name=named.name)
        reply = await self._call("StreamService/GetStream", request)
        stream = reply.stream  # type: ignore[attr-defined]
        assert isinstance(stream, streams_pb2.Stream)
        return stream

    async def view(self, text: str, named: Named) -> queries_pb2.Query:
        """The query of a view. Raises SqlError."""
        for key in keys_of(named):
            with suppress(NotFound):
                reply = await self._call("QueryService/GetQuery", queries_pb2.GetQueryRequest(key=key))
                query = reply.query  # type: ignore[attr-defined]
                assert isinstance(query, queries_pb2.Query)
                return query
        raise unknown(text, named)


def keys_of(named: Named) -> list[str]:
    """The keys that a name may mean. Without quotes, these are the name in lower case and the name as written."""
    return list(dict.fromkeys([named.name.lower(), named.name] if named.folded else [named.name]))


def unknown(text: str, named: Named) -> SqlError:
    """The error for a name that is neither a stream nor the key of a query."""
    shown = f"queries.{named.name}" if named.schema else named.name
    missing = "query with this key" if named.schema else "stream of this name, and no query with this key"
    return StatementText(text).error(
        f'relation "{shown[:128]}" does not exist: there is no {missing}', named.start, reason="UNKNOWN_STREAM"
    )


def _inlined(statement: str, outline: Outline) -> tuple[str, str]:
    """The statement of a view without its window, and the window in brackets. "" if there is none.

    A window of rows is written at each stream of the statement instead.
    """
    statement = statement[: outline.end]
    if outline.window is None:
        return statement, ""
    start, stop = outline.window
    window = f"[{statement[start:stop]}]"
    if not outline.rows:
        return statement[:start].rstrip(), window
    edits = [Edit(start, stop, "")]
    edits += [Edit(named.stop, named.stop, f" {window}") for named in outline.relations]
    return Edited(statement, edits).text.rstrip(), ""

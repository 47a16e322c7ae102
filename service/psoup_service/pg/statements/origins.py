"""The stream or view from which the columns of a SELECT come, for the description of its rows.

    SELECT sym AS s, price * 2 FROM trades    ─>   s: the OID of trades, column 1      price * 2: 0, 0

JDBC and libpq tell applications the table of a column by these numbers, and ask the catalogue about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from psoup.errors import PSoupError, SqlError
from psoup_service.pg.catalogue.content import number_of, oid_of_query, oids_of_stream
from psoup_service.pg.contract import Column
from psoup_service.pg.statements.outlines import Named, outlined
from psoup_service.pg.statements.relations import QUERIES, STREAMS, Relations


async def with_origins(
    text: str, columns: Sequence[Column], relations: Relations, *, views_first: bool
) -> tuple[Column, ...]:
    """The columns of a SELECT with their relation and number, if it reads one stream or view. Raises no PSoupError.

    `views_first`: a name without a schema means a view, if there are a view and a stream with this name.
    """
    try:
        outline = await outlined(text)
    except SqlError:  # a form of PostgreSQL that PSoup's grammar lacks
        return tuple(columns)
    if outline.single is None:
        return tuple(columns)
    relation = await _relation(text, outline.single, relations, views_first)
    if relation is None:
        return tuple(columns)
    oid, names = relation
    numbers = _numbers(outline.items, names)
    if len(numbers) != len(columns):
        return tuple(columns)
    return tuple(
        replace(column, relation=oid, attribute=number) if number else column
        for column, number in zip(columns, numbers, strict=True)
    )


def of_view(identity: str, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a SELECT * from a view, with their relation and number. `identity`: the ID of the query."""
    oid = oid_of_query(number_of(identity))
    return tuple(replace(column, relation=oid, attribute=at) for at, column in enumerate(columns, 1))


def _numbers(items: Sequence[str | None], names: Sequence[str]) -> list[int]:
    """The number of each column of a SELECT list in its relation, 0 for other expressions. `names`: of its columns."""
    places = {name.lower(): number for number, name in enumerate(names, 1)}
    numbers = list[int]()
    for item in items:
        if item == "*":
            numbers += range(1, len(names) + 1)
        else:
            numbers.append(0 if item is None else places.get(item.lower(), 0))
    return numbers


async def _relation(text: str, named: Named, relations: Relations, views_first: bool) -> tuple[int, list[str]] | None:
    """The OID of a stream or view, and the names of its columns; None for another name."""
    kinds = [named.schema] if named.schema else [QUERIES, STREAMS] if views_first else [STREAMS, QUERIES]
    for kind in kinds:
        with suppress(PSoupError):
            if kind == STREAMS:
                stream = await relations.stream(named)
                return oids_of_stream(number_of(stream.stream_id))[0], [column.name for column in stream.columns]
            query = await relations.view(text, named)
            return oid_of_query(number_of(query.query_id)), [column.name for column in query.columns]
    return None

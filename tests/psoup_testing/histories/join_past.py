"""Jobs for the sides of joins: history attached with what they match in it, and sides covered that came later.

sides_of(soup, "s0") ──> the hidden queries of all joins on a stream, as jobs are given them
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from psoup.matching.outside import Beforehand
from psoup.published.records import QueryRecord
from psoup_testing.engines.attachments import attach, take, write, write_cover_of
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.values import arrow_array
from psoup_testing.oracles.model import Declaration, Row


def sides_of(soup: RestartingPSoup, stream: str) -> list[QueryRecord]:
    """The sides on a stream, of all joins."""
    snapshot = soup.engine.snapshot()
    joins = [record for _, record in snapshot.queries.items(0) if record.query.sides]
    sides = [side for join in joins for side in snapshot.sides_of(join)]
    return [side for side in sides if snapshot.by_id[side.stream_id].spec.name == stream]


def table_of(declaration: Declaration, rows: Sequence[Row]) -> pa.Table:
    """Rows as they are pushed."""
    schema = declaration.schema
    columns = [arrow_array(a.type, [row[place] for row in rows]) for place, a in enumerate(schema.attributes)]
    return pa.table(columns, names=list(schema.names))


def attach_history(
    soup: RestartingPSoup, folder: Path, declaration: Declaration, entries: Sequence[tuple[int, Row]], *, known: bool
) -> None:
    """Attach rows with their times, in chunks of 30; `known`: with what the sides match in them."""
    name, times = declaration.name, [time for time, _ in entries]
    spec = soup.engine.snapshot().stream(name, "default").spec
    sides = Beforehand(spec, [(side.query_id, side.query.text) for side in sides_of(soup, name)] if known else [])
    table = table_of(declaration, [row for _, row in entries])
    write(folder, spec, table, times, range(0, len(times), 30), sides, soup.store.incarnation)
    attach(soup, name, folder.name, folder)


def cover_sides(soup: RestartingPSoup, folder: Path, stream: str) -> int:
    """Evaluate the sides on a stream over what is on disk, as a job does; returns the number of chunks."""
    sides = sides_of(soup, stream)
    if not sides:
        return 0
    count = write_cover_of(soup, folder, sides)
    assert take(soup, folder, stream).chunks == count
    return count

"""Derived streams in the fixture of a format: a selection, a join with a table AS OF, and a stream that was dropped."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from psoup.local import LocalPSoup
from psoup_testing.oracles.questions import again

STREAMS = ("dear", "named", "later")
DERIVED = (
    "CREATE STREAM dear AS (SELECT page, ms * 2 AS twice FROM clicks WHERE ms > 30) RETENTION 7 DAYS",
    "CREATE STREAM named AS (SELECT v.page, n.title FROM visits v JOIN titles n AS OF v ON n.page = v.page)",
    "CREATE STREAM later (p) AS (SELECT page FROM dear WHERE twice > 60) FROM NOW",
)


def derive(soup: LocalPSoup) -> None:
    """Derive streams, and push tuples into their sources before and after."""
    soup.execute("CREATE STREAM visits (page TEXT)")
    soup.execute("CREATE TABLE titles (page TEXT PRIMARY KEY, title TEXT)")
    for statement in DERIVED:
        soup.execute(statement)
    soup.execute("CREATE STREAM brief AS (SELECT page FROM dear)")
    soup.execute("CREATE STREAM briefer AS (SELECT page FROM brief)")
    soup.drop_stream("brief", cascade=True)
    for step in range(3):
        soup.push("titles", pa.table({"page": ["home"], "title": [f"title {step}"]}))
        soup.push("visits", pa.table({"page": ["home", "away"]}))
        soup.push("clicks", pa.table({"page": ["home", f"page {step}"], "ms": [step, 100 + step]}))


def shown_derived(soup: LocalPSoup) -> list[Any]:
    """The definitions and the tuples of the derived streams. Nothing in a directory of format 18."""
    streams = soup.engine.snapshot().streams
    names = [name for name in STREAMS if (soup.tenant, name) in streams]
    rows = [again(soup.ask, f"SELECT *, _id, _time FROM {name}").to_table().to_pylist() for name in names]
    views = [streams[soup.tenant, name] for name in names]
    return [
        [view.sql, view.watermark, [[str(value) for value in row.values()] for row in table]]
        for view, table in zip(views, rows, strict=True)
    ]

"""Random streams derived with EVERY: any SELECT over windows of two streams and a table, and random pushes into them.

A SELECT has a place {r}, {s} or {c} for each source. PSoup gets a window in brackets there, DuckDB the rows that are in
the window at an instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from psoup.local import LocalPSoup

Random = np.random.Generator

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
END = START + 60 * SECOND
"""No tuple has this time or a later one."""
OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM")
STREAMS = ("r", "s")
_COLUMNS = "(k BIGINT, v DOUBLE, w TEXT, stamp TIMESTAMP)"

SELECTS = (
    "SELECT k, v, w FROM {r} WHERE v > 1",
    "SELECT k, count(*) AS n, sum(v) AS total, max(w) AS last FROM {r} GROUP BY k",
    "SELECT count(*) AS n, min(v) AS least FROM {r} WHERE k < 4",
    "SELECT k % 2 AS odd, count(DISTINCT w) AS n FROM {r} WHERE v IS NOT NULL GROUP BY k % 2 HAVING count(*) > 2",
    "SELECT DISTINCT k, w FROM {r}",
    "SELECT k, v, w FROM {r} ORDER BY v DESC, k, w LIMIT 3",
    "SELECT k, w FROM {r} WHERE w <> '' ORDER BY k, w LIMIT 4 OFFSET 2",
    "SELECT k, sum(v) AS total FROM {r} GROUP BY k ORDER BY total DESC, k LIMIT 2",
    "SELECT k, w, count(*) OVER (PARTITION BY k) AS n, rank() OVER (ORDER BY v) AS place FROM {r}",
    "SELECT r.k, s.w FROM {r}, {s} WHERE r.k = s.k AND r.v < s.v",
    "SELECT r.k, count(*) AS n FROM {r}, {s} WHERE r.k = s.k GROUP BY r.k",
    "SELECT r.k, r.w, s.v FROM {r} LEFT JOIN {s} ON r.k = s.k AND s.w = r.w",
    "SELECT r.k, r.w, s.v FROM {r} FULL JOIN {s} ON r.k = s.k AND r.v = s.v",
    "SELECT k, w FROM {r} WHERE EXISTS (SELECT 1 FROM {s} WHERE s.k = r.k AND s.v > 2)",
    "SELECT k, w FROM {r} WHERE NOT EXISTS (SELECT 1 FROM {s} WHERE s.k = r.k)",
    "SELECT k, w FROM {r} WHERE v > 2 UNION SELECT k, w FROM {s}",
    "SELECT k, w FROM {r} EXCEPT SELECT k, w FROM {s}",
    "SELECT k FROM {r} INTERSECT ALL SELECT k FROM {s}",
    "SELECT r.k, c.n, r.v FROM {r} JOIN {c} ON r.k = c.k",
    "SELECT c.n, count(*) AS rows FROM {r} LEFT JOIN {c} ON r.k = c.k WHERE r.v > 0 GROUP BY c.n",
    "SELECT k, n FROM {c} WHERE n <> 'b'",
    "SELECT r.k, c.n FROM {r} JOIN {c} AS OF r ON r.k = c.k",
)
"""Queries that can be invoked, whose answer does not depend on the order of rows with equal keys."""

IN_DUCKDB = {
    SELECTS[-1]: """
        SELECT k, version.n FROM (
            SELECT r.k, coalesce(max_by(c, c.id) FILTER (WHERE c.micros <= r.micros), min_by(c, c.id)) AS version
            FROM {r} JOIN {versions} ON r.k = c.k GROUP BY r.id, r.k)
        WHERE NOT version.gone"""
}
"""The queries that DuckDB has in another form. {versions}: all versions of the table, as `c`."""


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a source. `text`: in PSoup. Tuples are in it from `late` to `width` seconds, or the last `rows`."""

    text: str
    width: int | None = None
    late: int = 0
    rows: int | None = None


def window_of(random: Random, keeps: int | None) -> Window:
    """A random window of a stream that keeps its tuples for `keeps` seconds, or for ever."""
    width = int(random.integers(2, 15))
    width = width if keeps is None else min(width, keeps)
    windows = [
        Window(f" [RANGE {width} SECONDS]", width),
        Window(f" [RANGE {width} SECONDS]", width),
        Window(f" [BEGIN (NOW - {width} SECONDS) END (NOW - {width // 2} SECONDS)]", width, late=width // 2),
        Window(f" [ROWS {width}]", keeps, rows=width),
        *([Window("", keeps)] * 2 if keeps is not None else []),
    ]
    return windows[int(random.integers(len(windows)))]


class Ticked:
    """A random stream derived with EVERY, of a history."""

    def __init__(self, random: Random, name: str, keeps: dict[str, int | None]) -> None:
        self.name = name
        self.operator = str(random.choice(OPERATORS))
        self.select = SELECTS[int(random.integers(len(SELECTS)))]
        self.every = int(random.choice([1, 2, 5, 7, 45]))
        self.windows = {source: window_of(random, keeps[source]) for source in STREAMS}
        sources = {source: f"{source}{window.text}" for source, window in self.windows.items()}
        select = self.select.format(**sources, c="c")
        begins = str(random.choice(["START", "START", "NOW"]))
        self.statement = f"CREATE STREAM {name} AS {self.operator} ({select}) EVERY {self.every} SECONDS FROM {begins}"

    @property
    def sources(self) -> list[str]:
        """The names of its sources."""
        return [name for name in (*STREAMS, "c") if f"{{{name}}}" in self.select]


class TickHistory:
    """Random pushes into two streams and a table, with late tuples, ties, gaps and NULLs."""

    def __init__(self, seed: int, streams: int) -> None:
        random = self.random = np.random.default_rng(seed)
        self.keeps: dict[str, int | None] = {name: 15 if random.random() < 0.4 else None for name in STREAMS}
        self.derived = [Ticked(random, f"x{number}", self.keeps) for number in range(streams)]
        self.before = int(random.integers(0, 8)) if not any(self.keeps.values()) else 0
        """The number of pushes before the streams are derived: 0 if tuples may be gone by then."""
        self.pushes = list(self._pushes())
        self.restarts = frozenset(random.integers(0, len(self.pushes), 3).tolist())
        """The pushes after which a restart forgets the pumps."""

    @property
    def creates(self) -> list[str]:
        """The CREATE statements of the sources."""
        texts = {name: "" if keeps is None else f" RETENTION {keeps} SECONDS" for name, keeps in self.keeps.items()}
        streams = [
            f"CREATE STREAM {name} {_COLUMNS} TIMESTAMP BY stamp LATENESS 2 SECONDS{text}"
            for name, text in texts.items()
        ]
        columns = "(k BIGINT PRIMARY KEY, n TEXT, stamp TIMESTAMP)"
        return [*streams, f"CREATE TABLE c {columns} TIMESTAMP BY stamp FIRST VERSION FROM START"]

    def _pushes(self) -> Iterator[tuple[str, pa.Table]]:
        random, gap, keys = self.random, 0, set[int]()
        for step in range(16):
            gap += 12 if random.random() < 0.1 else 0
            name = str(random.choice(STREAMS))
            rows = int(random.integers(1, 16))
            stamps = START + (2 * step + gap + random.integers(-2, 3, rows)) * SECOND
            stamps = np.minimum(stamps + random.choice([0, 0, 500_000], rows), END - SECOND)
            values = [None if x > 5 else float(x) for x in random.integers(0, 7, rows)]
            yield (
                name,
                pa.table(
                    {
                        "k": pa.array(random.integers(0, 5, rows)),
                        "v": pa.array(values, pa.float64()),
                        "w": pa.array([str(x) for x in random.choice(["a", "ab", "b", ""], rows)]),
                        "stamp": pa.array(stamps, pa.timestamp("us")),
                    }
                ),
            )
            if step % 3 == 0:
                at = min(START + (2 * step + gap) * SECOND, END - SECOND)
                key = int(random.integers(0, 5))
                gone = key in keys and random.random() < 0.3
                keys ^= {key} if gone or key not in keys else set()
                named = {"k": [key], "n": [str(random.choice(["a", "b", "d"]))], "_deleted": [gone]}
                yield "c", pa.table({**named, "stamp": pa.array([at], pa.timestamp("us"))})


def push_all(soup: LocalPSoup, pushes: list[tuple[str, pa.Table]]) -> None:
    """Push tables, and count the rows that come too late."""
    for name, table in pushes:
        soup.push(name, table, refused="count")


def close_all(soup: LocalPSoup) -> None:
    """Close all instants before `END` in the sources."""
    for name in (*STREAMS, "c"):
        soup.heartbeat(name, END)

"""DuckDB's answers at the ticks of streams that are derived with EVERY, and the rows that their pumps should push.

accepted tuples ── those in the windows at a tick ──> SELECT ──> R(tick) ── differences ──> ISTREAM, DSTREAM, RSTREAM
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from psoup.local import LocalPSoup
from psoup_testing.histories.ticked_derivations import END, IN_DUCKDB, SECOND, STREAMS, Ticked, TickHistory
from psoup_testing.oracles.questions import again

Row = tuple[object, ...]
TickRows = list[tuple[int, list[Row]]]
"""Ticks with rows, in order, with the rows at each."""


class TickOracle:
    """The tuples of the sources of a history in DuckDB. `soup`: has all accepted tuples, in the order of their IDs."""

    def __init__(self, soup: LocalPSoup, history: TickHistory) -> None:
        self._keeps = history.keeps
        self._duck = duckdb.connect()
        self._duck.execute("SET TimeZone = 'UTC'")
        for name in STREAMS:
            rows = again(soup.ask, f"SELECT k, v, w, _id AS id, epoch_us(stamp) AS micros FROM {name} BEGIN (START)")
            self._keep(name, rows.to_table())
        versions = [table for name, table in history.pushes if name == "c"]
        self._keep("c", pa.concat_tables(versions).append_column("id", pa.array(range(len(versions)))))
        self._duck.execute(
            "CREATE OR REPLACE TABLE all_c AS SELECT k, n, id, _deleted AS gone, epoch_us(stamp) AS micros FROM all_c"
        )

    def _keep(self, name: str, rows: pa.Table) -> None:
        self._duck.register("given", rows)
        self._duck.execute(f"CREATE TABLE all_{name} AS SELECT * FROM given")

    def first_tick(self, derived: Ticked) -> int:
        """The first tick at or after the first tuple of the sources."""
        firsts = [
            self._duck.execute(f"SELECT min(micros) FROM all_{name}").fetchall()[0][0] for name in derived.sources
        ]
        every = derived.every * SECOND
        return -(-min(first for first in firsts if first is not None) // every) * every

    def pushed(self, derived: Ticked, after: int | None) -> TickRows:
        """The rows that the stream should have, in any order. `after`: the instant of its CREATE, if it is FROM NOW."""
        pushed, every = TickRows(), derived.every * SECOND
        first = self.first_tick(derived) if after is None else after // every * every + every
        before = Counter(self._answer(derived, first - every))
        for tick in range(first, END, every):
            rows = [*self._answer(derived, tick)]
            now = Counter(rows)
            shown = {"ISTREAM": now - before, "DSTREAM": before - now, "RSTREAM": now}[derived.operator]
            if shown:
                pushed.append((tick, [*shown.elements()]))
            before = now
        return pushed

    def _answer(self, derived: Ticked, tick: int) -> Iterator[Row]:
        places = {name: self._rows_in(derived, name, tick) for name in (*STREAMS, "c")}
        places["versions"] = f"(SELECT * FROM all_c WHERE micros <= {tick}) AS c"
        select = IN_DUCKDB.get(derived.select, derived.select)
        yield from self._duck.execute(select.format(**places)).fetchall()

    def _rows_in(self, derived: Ticked, name: str, tick: int) -> str:
        if name == "c":
            newest = "QUALIFY row_number() OVER (PARTITION BY k ORDER BY id DESC) = 1"
            return f"(SELECT * FROM (SELECT * FROM all_c WHERE micros <= {tick} {newest}) WHERE NOT gone) AS c"
        window, keeps = derived.windows[name], self._keeps[name]
        last = tick - window.late * SECOND
        bound = min([width for width in (window.width, keeps) if width is not None], default=10**6)
        rows = f"SELECT * FROM all_{name} WHERE micros BETWEEN {tick - bound * SECOND} AND {last}"
        if window.rows is not None:
            rows += f" ORDER BY id DESC LIMIT {window.rows}"
        return f"({rows}) AS {name}"


def rows_of(soup: LocalPSoup, name: str) -> TickRows:
    """The rows of a derived stream, by tick, in the order of their IDs."""
    table = again(soup.ask, f"SELECT *, epoch_us(_time) AS tick, _id FROM {name} ORDER BY _id").to_table()
    by_tick = dict[int, list[Row]]()
    for number, row in enumerate(table.to_pylist()):
        assert row.pop("_id") == number
        by_tick.setdefault(row.pop("tick"), []).append(tuple(row.values()))
    assert [*by_tick] == sorted(by_tick)
    return [*by_tick.items()]


def in_any_order(rows: TickRows) -> list[tuple[int, list[str]]]:
    """The rows of each tick, sorted."""
    return [(tick, sorted(map(repr, of_tick))) for tick, of_tick in rows]

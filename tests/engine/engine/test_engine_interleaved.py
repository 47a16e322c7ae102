"""A batch of tuples with registrations in every position: whichever came first, data or query, the answer is the same.

      tuples       t0 … t55 │ t56 t57 │ t58 … t71     the batch of t56 to t71 is cut at every place; t63 ends a chunk
      in the cut                      └─ register A, unregister B, register many C

One by one, and as one run of events, which is how they reach the engine when they queue up.
"""

from __future__ import annotations

import functools

import duckdb
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.events.acknowledgements import Prepared
from psoup.events.commands import Command, Push, Register, RegisterMany, Unregister
from psoup.local import LocalPSoup
from psoup_testing.suite.sweeps import in_parts, swept

SMALL = EngineConfig(chunk_rows=64, piece_rows=16, delta_queries=2)
SYMBOLS = [None, "a", "b", "a", "c", "b", "a", None, "a", "b", "c", "a"] * 6
VALUES = [5, 1, None, 7, 3, 9, 2, 4, 8, None, 6, 5] * 6
BEFORE = 56
TUPLES = pa.table({"sym": pa.array(SYMBOLS, pa.string()), "x": pa.array(VALUES, pa.int64())})
TEMPLATE = "SELECT sym, x FROM s WHERE sym = ? AND x > ?"
ROWS = [("a", 1), ("b", 3), ("a", 1), ("zz", 0)]
QUERIES = [
    "SELECT sym, x FROM s WHERE x > 3",
    "SELECT sym, x FROM s WHERE sym = 'a' OR x IS NULL",
    "SELECT sym, x FROM s",
    "SELECT sym, x FROM s WHERE x BETWEEN 2 AND 8 AND sym <> 'b' BEGIN (NOW - 5 ROWS)",
]


@functools.cache
def expected(statement: str) -> list[tuple[object, ...]]:
    """DuckDB's answer over all tuples; a window of rows is cut beforehand."""
    text, begin, _ = statement.partition(" BEGIN (NOW - 5 ROWS)")
    s = TUPLES.slice(len(VALUES) - 5) if begin else TUPLES  # noqa: F841 the statement names it
    return duckdb.sql(text).fetchall()


def filled(row: tuple[str, int]) -> str:
    return f"SELECT sym, x FROM s WHERE sym = '{row[0]}' AND x > {row[1]}"


class Script:
    """Commands given to an engine, each at once or all together at the end."""

    def __init__(self, together: bool) -> None:
        self.soup = LocalPSoup(SMALL, verify="all")
        self.soup.execute("CREATE STREAM s (sym TEXT, x BIGINT)")
        self._together = together
        self._waiting: list[Prepared] = []

    def give(self, command: Command) -> Prepared:
        prepared = self.soup.admission.prepare(command, 0)
        self._waiting.append(prepared)
        if not self._together:
            self.apply()
        return prepared

    def apply(self) -> None:
        events = [prepared.event for prepared in self._waiting if prepared.event is not None]
        self.soup.admission.give_back(self.soup.engine.apply(events).freed_bytes)
        self._waiting = []

    def rows(self, query_id: int) -> list[tuple[object, ...]]:
        answer = self.soup.invoke(query_id).to_table()
        return list(zip(*(column.to_pylist() for column in answer.columns), strict=True))


@pytest.mark.parametrize("together", swept([False, True], fast=(1,)), ids=["singly", "one run"])
@pytest.mark.parametrize("upkeep", swept([False, True], fast=(1,)), ids=["", "maintained"])
@in_parts(3)
def test_a_registration_in_every_position_of_a_batch(together: bool, upkeep: bool, part: slice) -> None:
    for cut in range(BEFORE, len(VALUES) + 1)[part]:
        script = Script(together)
        gone = script.give(Register("SELECT sym FROM s WHERE x > 0")).acknowledgement.query_id  # type: ignore[union-attr]
        script.give(Push("s", TUPLES.slice(0, BEFORE)))
        if cut > BEFORE:
            script.give(Push("s", TUPLES.slice(BEFORE, cut - BEFORE)))
        ids = [script.give(Register(text)).acknowledgement.query_id for text in QUERIES]  # type: ignore[union-attr]
        script.give(Unregister(gone))
        block = script.give(RegisterMany([TEMPLATE], ROWS)).acknowledgement
        if cut < len(VALUES):
            script.give(Push("s", TUPLES.slice(cut)))
        script.apply()
        if upkeep:
            script.soup.maintain()
        for query_id, text in zip(ids, QUERIES, strict=True):
            assert script.rows(query_id) == expected(text), (cut, text)
        for number, row in enumerate(ROWS):
            assert script.rows(block.first_id + number) == expected(filled(row)), (cut, row)  # type: ignore[union-attr]
        script.soup.check()


@pytest.mark.parametrize("together", swept([False, True], fast=(1,)), ids=["singly", "one run"])
def test_a_registration_after_every_tuple(together: bool) -> None:
    script = Script(together)
    ids = []
    for number in range(len(VALUES)):
        script.give(Push("s", TUPLES.slice(number, 1)))
        ids.append(script.give(Register(QUERIES[number % 4])).acknowledgement.query_id)  # type: ignore[union-attr]
        if number % 3 == 2:
            script.give(Unregister(ids.pop(0)))
    script.apply()
    live = [number for number in range(len(VALUES)) if number >= len(VALUES) // 3]
    for query_id, number in zip(ids, live, strict=True):
        assert script.rows(query_id) == expected(QUERIES[number % 4]), number
    script.soup.check()

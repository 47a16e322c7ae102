"""PSoup (VLDB 2002), figures 2 and 3: a new query meets old data, a new tuple meets old queries, step by step. Before
them, the example of section 1.1.

    Query SteM   queries 1 … 23, then 24: R.a > 4 AND R.b = 3        Data SteM   tuples 0 … 52, then 53
    Results      a row for each query, a column for each tuple       of 24: TRUE for 48 and 50, then for 53

IDs of queries begin at 1 here, those of tuples at 0, so that both are the paper's.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.errors import SqlError
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock

OLD_QUERIES = 23
OLD_TUPLES = 53
QUERY = "SELECT a, b FROM r WHERE a > 4 AND b = 3"
MATCHING = {48: (5, 3), 50: (9, 3)}
NEARLY = {47: (4, 3), 49: (5, 2), 51: (0, 3), 52: (9, 4)}
EXAMPLE = "SELECT * FROM Data_Stream D_s WHERE (D_s.a < 7 ∧ D_s.b > 2) BEGIN (NOW - 10) END (NOW)"
"""Section 1.1, with 7 for v1 and 2 for v2."""


@pytest.fixture
def soup() -> LocalPSoup:
    """PSoup after 23 queries and 53 tuples."""
    made = LocalPSoup(verify="all")
    made.execute("CREATE STREAM r (a BIGINT, b BIGINT)")
    for number in range(OLD_QUERIES):
        made.register(f"SELECT a FROM r WHERE a = {number} AND b > {number % 3}")
    tuples = {**dict.fromkeys(range(OLD_TUPLES), (0, 0)), **MATCHING, **NEARLY}
    push(made, *(tuples[number] for number in range(OLD_TUPLES)))
    return made


def push(soup: LocalPSoup, *rows: tuple[int, int]) -> None:
    soup.push("r", pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]}))


def column(soup: LocalPSoup, query_id: int) -> list[int]:
    """The tuples that the Results Structure has for a query."""
    bits = soup.results("r", [query_id]).of(query_id)
    return [number for number, bit in enumerate(bits) if bit]


def test_the_example_of_section_1_1_slides_with_the_clock() -> None:
    clock = VirtualClock(1_000 * SECOND)
    soup = LocalPSoup(clock=clock, verify="all")
    soup.execute("CREATE STREAM Data_Stream (a BIGINT, b BIGINT)")
    with pytest.raises(SqlError, match="hint: write AND"):
        soup.register(EXAMPLE)
    query = soup.register(EXAMPLE.replace("∧", "AND"))
    for a, b in ((1, 3), (7, 3), (6, 2), (6, 9)):
        soup.push("Data_Stream", pa.table({"a": [a], "b": [b]}))
        clock.advance(seconds=4)
    assert soup.invoke(query).to_table().to_pylist() == [{"a": 6, "b": 9}]
    assert soup.invoke(query, window="BEGIN (NOW - 16)").to_table()["a"].to_pylist() == [1, 6]


def test_figure_2_a_new_query_probes_the_data_stem(soup: LocalPSoup) -> None:
    before = {query_id: column(soup, query_id) for query_id in range(1, OLD_QUERIES + 1)}
    query_id = soup.register(QUERY)
    assert query_id == 24
    assert column(soup, query_id) == [48, 50]
    assert soup.invoke(query_id).to_table().to_pylist() == [{"a": 5, "b": 3}, {"a": 9, "b": 3}]
    assert {query_id: column(soup, query_id) for query_id in before} == before


def test_figure_3_a_new_tuple_probes_the_query_stem(soup: LocalPSoup) -> None:
    query_id = soup.register(QUERY)
    push(soup, (5, 3))
    assert soup.matches("r", OLD_TUPLES) == [6, query_id]  # a = 5 AND b > 2 is the sixth of the old queries
    assert column(soup, query_id) == [48, 50, 53]
    push(soup, (4, 3))
    assert soup.matches("r", OLD_TUPLES + 1) == [5]
    assert column(soup, query_id) == [48, 50, 53]


def test_the_results_are_the_same_in_both_orders_of_arrival(soup: LocalPSoup) -> None:
    other = LocalPSoup(verify="all")
    other.execute("CREATE STREAM r (a BIGINT, b BIGINT)")
    first = other.register(QUERY)
    tuples = {**dict.fromkeys(range(OLD_TUPLES), (0, 0)), **MATCHING, **NEARLY}
    for number in range(OLD_TUPLES):
        push(other, tuples[number])
    assert column(other, first) == column(soup, soup.register(QUERY))

"""Functions of the operator against DuckDB, which is given the same Python functions as its own: random statements.

tuples, queries, tuples, maintenance, tuples    arrival, covering and invocation all call the functions
row by row in DuckDB                            the error of a row is NULL there, and does not match
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from psoup.config import EngineConfig
from psoup.expressions import supplied_functions
from psoup.functions import MARK, function
from psoup.local import LocalPSoup
from psoup.sql.supplied_names import make_known
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import TIMES

ROWS, STATEMENTS = 300, 60


@function(["BIGINT", "DOUBLE"], "DOUBLE", cost=3)
def blend(n: pa.Array, x: pa.Array) -> pa.Array:
    """Mix two numbers."""
    return pc.subtract(pc.multiply(pc.cast(n, "double"), 0.5), x)


@function(["TEXT"], "TEXT")
def doubled(t: pa.Array) -> pa.Array:
    """Write a text twice."""
    return pa.array([text + text for text in t.to_pylist()], pa.string())


@function(["BIGINT"], "BIGINT", nulls=True)
def known(n: pa.Array) -> pa.Array:
    """Give NULL a value."""
    return pc.fill_null(n, -7)


@function(["BIGINT"], "BOOLEAN", cost=50)
def picky(n: pa.Array) -> pa.Array:
    """Take no multiples of five."""
    if any(value % 5 == 0 for value in n.to_pylist()):
        raise ValueError("a multiple of five")
    return pc.greater(n, 10)


FUNCTIONS = (blend, doubled, known, picky)
TERMS = (
    "blend(n, x) > {0}",
    "blend(n + 1, x) BETWEEN {0} AND {1}",
    "doubled(t) = '{2}{2}'",
    "doubled(t) LIKE '%{2}{2}%'",
    "known(n) = {0}",
    "known(n) <> known({1})",
    "picky(n)",
    "NOT picky(n)",
    "n > {0}",
    "t < '{2}'",
    "x IS NOT NULL",
    "length(doubled(doubled(t))) = {1}",
)
OUTPUTS = ("n", "blend(n, x)", "doubled(t)", "known(n)", "picky(n)", "doubled('{2}')", "n + known(n)")


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the same functions."""
    make_known([getattr(each, MARK) for each in FUNCTIONS])
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("PRAGMA disable_optimizer")
        connection.create_function("blend", lambda n, x: n * 0.5 - x, ["BIGINT", "DOUBLE"], "DOUBLE")
        connection.create_function("doubled", lambda t: t + t, ["VARCHAR"], "VARCHAR")
        null = {"null_handling": "special"}
        connection.create_function("known", lambda n: -7 if n is None else n, ["BIGINT"], "BIGINT", **null)  # type: ignore[arg-type]
        # What raises here is NULL there: a condition that is an error does not hold, and neither does its negation.
        connection.create_function("picky", lambda n: None if n % 5 == 0 else n > 10, ["BIGINT"], "BOOLEAN", **null)  # type: ignore[arg-type]
        yield connection
    supplied_functions.install(())


def rows(dice: random.Random) -> pa.Table:
    """Some tuples, with NULLs."""

    def some(values: Any) -> list[Any]:
        return [dice.choice([*values, None]) for _ in range(ROWS)]

    columns = {"n": some(range(-20, 40)), "x": some([0.0, 1.5, -3.25, 8.0]), "t": some(["", "a", "ab", "Ü"])}
    kinds = {"n": pa.int64(), "x": pa.float64(), "t": pa.string()}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})


def statement(dice: random.Random) -> tuple[str, str]:
    """A statement for PSoup, and the same for DuckDB, where `picky` is not called with NULL."""
    terms = dice.sample(TERMS, dice.randint(1, 3))
    where = dice.choice([" AND ", " OR "]).join(f"({term})" for term in terms)
    outputs = ", ".join(f"{text} AS o{place}" for place, text in enumerate(dice.sample(OUTPUTS, 3)))
    constants = dice.randint(-10, 30), dice.randint(0, 12), dice.choice(["a", "b", "ab"])
    text = f"SELECT {dice.choice(['', 'DISTINCT '])}{outputs} FROM tuples WHERE {where}".format(*constants)
    return text, text.replace("picky(n)", "CASE WHEN n IS NULL THEN NULL ELSE picky(n) END")


@pytest.mark.long
def test_supplied_functions_equal_those_of_duckdb(duck: duckdb.DuckDBPyConnection) -> None:
    dice = random.Random(13)
    soup = LocalPSoup(EngineConfig(chunk_rows=128, shape=EAGER), verify="all")
    soup.execute("CREATE STREAM tuples (n BIGINT, x DOUBLE, t TEXT)")
    pairs = [statement(dice) for _ in range(STATEMENTS)]
    batches = [rows(dice) for _ in range(3)]
    soup.push("tuples", batches[0])
    queries = [soup.register(ours) for ours, _ in pairs[::2]]
    soup.push("tuples", batches[1])
    soup.maintain()
    queries += [soup.register(ours) for ours, _ in pairs[1::2]]
    soup.push("tuples", batches[2])
    duck.register("tuples", pa.concat_tables(batches))
    found = 0
    for query, (ours, theirs) in zip(queries, [*pairs[::2], *pairs[1::2]], strict=True):
        wanted = Counter(duck.execute(theirs).fetchall())
        for time in range(2 * TIMES):
            table = (soup.ask(ours) if time % 2 else soup.invoke(query)).to_table()
            assert Counter(zip(*(column.to_pylist() for column in table.columns), strict=True)) == wanted, ours
        found += wanted.total()
    assert found > 5_000

"""Texts that are given for a number: refused in front of the log where the constant would be another number."""

from __future__ import annotations

import math

import duckdb
import pyarrow as pa
import pytest

from psoup.answer.ask import Questions
from psoup.config import EngineConfig
from psoup.errors import InvalidInput
from psoup.local import LocalPSoup
from psoup.plan.standing_query import StandingQuery
from psoup.sql import prepare
from psoup.sql.templates.ladder import ParameterValues, bind_values, gathered
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=256, piece_rows=64, delta_queries=64)
TYPES = {"d": "DOUBLE", "i": "BIGINT", "n": "DECIMAL(9,2)", "at": "TIMESTAMP", "day": "DATE", "ok": "BOOLEAN"}
BEYOND = "which lies beyond the greatest DOUBLE, 1.8e308; write '{}Infinity' for infinity"
FAR = "whose digits reach too far from the point"
AMOUNT = pa.decimal128(9, 2)
NINES = "9" * 400


def soup() -> LocalPSoup:
    made = LocalPSoup(SMALL)
    made.execute(f"CREATE STREAM s ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())})")
    made.push(
        "s", pa.table({"d": [1.5, math.inf, -math.inf, 0.0], "i": [0, 1, 2, 3], "n": pa.array([0, 1, 2, 3], AMOUNT)})
    )
    return made


def ask(made: LocalPSoup, sql: str, text: str) -> StandingQuery:
    """The question with a text for its parameter."""
    return Questions().bind(made.engine.snapshot(), sql, tenant=made.tenant, values=ParameterValues(rows=[(text,)]))


REFUSED = [
    ("d", "1e400", BEYOND.format("")),
    ("d", "-1e400", BEYOND.format("-")),
    ("d", "1e999999999", BEYOND.format("")),
    ("d", f"1e{10**30}", BEYOND.format("")),
    ("d", NINES, BEYOND.format("")),
    ("d", "1.8e308", BEYOND.format("")),
    ("i", "1e400", FAR),
    ("i", "1e-5000", FAR),
    ("i", f"1.{'0' * 1200}1", FAR),
    ("i", f"1e{10**30}", "whose exponent is too large for BIGINT"),
    ("n", "-1e400", FAR),
    ("n", "1e-5000", FAR),
    ("n", NINES, FAR),
    ("n", "9" * 309, "which is too large for a DOUBLE"),
    *[(name, text, "is NaN, which pandas has") for name in "din" for text in ("NaN", "-nan")],
    ("d", "nan7", "is NaN, which pandas has"),
    *[(name, "sNaN", f"but {TYPES[name]} is expected") for name in "din"],
    *[(name, "0x10", f"but {TYPES[name]} is expected") for name in TYPES],
    *[(name, "٣", f"but {TYPES[name]} is expected") for name in TYPES],
    *[(name, "1e400", f"but {TYPES[name]} is expected") for name in ("at", "day", "ok")],
]


@pytest.fixture(scope="module")
def made() -> LocalPSoup:
    return soup()


@pytest.mark.parametrize(("name", "text", "reason"), swept(REFUSED, fast=range(0, 39, 3)))
def test_a_text_that_would_become_another_number_is_refused(
    made: LocalPSoup, name: str, text: str, reason: str
) -> None:
    before = 300 if text in ("1e400", "NaN") else 0
    sql = f"SELECT d FROM s WHERE {name} >= ?"
    rows: list[tuple[str | None]] = [(None,)] * before + [(text,)]
    with pytest.raises(InvalidInput) as refused:
        made.register_many(sql, rows)
    message = str(refused.value)
    assert message.startswith(f"parameter 1 of query {before + 1} is ") and reason in message and len(message) < 250
    assert refused.value.facts["parameter"] == "1" and refused.value.facts["query"] == str(before + 1)
    with pytest.raises(InvalidInput, match="parameter 1 is "):
        ask(made, sql, text)
    assert made.queries() == []


TAKEN = [
    ("d", "1e308"),
    ("d", "1_000"),
    ("d", " 5 "),
    ("d", "Infinity"),
    ("d", "-inf"),
    ("d", "1e-5000"),
    ("d", "5e-324"),
]
TAKEN += [
    ("i", "1_000"),
    ("i", "1e2"),
    ("i", "-0"),
    ("i", f"1.{'0' * 900}"),
    ("i", "Infinity"),
    ("n", "1.005"),
    ("n", "1e-30"),
]


@pytest.mark.parametrize(("name", "text"), swept(TAKEN, fast=range(0, 14, 3)))
@pytest.mark.parametrize("operator", ["<", "<=", "=", ">=", ">"])
def test_other_texts_are_the_numbers_that_duckdb_reads(made: LocalPSoup, name: str, text: str, operator: str) -> None:
    (query,) = made.register_many(f"SELECT i FROM s WHERE {name} {operator} ?", [(text,)])
    table = "(VALUES (1.5::DOUBLE, 0), ('inf', 1), ('-inf', 2), (0.0, 3)) t(d, i)"
    column = "d" if name == "d" else "i::DOUBLE"
    expected = duckdb.execute(f"SELECT i FROM {table} WHERE {column} {operator} ?::DOUBLE", [text]).fetchall()
    assert made.invoke(query).to_table().column(0).to_pylist() == [row for (row,) in expected]


@pytest.mark.parametrize("text", ["1e400", "-1e400", "NaN", "1e-5000", "٣"])
@pytest.mark.parametrize("name", ["d", "i", "n"])
def test_a_log_that_holds_such_a_text_is_read_as_before(made: LocalPSoup, name: str, text: str) -> None:
    template = prepare(
        f"SELECT d FROM s WHERE {name} >= ?", lambda name: made.engine.snapshot().stream(name, made.tenant).spec
    )
    queries, rows = gathered(bind_values(template, ParameterValues(rows=[(text,)]), way="rows"))
    assert len(queries) == 1 and rows == [(text,)]


@pytest.mark.parametrize(
    "text",
    swept(["9" * 10**7, "0." + "0" * 10**7 + "1", "1." + "0" * 10**7, " " * 10**7 + "1", "1e" + "9" * 10**7], fast=1),
)
def test_a_text_of_ten_megabytes_is_refused_as_too_long(made: LocalPSoup, text: str) -> None:
    for name in ("d", "i"):
        with pytest.raises(InvalidInput, match=r"of 10,000,.* characters, but a number has at most 5,000"):
            ask(made, f"SELECT d FROM s WHERE {name} >= ?", text)

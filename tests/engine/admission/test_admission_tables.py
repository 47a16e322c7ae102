"""Definitions of tables that are refused, and the words of the refusals: they call a table a table."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidBatch,
    NotFound,
    PSoupError,
    ResourceExhausted,
    SqlError,
)
from psoup.events.commands import Push
from psoup.local import LocalPSoup


@pytest.fixture
def local() -> LocalPSoup:
    local = LocalPSoup()
    local.execute("CREATE TABLE ads (id BIGINT PRIMARY KEY, title TEXT)")
    local.execute("CREATE STREAM clicks (ad BIGINT)")
    return local


@pytest.mark.parametrize(
    ("statement", "kind", "wanted"),
    [
        ("DROP STREAM ads", FailedPrecondition, "'ads' is a table, not a stream; write DROP TABLE ads"),
        ("DROP TABLE clicks", FailedPrecondition, "'clicks' is a stream, not a table; write DROP STREAM clicks"),
        ("ALTER STREAM ads ADD x TEXT", FailedPrecondition, "'ads' is a table, not a stream; write ALTER TABLE ads"),
        ("ALTER TABLE clicks ADD x TEXT", FailedPrecondition, "'clicks' is a stream, not a table"),
        ("DROP TABLE add", NotFound, "add"),
        (
            "CREATE TABLE ads (x TEXT PRIMARY KEY)",
            AlreadyExists,
            "table 'ads' exists, and differs: it has no column x TEXT NOT NULL; it also has column id BIGINT NOT NULL;"
            " it also has column title TEXT; PRIMARY KEY is (id), not (x); drop it first",
        ),
        (
            "CREATE TABLE ads (id BIGINT, title TEXT NOT NULL, PRIMARY KEY (id)) HISTORY 1 DAY DELETED FOR 2 DAYS"
            " FIRST VERSION FROM ARRIVAL",
            AlreadyExists,
            "exists, and differs: its column is title TEXT, not title TEXT NOT NULL; HISTORY is 1 WEEK, not 1 DAY;"
            " DELETED FOR is 30 DAYS, not 2 DAYS; FIRST VERSION FROM is START, not ARRIVAL; drop it first",
        ),
        (
            "CREATE STREAM ads (id BIGINT, title TEXT)",
            AlreadyExists,
            "table 'ads' exists, and differs: it is a table, not a stream; drop it first",
        ),
        (
            "CREATE TABLE clicks (ad BIGINT PRIMARY KEY)",
            AlreadyExists,
            "stream 'clicks' exists, and differs: it is a stream, not a table; drop it first",
        ),
        ("CREATE TABLE t (x TEXT, PRIMARY KEY (y))", SqlError, "PRIMARY KEY: there is no column 'y'"),
        ("CREATE TABLE t (x TEXT)", SqlError, "a table needs a PRIMARY KEY"),
        ("CREATE TABLE t (x DOUBLE PRIMARY KEY)", SqlError, "'x' is DOUBLE, which cannot be a key"),
        ("CREATE TABLE t (x TEXT, _deleted BOOLEAN, PRIMARY KEY (x))", SqlError, "'_deleted' is reserved"),
        ("CREATE TABLE t (x TEXT PRIMARY KEY) RETENTION 1 DAY", SqlError, "a table has no RETENTION"),
        ("ALTER TABLE ads ADD title TEXT", AlreadyExists, "table 'ads' has a column 'title' of type TEXT already"),
        ("ALTER TABLE ads LATENESS 1 SECOND", FailedPrecondition, "table 'ads' is in system time"),
        ("ALTER TABLE ads AHEAD 1 SECOND", FailedPrecondition, "table 'ads' is in system time"),
        ("ALTER TABLE ads WATERMARK BY CLOCK", FailedPrecondition, "table 'ads' is in system time"),
    ],
)
def test_a_definition_is_refused(local: LocalPSoup, statement: str, kind: type[PSoupError], wanted: str) -> None:
    with pytest.raises(kind) as problem:
        local.execute(statement)
    assert wanted in str(problem.value)


def test_a_joined_table_stays(local: LocalPSoup) -> None:
    local.register("SELECT c.ad, a.title FROM clicks c JOIN ads a ON c.ad = a.id")
    with pytest.raises(FailedPrecondition) as problem:
        local.drop_stream("ads")
    assert "table 'ads' is used by 1 query" in str(problem.value)
    assert "or drop the table with CASCADE" in str(problem.value)
    local.drop_stream("ads", cascade=True)
    assert len(local.queries()) == 0


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ({"id": [1, None]}, "row 1: 'id' is NULL; it is the primary key of table 'ads'"),
        ({"title": ["x"]}, "column 'id' is missing and is NOT NULL"),
        ({"id": [1], "shop": ["x"]}, "the table has no column 'shop'; its columns are id, title"),
        ({"id": [1], "_first": [True]}, "the table has no column '_first'"),
        ({"id": [1], "_deleted": [1]}, "_deleted"),
    ],
)
def test_a_push_is_refused(local: LocalPSoup, rows: dict[str, list[object]], wanted: str) -> None:
    with pytest.raises(InvalidBatch) as problem:
        local.push("ads", pa.table(rows))
    assert wanted in str(problem.value)


def test_a_part_of_a_key_is_null() -> None:
    local = LocalPSoup()
    local.execute("CREATE TABLE t (a TEXT, b BIGINT, PRIMARY KEY (a, b))")
    with pytest.raises(InvalidBatch, match="row 0: 'b' is NULL; it is part of the primary key of table 't'"):
        local.push("t", pa.table({"a": ["x"], "b": pa.array([None], pa.int64())}))


def test_replaced_rows_are_counted(local: LocalPSoup) -> None:
    count: Callable[..., int] = lambda **rows: local.push("ads", pa.table(rows)).replaced  # noqa: E731
    assert count(id=[1, 2, 3]) == 0
    assert count(id=[1, 2, 1, 1]) == 2
    assert count(id=[1, 1], _deleted=[None, True]) == 1
    assert count(id=pa.array([], pa.int64())) == 0


def test_a_key_of_a_megabyte_is_refused() -> None:
    local = LocalPSoup()
    local.execute("CREATE TABLE t (a TEXT, b TEXT, n BIGINT, PRIMARY KEY (a, b))")
    local.push("t", pa.table({"a": ["x", "y" * 65_535], "b": ["", "z"]}))
    for a, size in (("y" * 2**20, "1,048,577"), ("y" * 65_536, "65,537")):
        with pytest.raises(InvalidBatch) as problem:
            local.push("t", pa.table({"a": ["x", a], "b": ["", "z"]}))
        assert f"row 1: its key has {size} bytes of text; 65,536 is the most in the primary key" in str(problem.value)
        assert problem.value.reason == "KEY_TOO_LONG"


def test_entries_are_charged_with_their_links_and_keys() -> None:
    """A table that fills the budget takes about the memory that it is charged, and answers go on. A drop frees all."""
    limit = 24 * 2**20
    local = LocalPSoup(config=EngineConfig(memory_bytes=limit))
    local.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
    rows = 16_384

    def push(number: int) -> None:
        ids = range(number * rows, number * rows + rows)
        local.push("t", pa.table({"id": ids, "n": [1] * rows}))

    full = next(number for number in range(1_000) if not _fits(push, number))
    with pytest.raises(ResourceExhausted) as problem:
        push(full)
    assert problem.value.reason == "MEMORY_BUDGET" and "this batch to table 't' needs" in str(problem.value)
    assert "drop tables, streams or queries, or lessen a HISTORY or RETENTION" in str(problem.value)
    state = next(iter(local.engine._streams.values()))
    assert state.versions is not None
    chunks = [entry.data for entry in local.engine.snapshot().streams["default", "t"].chunks]
    columns = sum(array.nbytes for chunk in chunks for column in chunk.columns for array in (column.values,))
    memory = columns + sum(chunk.times.nbytes for chunk in chunks) + state.versions.nbytes
    assert limit / 3 < memory < 1.25 * local.admission.reserved_bytes <= 1.25 * limit
    answer = local.ask("SELECT count(*) AS n FROM t")
    assert answer.to_table().to_pylist() == [{"n": full * rows}]
    local.drop_stream("t")
    assert local.admission.reserved_bytes == 0


def _fits(push: Callable[[int], None], number: int) -> bool:
    try:
        push(number)
    except ResourceExhausted:
        return False
    return True


def test_pushes_that_replace_rows_of_each_other_are_not_joined(local: LocalPSoup) -> None:
    """Each of several small pushes gets its own count, so they do not share an event then."""
    with pytest.raises(FailedPrecondition) as problem:
        local.submit(Push("ads", pa.table({"id": [1, 2, 1]}), whole=True))
    assert problem.value.reason == "NOT_WHOLE"
    assert local.submit(Push("ads", pa.table({"id": [1, 2, 3]}), whole=True)).sequence == 3

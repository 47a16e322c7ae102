"""CREATE STREAM: every option, every type, and what is refused with which words."""

from __future__ import annotations

import pytest

from psoup.errors import NotSupported, SqlError
from psoup.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    SECOND,
    TEXT,
    TIMESTAMP,
    Attribute,
    DataType,
    Retention,
    Schema,
    StreamSpec,
    decimal,
)
from psoup.sql import create_stream, drop_stream, first_word

DAY = 86_400 * SECOND


def test_all_options() -> None:
    spec = create_stream(
        "create stream Flights (id BIGINT NOT NULL, delay DOUBLE NULL, at TIMESTAMP not null)"
        " TIMESTAMP BY AT LATENESS 5 SECONDS IDLE AFTER 10 MINUTES RETENTION 30 DAYS;"
    )
    schema = Schema(
        (Attribute("id", BIGINT, False), Attribute("delay", DOUBLE), Attribute("at", TIMESTAMP, nullable=False))
    )
    assert spec == StreamSpec("Flights", schema, 2, 5 * SECOND, 600 * SECOND, Retention(duration=30 * DAY))


def test_nothing_but_columns_is_the_system_time_domain() -> None:
    spec = create_stream("CREATE STREAM s (a INT)")
    assert (spec.event_time, spec.lateness, spec.idle_after, spec.retention) == (False, 0, None, Retention())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("BOOLEAN", BOOLEAN),
        ("bool", BOOLEAN),
        ("BIGINT", BIGINT),
        ("INT", BIGINT),
        ("integer", BIGINT),
        ("SMALLINT", BIGINT),
        ("TINYINT", BIGINT),
        ("DOUBLE", DOUBLE),
        ("DOUBLE PRECISION", DOUBLE),
        ("FLOAT", DOUBLE),
        ("REAL", DOUBLE),
        ("TEXT", TEXT),
        ("VARCHAR", TEXT),
        ("VARCHAR(20)", TEXT),
        ("CHAR", TEXT),
        ("STRING", TEXT),
        ("TIMESTAMP", TIMESTAMP),
        ("DATETIME", TIMESTAMP),
        ("DATE", DATE),
        ("DECIMAL", decimal(18, 3)),
        ("DECIMAL(9)", decimal(9, 0)),
        ("NUMERIC(18, 18)", decimal(18, 18)),
        ("DEC(4,2)", decimal(4, 2)),
    ],
)
def test_types(written: str, expected: DataType) -> None:
    spec = create_stream(f"CREATE STREAM s (a {written} NOT NULL)")
    assert spec.schema.attributes == (Attribute("a", expected, nullable=False),)


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("1 MICROSECOND", 1),
        ("3 microseconds", 3),
        ("1 MILLISECOND", 1_000),
        ("7", 7 * SECOND),
        ("0.5 SECONDS", 500_000),
        ("1.5 MINUTES", 90 * SECOND),
        ("2 HOURS", 7_200 * SECOND),
        ("1 DAY", DAY),
        ("2 WEEKS", 14 * DAY),
        ("INTERVAL '1' DAY", DAY),
        ("INTERVAL '90 minutes'", 5_400 * SECOND),
        ("INTERVAL 2 HOUR", 7_200 * SECOND),
    ],
)
def test_durations(written: str, micros: int) -> None:
    spec = create_stream(f"CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t LATENESS {written} RETENTION {written}")
    assert (spec.lateness, spec.retention.duration) == (micros, micros)


def test_retention_in_rows_and_options_in_any_order() -> None:
    spec = create_stream("CREATE STREAM s (t TIMESTAMP) RETENTION 1000 ROWS LATENESS 3 TIMESTAMP BY t")
    assert spec.retention == Retention(rows=1000)
    assert (spec.time_attribute, spec.lateness) == (0, 3 * SECOND)


def test_quoted_and_reserved_names() -> None:
    spec = create_stream('CREATE STREAM "select" ("from" INT, "end" TEXT, "a b" DATE)')
    assert (spec.name, spec.schema.names) == ("select", ("from", "end", "a b"))


def test_an_archive_is_the_older_part_of_what_is_kept() -> None:
    spec = create_stream("CREATE STREAM s (a INT) RETENTION 7 DAYS ARCHIVE 400 DAYS")
    assert spec.retention == Retention(duration=407 * DAY, archive=400 * DAY)
    spec = create_stream("CREATE STREAM s (a INT) archive 900 rows retention 100 rows")
    assert spec.retention == Retention(rows=1000, archive=900)
    assert create_stream("CREATE STREAM s (archive INT, t TIMESTAMP) TIMESTAMP BY t LATENESS 3 ARCHIVE 5 RETENTION 1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE STREAM", "needs a name"),
        ("CREATE STREAM s", "needs its columns"),
        ("CREATE STREAM s ()", "a column needs a name and a type"),
        ("CREATE STREAM s (a)", "a"),
        ("CREATE STREAM s (a INT", "expected , or )"),
        ("CREATE STREAM s (a INT,)", "a column needs a name and a type"),
        ("CREATE STREAM s (a INT, A TEXT)", "'A' is declared twice"),
        ("CREATE STREAM s (_id INT)", "'_id' is reserved"),
        ("CREATE STREAM s (_Time INT)", "'_Time' is reserved"),
        ('CREATE STREAM "" (a INT)', "cannot name a stream"),
        (f"CREATE STREAM {'x' * 129} (a INT)", "cannot name a stream"),
        ("CREATE STREAM s (end INT)", "reserved word"),
        ("CREATE STREAM s (null INT)", "reserved word"),
        ("CREATE STREAM s (a INT PRIMARY KEY)", "PRIMARY KEY is not supported"),
        ("CREATE STREAM s (a DECIMAL(19,2))", "DECIMAL(19, 2) is out of range"),
        ("CREATE STREAM s (a DECIMAL(4,5))", "out of range"),
        ("CREATE STREAM s (a DECIMAL(0))", "out of range"),
        ("CREATE STREAM s (a DECIMAL(1,2,3))", "DECIMAL"),
        ("CREATE STREAM s (a JSON)", "the type JSON is not supported"),
        ("CREATE STREAM s (a INT[])", "not supported"),
        ("CREATE STREAM s (a frobnitz)", "'frobnitz' is not a type"),
        ("CREATE STREAM s (a INT) TIMESTAMP BY b", "there is no column 'b'"),
        ("CREATE STREAM s (a INT) TIMESTAMP BY a", "needs a TIMESTAMP"),
        ("CREATE STREAM s (a DATE) TIMESTAMP BY a", "needs a TIMESTAMP"),
        ("CREATE STREAM s (a INT) LATENESS 3", "LATENESS needs TIMESTAMP BY"),
        ("CREATE STREAM s (a INT) IDLE AFTER 3", "IDLE AFTER needs TIMESTAMP BY"),
        ("CREATE STREAM s (a INT) RETENTION 0 ROWS", "0 ROWS"),
        ("CREATE STREAM s (a INT) RETENTION 1.5 ROWS", "whole number"),
        ("CREATE STREAM s (a INT) RETENTION 0 DAYS", "longer than 0"),
        ("CREATE STREAM s (a INT) RETENTION -1 DAY", "cannot be negative"),
        ("CREATE STREAM s (a INT) RETENTION 9999999999 WEEKS", "out of range"),
        ("CREATE STREAM s (a INT) RETENTION 1 MONTH", "not a unit of time"),
        ("CREATE STREAM s (a INT) RETENTION 1 DAY RETENTION 2 DAYS", "given twice"),
        ("CREATE STREAM s (a INT) RETENTION", "needs a duration"),
        ("CREATE STREAM s (a INT) ARCHIVE 1 DAY", "ARCHIVE needs RETENTION"),
        ("CREATE STREAM s (a INT) RETENTION 1 DAY ARCHIVE 9 ROWS", "count in the same way"),
        ("CREATE STREAM s (a INT) RETENTION 9 ROWS ARCHIVE 1 DAY", "count in the same way"),
        ("CREATE STREAM s (a INT) RETENTION 9 ROWS ARCHIVE 0 ROWS", "0 ROWS"),
        ("CREATE STREAM s (a INT) RETENTION 1 DAY ARCHIVE 0 DAYS", "ARCHIVE must be longer than 0"),
        ("CREATE STREAM s (a INT) RETENTION 1 DAY ARCHIVE", "ARCHIVE needs a duration"),
        ("CREATE STREAM s (a INT) RETENTION 4e18 ROWS ARCHIVE 4e18 ROWS", "together are out of range"),
        ("CREATE STREAM s (a INT) FOO", "expected TIMESTAMP BY"),
        ("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t IDLE AFTER 0", "longer than 0"),
        ("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t LATENESS 0.0000001", "whole number of microseconds"),
        ("CREATE TABLE s (a INT)", "a table needs a PRIMARY KEY"),
        ("CREATE", "CREATE needs STREAM or TABLE"),
        ("SELECT 1", "CREATE STREAM is needed here"),
        ("DROP STREAM s", "CREATE STREAM is needed here, not DROP"),
    ],
)
def test_refused(text: str, says: str) -> None:
    with pytest.raises(SqlError) as caught:
        create_stream(text)
    assert says in caught.value.problem
    assert caught.value.excerpt.endswith("^")


def test_too_many_columns() -> None:
    columns = ", ".join(f"c{i} INT" for i in range(1_001))
    with pytest.raises(SqlError, match="at most 1,000 columns"):
        create_stream(f"CREATE STREAM s ({columns})")


def test_unsupported_type_names_those_that_are() -> None:
    with pytest.raises(NotSupported) as caught:
        create_stream("CREATE STREAM s (a INT, b UUID)")
    assert (caught.value.line, caught.value.column) == (1, 27)
    assert "BOOLEAN, BIGINT" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("  create\nstream s (a int)", "CREATE"),
        ("-- a note\n /* and /* a nested */ one */select 1", "SELECT"),
        ("-- only a note", ""),
        ("/* never closed SELECT", ""),
        (";", ""),
        ("", ""),
    ],
)
def test_the_first_word_says_what_a_statement_is(text: str, word: str) -> None:
    assert first_word(text) == word


def test_drop_stream_names_a_stream() -> None:
    assert (drop_stream("drop stream S;").stream, drop_stream("DROP STREAM s").lenient) == ("S", False)
    asked = drop_stream('DROP STREAM IF EXISTS "my stream"')
    assert (asked.stream, asked.lenient, asked.cascade) == ("my stream", True, False)
    asked = drop_stream("drop stream if exists cascade cascade;")
    assert (asked.stream, asked.lenient, asked.cascade) == ("cascade", True, True)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("DROP VIEW s", 6, "only streams and tables can be dropped"),
        ("DROP STREAM", 12, "DROP STREAM needs a name"),
        ("DROP STREAM s, t", 14, "',' is not expected here"),
        ("DROP STREAM select", 13, "reserved word"),
        ("DROP STREAM s RESTRICT", 15, "'RESTRICT' is not expected here"),
        ("DROP STREAM CASCADE s", 21, "'s' is not expected here"),
        ("SELECT 1", 1, "DROP STREAM is needed here, not SELECT"),
    ],
)
def test_what_drop_stream_refuses(text: str, column: int, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        drop_stream(text)
    assert caught.value.column == column

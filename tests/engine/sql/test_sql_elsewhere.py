"""Statements of other systems: taken as DuckDB takes them, or refused with the words to write instead."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.errors import FailedPrecondition, SqlError
from psoup.expressions.functions import names
from psoup.local import LocalPSoup
from psoup.sql.aggregates import AGGREGATES
from psoup.sql.elsewhere.columns import COLUMNS
from psoup.sql.elsewhere.functions import ARGUMENTS, FUNCTIONS
from psoup.sql.elsewhere.phrases import OF_CREATE, OF_SELECT
from psoup.sql.elsewhere.signs import SIGNS
from psoup.sql.elsewhere.statements import CREATED, STATEMENTS
from psoup.work.clock import VirtualClock
from psoup_testing.histories.other_dialects import REFUSED, TAKEN
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database

TRADES = [("a", 1, 0.5, "2026-07-01 00:00:00"), ("b", 2, 1.5, "2026-07-01 10:00:00"), (None, None, None, "2026-07-02")]

LEADING = {
    "SELECT k, count(*) FROM trades WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k EMIT CHANGES;": (
        "tumble",
        "BEGIN",
    ),
    "SELECT * FROM trades EMIT CHANGES": (
        "register",
        "without EMIT",
        "invoke",
        "watch",
    ),
    "SELECT * FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(at), INTERVAL '10' MINUTES))": (
        "tumble(",
        "GROUP BY",
    ),
    "SELECT * FROM trades t JOIN trades u WITHIN 10 MINUTES ON t.k = u.k": (
        "BETWEEN",
        "RANGE",
        "INTERVAL",
    ),
    "SELECT * FROM trades FOR SYSTEM_TIME AS OF now()": ("as_of",),
    "SELECT `k` FROM trades": ('"',),
    "SELECT TOP 5 k FROM trades": ("LIMIT",),
    "SELECT k FROM trades FETCH FIRST 5 ROWS ONLY": ("LIMIT",),
    "SELECT count(DISTINCT k, v) FROM trades": (
        "||",
        "concat",
        "GROUP BY",
    ),
    "SELECT DATE(at) FROM trades": (
        "CAST",
        "::DATE",
        "date_trunc",
    ),
    "SELECT DATE_TRUNC(hour, at) FROM trades": ("'hour'",),
    "SELECT k || v AS a, CONCAT(k, '-', v) AS b, k + 'x' AS c FROM trades": ("||",),
    "SELECT DATE_FORMAT(at, '%Y') FROM trades": ("strftime",),
    "SELECT UNIX_TIMESTAMP(at) FROM trades": ("epoch",),
    "SELECT k FROM trades WHERE REGEXP_LIKE(k, '^a')": (
        "regexp_matches",
        "~",
    ),
    "SELECT cnt(*) FROM trades": ("count",),
    "SELECT k FROM trades WHERE at > 1782900000": (
        "to_timestamp",
        "epoch",
        "TIMESTAMP '",
    ),
    "SELECT * FROM public.trades": (
        "leave",
        "trades",
    ),
}
"""Statements that are taken, or whose refusal contains one of the words."""

TYPED = [
    "SELECT TUMBLE_START(at, INTERVAL '1' HOUR), count(*) FROM trades GROUP BY TUMBLE(at, INTERVAL '1' HOUR)",
    "SELECT * FROM trades WHERE at > NOW() - INTERVAL 1 HOUR",
    "SELECT * FROM trades WHERE mz_now() <= at",
    "SELECT k, last(v) FROM trades SAMPLE BY 1h",
    "CREATE TABLE t (a INT)",
    "SUBSCRIBE TO trades",
    'SELECT k FROM trades WHERE k = "a"',
    "SELECT k FROM trades WHERE v && 1",
    'SELECT k FROM trades WHERE k LIKE "a%"',
    "SELECT k FROM trades LIMIT 5, 10",
    "SELECT k FROM trades LIMIT ALL",
    "SELECT k, row_number() OVER (PARTITION BY k ORDER BY at) FROM trades",
    "SELECT k, (SELECT max(v) FROM trades) FROM trades",
    "SELECT * FROM (SELECT k FROM trades) t",
    "SELECT array_agg(k) FROM trades",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM trades",
    "SELECT k FROM trades WHERE v NOTNULL",
    "SELECT k FROM trades WHERE v is not distinct from 1",
    "SELECT IIF(v > 1, 'a', 'b') FROM trades",
    "SELECT ISNULL(v, 0) FROM trades",
    "SELECT CAST(v AS INT) AS a, CAST(v AS STRING) AS b, v::text AS c FROM trades",
    "SELECT at + INTERVAL '1 day 2 hours' FROM trades",
    "SELECT at + INTERVAL 90 SECOND FROM trades",
    "SELECT at::date AS d FROM trades",
    "SELECT DATE_TRUNC('hour', at) AS h, DATE_TRUNC('HOUR', at) AS i FROM trades",
    "SELECT SUBSTRING(k FROM 1 FOR 2) AS a, SUBSTR(k, 1, 1) AS b, MID(k, 1, 2) AS c FROM trades",
    "SELECT k FROM trades WHERE CONTAINS(k, 'a')",
    "SELECT k FROM trades WHERE k @@ 'a'",
    "SELECT k FROM trades -- a comment",
    "SELECT k FROM trades;",
    "select K from TRADES where V > 1",
    "SELECT trades.k FROM trades",
    "SELECT k FROM trades WHERE",
    "SELECT k v x FROM trades",
    "SELECT kk FROM trades",
    "SELECT k FROM trades GROUP BY k ORDER BY count(*)",
    "SELECT v/2 AS a, v%2 AS b, v^2 AS c FROM trades",
    "SELECT -v AS a, +v AS b, - -v AS c FROM trades",
    "SELECT 'a' FROM trades",
    "SELECT NULL AS n FROM trades",
    "SELECT k FROM trades WHERE true",
    "SELECT k FROM trades WHERE 'true'",
    "SELECT k FROM trades WHERE k",
    "SELECT k FROM trades WHERE v > 'abc'",
    "SELECT k FROM trades WHERE at = '2026-07-01'",
    "SELECT k FROM trades WHERE at > '01.07.2026'",
    "SELECT k FROM trades WHERE at BETWEEN '2026-07-01' AND '2026-07-02'",
    "SELECT k FROM trades ORDER BY random()",
    "SELECT k FROM trades BEGIN (NOW - 1 HOUR) END NOW",
    "SELECT k FROM trades BEGIN (NOW() - INTERVAL '1 hour')",
    "SELECT k FROM trades LAST 1 HOUR",
    "SELECT k FROM trades [1 HOUR]",
    "SELECT k FROM trades WHERE v > :min",
    "SELECT k FROM trades WHERE v > @min",
    "SELECT k FROM trades WHERE k = 'it's'",
    "SELECT k FROM trades WHERE k = E'a\\'b'",
    "SELECT k FROM trades WHERE k COLLATE NOCASE = 'A'",
    "SELECT a.k FROM trades a LEFT JOIN trades b ON a.k = b.k",
    "SELECT a.k FROM trades a JOIN trades b",
    "EXPLAIN SELECT k FROM trades",
    "DESCRIBE trades",
    "DROP TABLE trades",
    "   ",
    "hello",
    "SELECT k FROM trades WHERE v = 1 = 1",
    "SELECT k FROM trades WHERE v IN ()",
    "SELECT k FROM trades WHERE v > 1)",
    "SELECT “k” FROM trades",
    "SELECT k\u00a0FROM trades",
    "SELECT k FROM trades WHERE v ≥ 1",
]
"""Statements that are taken with DuckDB's answer, or refused with a place."""


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    local = LocalPSoup(clock=VirtualClock(1_793_000_000_000_000))
    local.execute("CREATE STREAM trades (k TEXT, v BIGINT, x DOUBLE, at TIMESTAMP)")
    times = [datetime.datetime.fromisoformat(row[3]) for row in TRADES]
    columns = [pa.array([row[at] for row in TRADES]) for at in range(3)]
    local.push("trades", pa.table([*columns, pa.array(times, pa.timestamp("us"))], ["k", "v", "x", "at"]))
    return local


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = empty_database()
    connection.execute('CREATE TABLE trades (k TEXT, v BIGINT, x DOUBLE, "at" TIMESTAMP)')
    connection.executemany("INSERT INTO trades VALUES (?, ?, ?, ?)", TRADES)
    yield connection
    drop_database(connection)


def answer(soup: LocalPSoup, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a SELECT, in any order; the error of any other statement."""
    ask = soup.execute if statement.startswith(("CREATE", "DROP")) else soup.ask
    table = ask(statement).to_table()  # type: ignore[union-attr]
    return in_order(list(zip(*(column.to_pylist() for column in table.columns), strict=True)))


def expected(duck: duckdb.DuckDBPyConnection, statement: str) -> list[tuple[Any, ...]] | None:
    """DuckDB's rows in any order; None if it refuses the statement. A column named at stands in quotes there."""
    words = ['"at"' if word == "at" else word for word in split_words(statement)]
    try:
        return in_order(duck.execute("".join(words)).fetchall())
    except duckdb.Error:
        return None


def split_words(statement: str) -> list[str]:
    """The words of a statement and what is between them."""
    words = [""]
    for character in statement:
        if (character.isalnum() or character in "_\"'") == (words[-1][-1:].isalnum() or words[-1][-1:] in "_\"'"):
            words[-1] += character
        else:
            words.append(character)
    return words


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(plain, row)) for row in rows), key=repr)


def plain(value: Any) -> Any:
    """A value in the form that both systems have: DATE as its midnight, without zones."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    return datetime.datetime.combine(value, datetime.time()) if isinstance(value, datetime.date) else value


def refusal(soup: LocalPSoup, statement: str) -> str:
    """The message of a refusal, with its place and without the excerpt of the statement."""
    with pytest.raises(SqlError) as refused:
        answer(soup, statement)
    first, *others = str(refused.value).split("\n")
    assert first.startswith("line "), first
    assert ", column " in first, first
    assert any(line.strip() == "^" for line in others), others
    return "\n".join([first, refused.value.hint])


@pytest.mark.parametrize("system", REFUSED)
def test_a_refusal_says_what_to_write(soup: LocalPSoup, system: str) -> None:
    silent = {
        statement: message
        for statement, words in REFUSED[system].items()
        if words.lower() not in (message := refusal(soup, statement)).lower()
    }
    assert not silent


@pytest.mark.parametrize("system", TAKEN)
def test_what_has_one_meaning_is_taken(soup: LocalPSoup, duck: duckdb.DuckDBPyConnection, system: str) -> None:
    for statement in TAKEN[system]:
        want = expected(duck, statement)
        assert want is None or answer(soup, statement) == want, statement
        answer(soup, statement)


@pytest.mark.parametrize("statement", LEADING)
def test_a_statement_is_taken_or_its_refusal_leads_on(soup: LocalPSoup, statement: str) -> None:
    try:
        answer(soup, statement)
    except SqlError:
        message = refusal(soup, statement).lower()
        assert any(word.lower() in message for word in LEADING[statement]), message


@pytest.mark.parametrize("statement", TYPED)
def test_a_typed_statement_has_duckdbs_answer_or_a_place(
    soup: LocalPSoup, duck: duckdb.DuckDBPyConnection, statement: str
) -> None:
    try:
        got = answer(soup, statement)
    except SqlError:
        refusal(soup, statement)
        return
    except FailedPrecondition:  # DROP TABLE of a stream
        return
    want = expected(duck, statement)
    assert want is None or "now()" in statement.lower() or got == want


@pytest.mark.parametrize(
    ("statement", "other"),
    [
        ("SELECT `k` FROM `trades` t WHERE t.`v` > 1", 'SELECT "k" FROM "trades" t WHERE t."v" > 1'),
        ("SELECT TOP 2 k FROM trades", "SELECT k FROM trades LIMIT 2"),
        ("SELECT DISTINCT TOP 1 v FROM trades ORDER BY v", "SELECT DISTINCT v FROM trades ORDER BY v LIMIT 1"),
        ("SELECT k FROM trades FETCH FIRST 2 ROWS ONLY", "SELECT k FROM trades LIMIT 2"),
        ("SELECT k FROM trades FETCH NEXT ROW ONLY", "SELECT k FROM trades LIMIT 1"),
        ("SELECT k FROM trades OFFSET 1 ROW FETCH NEXT 1 ROWS ONLY", "SELECT k FROM trades LIMIT 1 OFFSET 1"),
        ("SELECT * EXCEPT (v, x) FROM trades", "SELECT * EXCLUDE (v, x) FROM trades"),
        ("SELECT date(at) AS d FROM trades", "SELECT CAST(at AS DATE) AS d FROM trades"),
        ("SELECT k FROM trades WHERE date(at) = '2026-07-02'", "SELECT k FROM trades WHERE at >= '2026-07-02'"),
        ("SELECT N'a' AS a FROM trades", "SELECT 'a' AS a FROM trades"),
    ],
)
def test_idioms_are_other_words_for_the_same(soup: LocalPSoup, statement: str, other: str) -> None:
    assert answer(soup, statement) == answer(soup, other)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT TOP 1 k FROM trades LIMIT 2", "'LIMIT' is not expected here"),
        ("SELECT k FROM trades FETCH FIRST 2 ROWS WITH TIES", "FETCH needs the form FETCH FIRST n ROWS ONLY"),
        ("SELECT k FROM trades FETCH FIRST 2", "FETCH needs the form FETCH FIRST n ROWS ONLY"),
        ("SELECT k FROM trades FETCH FIRST -2 ROWS ONLY", "line 1, column"),
        ("SELECT `k FROM trades", "this quoted name is never closed"),
        (
            "SELECT a.k FROM trades a JOIN trades b USING (k, a.v)",
            "a column in USING has no source before it, as 'a' is here",
        ),
        ("SELECT k FROM trades WHERE v > 1 −1", "'−' is not a sign of SQL"),
        ("SELECT k\u200b FROM trades", "the invisible character U+200B is not a sign of SQL"),
    ],
)
def test_idioms_that_are_not_whole_are_refused(soup: LocalPSoup, statement: str, message: str) -> None:
    assert message in refusal(soup, statement)


def test_columns_may_have_the_words_of_other_systems() -> None:
    soup = LocalPSoup(clock=VirtualClock())
    words = ["emit", "top", "sample", "within", "settings", "final", "latest", "key", "window", "minus", "`“`"]
    soup.execute(f"CREATE STREAM s ({', '.join(f'{word} BIGINT' for word in words)})")
    soup.push("s", pa.table({word.strip("`"): pa.array([at], pa.int64()) for at, word in enumerate(words)}))
    for at, word in enumerate(words):
        assert answer(soup, f"SELECT {word} changes, s.{word} FROM s WHERE {word} = {at} ORDER BY {word}") == [(at, at)]


def test_a_word_of_sql_that_names_a_column_is_to_be_quoted() -> None:
    soup = LocalPSoup(clock=VirtualClock())
    soup.execute('CREATE STREAM s ("from" BIGINT, "values" BIGINT, "end" BIGINT)')
    for word in ("from", "end"):
        assert f'quote it if it is a name: "{word}"' in refusal(soup, f"SELECT {word} FROM s WHERE {word} > 1")
    assert 'quote it if it is a name: "values"' in refusal(soup, "CREATE STREAM t (values BIGINT)")
    assert "quote" not in refusal(soup, 'SELECT "end" FROM s WHERE "end" >')


def test_names_of_the_table_are_not_functions_of_psoup() -> None:
    assert not FUNCTIONS.keys() & {*names(), *AGGREGATES}
    assert {name for name, _ in ARGUMENTS} <= {*names(), *AGGREGATES}
    assert all(name == name.lower() for name in FUNCTIONS)


def test_advice_names_only_functions_that_psoup_has() -> None:
    advice = [*FUNCTIONS.values(), *ARGUMENTS.values(), *COLUMNS.values(), *SIGNS.values(), *STATEMENTS.values()]
    advice += [*CREATED.values(), *(phrase.advice for phrase in [*OF_SELECT.values(), *OF_CREATE.values()])]
    called = {name for text in advice for name in re.findall(r"\b([a-z_]\w*)\(", text)}
    python = {"register", "watch", "copy", "push", "invoke", "describe", "streams", "queries", "unregister"}
    syntax = {"distinct", "now", "if", "condition"}
    assert called - {*names(), *AGGREGATES} <= python | syntax

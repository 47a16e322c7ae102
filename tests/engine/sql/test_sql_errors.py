"""Errors of statements: their text and place; the corpus of bad texts; limits and how fast they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from psoup.errors import InvalidInput, NotSupported, SqlError
from psoup.local import LocalPSoup
from psoup.model import StreamSpec
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, standing_query, window_clause
from psoup.work.clock import VirtualClock
from psoup_testing.engines.within import in_calls, within
from psoup_testing.suite.sweeps import swept

T = TypeVar("T")

SPEC = create_stream("CREATE STREAM trades (price DOUBLE, vol BIGINT, sym TEXT, t TIMESTAMP, d DATE, f BOOLEAN)")
SLOWEST = 10.0
"""Seconds of processor time that any text may take, because loops inside C are not counted."""
MOST_CALLS, CALLS_A_CHARACTER = 2_000_000, 200
"""Calls of functions that any text may need, and those for each of its characters. Texts need a quarter of it."""


def bounded(text: str, work: Callable[[], T]) -> T:
    """The result of `work`, which reads a text. Its calls may grow with the text, but not faster."""
    limit = MOST_CALLS + CALLS_A_CHARACTER * len(text)
    return within(SLOWEST, lambda: in_calls(limit, work))


def lookup(name: str) -> StreamSpec | None:
    return SPEC if name.lower() == "trades" else None


def bind(text: str) -> StandingQuery:
    return standing_query(text, lookup, ("trades", "quotes"))


def refuse(text: str) -> SqlError:
    def refused() -> SqlError:
        with pytest.raises(SqlError) as caught:
            bind(text)
        return caught.value

    return bounded(text, refused)


def test_an_error_has_line_column_excerpt_and_hint() -> None:
    error = refuse("SELECT vol,\n       prise\nFROM trades")
    assert (error.line, error.column, error.reason) == (2, 8, "UNKNOWN_COLUMN")
    assert error.excerpt == "       prise\n       ^"
    assert error.hint == "did you mean 'price'?"
    assert str(error) == (
        "line 2, column 8: stream 'trades' has no column 'prise'\n       prise\n       ^\nhint: did you mean 'price'?"
    )
    assert isinstance(error, InvalidInput)
    assert error.facts == {"line": "2", "column": "8"}


@pytest.mark.parametrize(
    ("text", "column", "problem", "hint", "reason"),
    [
        ("SELECT vol FROM trade", 17, "no stream or table 'trade'", "did you mean 'trades'?", "UNKNOWN_STREAM"),
        ("SELECT vol FROM nothing", 17, "no stream or table 'nothing'", "are trades, quotes", "UNKNOWN_STREAM"),
        ("SELECT volume FROM trades", 8, "no column 'volume'", "did you mean 'vol'?", "UNKNOWN_COLUMN"),
        ("SELECT zzz FROM trades", 8, "no column 'zzz'", "its columns are price, vol", "UNKNOWN_COLUMN"),
        ("SELECT x.vol FROM trades", 8, "'x' is not in FROM", "", "UNKNOWN_COLUMN"),
        ("SELECT sqroot(vol) FROM trades", 8, "no function 'sqroot'", "did you mean 'sqrt'?", "UNKNOWN_FUNCTION"),
        (
            "SELECT levenshtein(sym, 'a') FROM trades",
            8,
            "no function 'levenshtein'",
            "docs/sql.md has all functions; an operator adds others: psoup serve --functions",
            "UNKNOWN_FUNCTION",
        ),
        (
            "SELECT date_add(t, INTERVAL 1 DAY) FROM trades",
            8,
            "date_add() is not supported",
            "write t + INTERVAL '1' DAY",
            "NOT_SUPPORTED",
        ),
        ("SELECT vol FROM trades WHERE vol > 'x'", 30, "'x'", "", "INVALID_VALUE"),
        ("SELECT vol FROM trades WHERE sym > 3", 30, "cannot compare TEXT with BIGINT", "", "TYPE_MISMATCH"),
        ("SELECT vol FROM trades WHERE t > 3", 30, "cannot compare TIMESTAMP with BIGINT", "", "TYPE_MISMATCH"),
        ("SELECT sqrt(sym) FROM trades", 8, "sqrt needs a number, not TEXT", "", "TYPE_MISMATCH"),
        ("SELECT vol FROM trades WHERE sym", 30, "WHERE needs a condition", "", "TYPE_MISMATCH"),
        ("SELECT length(sym, 1) FROM trades", 8, "length takes 1 argument, not 2", "", "WRONG_ARGUMENTS"),
        ("SELECT sym + 1 FROM trades", 8, "+ needs numbers", "", "TYPE_MISMATCH"),
        ("SELECT extract(yeer FROM t) FROM trades", 16, "no part 'yeer'", "", "UNKNOWN_PART"),
        ("SELECT CAST(t AS BIGINT) FROM trades", 13, "cannot cast TIMESTAMP to BIGINT", "", "TYPE_MISMATCH"),
        ("SELECT CAST(vol AS blob) FROM trades", 13, "type", "the types are BOOLEAN", "NOT_SUPPORTED"),
        ("SELECT vol FROM trades WHERE sym LIKE 'a!' ESCAPE '!'", 30, "ends with its escape", "", "INVALID_INPUT"),
        ("SELECT vol FROM trades WHERE sym LIKE 'a' ESCAPE '!!'", 30, "one ASCII character", "", "INVALID_INPUT"),
        ("SELECT vol FROM trades WHERE vol = vol = f", 30, "what belongs together", "put parentheses", "SQL"),
        ("SELECT vol FROM trades WHERE vol BETWEEN 1 AND 2 LIKE 'a'", 30, "what belongs together", "put", "SQL"),
        ("SELECT vol FROM trades WHERE NOT vol = NOT f", 44, "what belongs together", "put parentheses", "SQL"),
        ("SELEC vol FROM trades", 1, "cannot begin with 'SELEC'", "did you mean 'SELECT'?", "SQL"),
        ("SELECT vol FROM trades WERE vol > 1", 29, "'vol' is not expected here", "did you mean 'WHERE'?", "SQL"),
        ("SELECT vol FORM trades WHERE vol > 1", 17, "'trades' is not expected here", "", "SQL"),
        ("SELECT vol FROM trades ORDR BY vol", 29, "'BY' is not expected here", "", "SQL"),
        ("SELECT vol FROM trades LIMT 3", 29, "'3' is not expected here", "did you mean 'LIMIT'?", "SQL"),
        ("SELECT vol FROM trades WHERE end > 3", 30, "missing before 'end'", 'quote it if it is a name: "end"', "SQL"),
        ("SELECT vol FROM trades BEGIN (NOW) BEGIN (NOW)", 36, "BEGIN is given twice", "each has its own in", "SQL"),
        ("SELECT vol FROM trades WHERE vol >", 35, "a value or a name is missing at the end", "", "SQL"),
        ("SELECT vol,, sym FROM trades", 12, "an item of the list is missing here", "", "SQL"),
        ("SELECT vol FROM", 16, "a stream's name is missing at the end of the statement", "", "SQL"),
        ("SELECT (vol FROM trades", 13, "", "", "SQL"),
        ("SELECT vol) FROM trades", 11, "')' closes nothing", "", "SQL"),
        ("SELECT vol FROM trades WHERE vol BETWEEN 1 OR 2", 44, "BETWEEN needs AND", "", "SQL"),
        ("SELECT CASE vol END FROM trades", 17, "CASE needs WHEN", "", "SQL"),
        ("SELECT CASE WHEN f 1 END FROM trades", 20, "WHEN needs THEN", "", "SQL"),
        ("SELECT vol FROM trades WHERE vol IN ()", 30, "IN needs a list of values", "", "SQL"),
        ("SELECT vol FROM trades WHERE vol IN 3", 30, "IN needs a list of values", "", "SQL"),
        ("SELECT 12abc FROM trades", 10, "'12' runs into what follows it", "", "SQL"),
        ("SELECT 0x1F FROM trades", 9, "'0' runs into what follows it", "", "SQL"),
        ("SELECT vol FROM trades WHERE ! f", 30, "'!' is not an operator", "write NOT", "SQL"),
        ("SELECT 1e999 FROM trades", 8, "too large for a DOUBLE", "", "SQL"),
        ("SELECT t + INTERVAL '1' FORTNIGHT FROM trades", 21, "not a unit of time", "", "SQL"),
        ("SELECT t + INTERVAL vol DAY FROM trades", 21, "an INTERVAL needs a constant", "", "SQL"),
        ("SELECT vol FROM trades WHERE (vol > 3", 38, ") is missing at the end of the statement", "", "SQL"),
        ("SELECT vol FROM trades LIMIT 5 BEGIN (NOW - 5) LIMIT 5", 48, "LIMIT is given twice", "", "SQL"),
        ('SELECT vol FROM trades WHERE sym = "IBM"', 36, "no column 'IBM'", "single quotes: 'IBM'", "UNKNOWN_COLUMN"),
    ],
)  # fmt: skip
def test_errors_point_at_the_place(text: str, column: int, problem: str, hint: str, reason: str) -> None:
    error = refuse(text)
    assert problem in error.problem
    assert hint in error.hint
    assert (error.line, error.column, error.reason) == (1, column, reason)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the statement is empty"),
        ("   \n\t ", "the statement is empty"),
        (";", "the statement is empty"),
        (";;", "the statement is empty"),
        ("-- nothing", "the statement is empty"),
        ("/* nothing */", "the statement is empty"),
        ("SELECT 'it''s FROM trades", "this text is never closed"),
        ('SELECT "vol FROM trades', "this quoted name is never closed"),
        ("SELECT vol /* FROM trades", "this comment is never closed"),
        ("SELECT vol /* a /* b */ FROM trades", "this comment is never closed"),
        (r"SELECT E'a\' FROM trades", "this text is never closed"),
        (r"SELECT E'a\\\' FROM trades", "this text is never closed"),
        ("SELECT $$a' $ $A$ FROM trades", "this text is never closed"),
        ("SELECT $a$ $A$ $$ FROM trades", "this text is never closed"),
        (r"SELECT E'\xe9' FROM trades", "the bytes of this text are not UTF-8"),
        (r"SELECT E'a\0' FROM trades", "a NUL character cannot be part of a text"),
        ("SELECT E'\ud800\\n' FROM trades", "half of a surrogate pair"),
        ("SELECT $1$$ FROM trades", ""),
        ("SELECT vol FROM trades; SELECT 1", "one statement at a time"),
        ("SELECT vol FROM trades; DROP TABLE trades; --", "one statement at a time"),
        ("SELECT vol FROM trades WHERE sym = 'a\0b'", "a NUL character"),
        ("SELECT '\ud800' FROM trades", "half of a surrogate pair"),
        ("SELECT '\udfff\udfff' FROM trades", "half of a surrogate pair"),
        ("CREATE STREAM s (a INT)", "a SELECT is needed here"),
        ("BEGIN (NOW)", "BEGIN is not supported"),
        ("42", "cannot begin with '42'"),
        ("\u00a0SELECT", ""),
        ("SELECT `vol FROM trades", "this quoted name is never closed"),
        ("SELECT \\ FROM trades", ""),
        ("SELECT {{ vol }} FROM trades", "a list or a struct is not supported"),
        ("'SELECT'", "cannot begin with"),
    ],
)
def test_bad_texts(text: str, problem: str) -> None:
    assert problem in refuse(text).problem


def test_what_looks_bad_but_is_not() -> None:
    odd = "SELECT ';--/*' AS a, \"vol\" /* ' \" -- */ FROM trades -- ' /*\n WHERE sym <> ')';"
    assert [output.name for output in bind(odd).select] == ["a", "vol"]
    assert bind("SELECT vol/**/FROM trades;;; ").select[0].name == "vol"
    assert (
        bind("SELECT '''' AS q FROM trades WHERE sym = '''((((' -- ((((").clause == "FROM trades WHERE sym = '''(((('"
    )
    assert bind("SELECT '\U0001f600' AS smile, sym AS \"größe\" FROM trades").select[1].name == "größe"
    assert bind("SELECT $$;'--$$ AS a, E';\\'/*' b, $t$ $$ $t$ c FROM trades").select[2].name == "c"
    assert bind(r"SELECT vol FROM trades WHERE sym = E'\x41\'b'").clause == "FROM trades WHERE sym = 'A''b'"
    assert bind("SELECT vol FROM trades WHERE sym = 'SELECT; DROP'").select[0].name == "vol"


@pytest.mark.parametrize(
    "text",
    swept(
        [
            "SELECT vol FROM trades WHERE " + "(" * 5_000 + "f" + ")" * 5_000,
            "SELECT vol FROM trades WHERE " + "NOT " * 5_000 + "f",
            "SELECT " + "-" + " -" * 5_000 + "vol FROM trades",
            "SELECT " + "CASE WHEN " * 2_000 + "f" + " THEN 1 END" * 2_000 + " FROM trades",
            "SELECT " + "abs(" * 60 + "vol" + ")" * 60 + " FROM trades",
            "SELECT " + "[" * 5_000 + " FROM trades",
            "SELECT vol FROM trades BEGIN " + "(" * 5_000 + "NOW" + ")" * 5_000,
            "SELECT vol FROM trades WHERE t > t" + " + INTERVAL '1' DAY" * 2_000,
            "SELECT vol" + " + 1" * 10_000 + " FROM trades",
            "SELECT vol" + "::TEXT" * 8_000 + " FROM trades",
            "SELECT a" + ".a" * 20_000 + " FROM trades",
            "SELECT vol" + "[1]" * 10_000 + " FROM trades",
        ],
        fast=(0, 1, 3),
    ),
    ids=lambda text: text[:40],
)
def test_deep_nesting_is_refused_quickly(text: str) -> None:
    problem = refuse(text).problem
    assert "nests deeper" in problem or "not supported" in problem or "at most two parts" in problem


@pytest.mark.parametrize("levels", [20, 40])
def test_reasonable_nesting_is_fine(levels: int) -> None:
    bind("SELECT vol FROM trades WHERE " + "(" * levels + "f" + ")" * levels)
    bind("SELECT vol FROM trades WHERE " + "NOT " * levels + "f")
    bind("SELECT " + "(vol + " * levels + "1" + ")" * levels + " AS c FROM trades")
    bind("SELECT vol FROM trades WHERE " + "(f AND (f OR " * (levels // 2) + "f" + "))" * (levels // 2))


@pytest.mark.long
def test_a_list_has_at_most_ten_thousand_values() -> None:
    values = ", ".join(["1"] * 10_001)
    assert "IN lists at most 10,000 values" in refuse(f"SELECT vol FROM trades WHERE vol IN ({values})").problem


def test_limits() -> None:
    assert "longer than 65,536 bytes" in refuse("SELECT vol FROM trades -- " + "x" * 65_536).problem
    assert "longer than 65,536 bytes" in refuse("SELECT '" + "é" * 40_000 + "' FROM trades").problem
    assert "longer than 65,536 bytes" in refuse("x" * 1_000_000).problem
    assert "longer than" in refuse(f"SELECT vol FROM trades WHERE vol IN ({', '.join(['12345'] * 100_000)})").problem
    conjuncts = " AND ".join(f"vol > {i}" for i in range(501))
    assert "501 conditions" in refuse(f"SELECT vol FROM trades WHERE {conjuncts}").problem
    assert "501 conditions" in refuse(f"SELECT vol FROM trades WHERE ({conjuncts})").problem


@pytest.mark.parametrize(
    "where",
    swept(
        [
            " AND ".join(f"vol <> {i}" for i in range(500)),
            " OR ".join(f"vol = {i}" for i in range(4_500)),
            " OR ".join(f"vol + {i} = 1" for i in range(3_000)),
            " OR ".join(f"sym LIKE '%{i}'" for i in range(2_500)),
            "vol IN (" + ",".join(str(3 * i) for i in range(9_900)) + ")",
            "vol NOT IN (" + ",".join(str(3 * i) for i in range(9_900)) + ")",
            "sym IN (" + ", ".join(f"'{i}'" for i in range(7_000)) + ")",
            "vol + 1 IN (" + ", ".join(f"{i}.5" for i in range(7_000)) + ")",
            "sym LIKE '" + "%_" * 450 + "'",
            "sym LIKE '" + "a" * 60_000 + "%'",
            "sym = '" + "x" * 65_000 + "'",
            "vol < " + "9" * 300,
            "price = 0." + "0" * 60_000 + "1",
            "upper('" + "x" * 60_000 + "') = sym",
            " OR ".join(f"(vol = {i} AND price = {i})" for i in range(1_500)),
            "NOT (" + " OR ".join(f"(vol = {i} AND price = {i})" for i in range(400)) + ")",
        ],
        fast=(0, 8, 12),
    ),
    ids=lambda where: where[:24],
)
def test_large_conditions_are_bound_quickly(where: str) -> None:
    query = bounded(where, lambda: bind(f"SELECT vol FROM trades WHERE {where}"))
    assert len(query.factors) <= 500


@pytest.mark.parametrize(
    "text",
    swept(
        [
            "SELECT vol FROM trades, trades " + "JOIN IN " * 200 + "u",
            "SELECT " + "1, " * 1_000 + "vol FROM trades, trades " + "JOIN IN " * 200 + "u",
            "SELECT vol FROM trades WHERE vol " + "IN (vol " * 48,
            "SELECT " + "interval " * 3_000 + " FROM trades",
            "SELECT vol FROM " + "(" * 48 + "trades" + ")" * 48,
            "SELECT vol FROM trades " + "PIVOT (" * 45,
            "SELECT vol FROM trades WHERE " + "EXISTS (SELECT " * 45,
            "SELECT " + "trim(both " * 45 + " FROM trades",
            "SELECT " + "CAST(" * 45 + "vol" + " AS INT)" * 44 + " FROM trades",
        ],
        fast=(2, 4, 5, 6),
    ),
    ids=lambda text: text[:40],
)
def test_alternatives_inside_alternatives_do_not_double_the_work(text: str) -> None:
    refuse(text)


def test_a_long_line_is_shown_around_the_caret() -> None:
    error = refuse("SELECT " + "vol + " * 40 + "volt" + " + vol" * 40 + " FROM trades")
    shown, caret = error.excerpt.split("\n")
    assert len(shown) <= 102
    assert shown[len(caret) - 1 :].startswith("volt")
    assert shown.startswith("...")
    assert shown.endswith("...")


def test_a_hint_never_suggests_the_word_that_was_written() -> None:
    for text in ("CREATE STREAM s AS (SELECT vol FROM trades) LATENESS 5 MINUTES", "ALTER STREAM s RETENTION 3 DAYS"):
        soup = LocalPSoup(clock=VirtualClock())
        soup.execute("CREATE STREAM trades (vol BIGINT)")
        soup.execute("CREATE STREAM s (vol BIGINT)")
        with pytest.raises(SqlError) as caught:
            soup.execute(text)
        assert "did you mean" not in caught.value.hint
    assert refuse("SELECT vol FROM trades LIMT 3").hint == "did you mean 'LIMIT'?"


def test_a_hint_that_lists_streams_says_that_there_are_more() -> None:
    names = [f"n{at}" for at in range(14)]
    with pytest.raises(SqlError) as caught:
        standing_query("SELECT v FROM zzz", lookup, names)
    assert caught.value.hint == f"the streams and tables are {', '.join(names[:12])}, ..."


def test_create_alone_is_not_a_feature_that_is_missing() -> None:
    with pytest.raises(SqlError, match="CREATE needs STREAM or TABLE") as caught:
        create_stream("CREATE")
    assert (caught.value.column, caught.value.reason) == (7, "SQL")


def test_a_name_with_few_equal_letters_is_not_suggested() -> None:
    with pytest.raises(SqlError) as caught:
        standing_query("SELECT v FROM orders", lookup, ("trades",))
    assert caught.value.hint == "the streams and tables are trades"


def test_a_statement_in_the_place_of_a_select_is_sent_elsewhere() -> None:
    assert "psoup sql" in refuse("CREATE STREAM s (a INT)").hint


def test_control_characters_do_not_reach_the_terminal() -> None:
    error = refuse("SELECT '\x1b[31m', nope FROM trades")
    assert "\x1b" not in str(error)


def test_windows_are_guarded_too() -> None:
    for text in ("BEGIN " + "(" * 1_000, "BEGIN ('", "BEGIN (NOW); END (NOW)", "BEGIN (\0)", "BEGIN (NOW - ?)"):
        with pytest.raises(SqlError):
            window_clause(text)


@pytest.mark.parametrize(
    "text", ["SELECT vol a b FROM trades", "SELECT , vol FROM trades", "SELECT 1 FROM trades BEGIN 'x'"]
)
def test_only_reserved_words_need_quotes(text: str) -> None:
    assert "quote it" not in refuse(text).hint


def test_the_caret_stands_below_wide_characters() -> None:
    error = refuse("SELECT vol FROM trades WHERE sym = '日本e\u0301' AND zz > 3")
    assert error.column == 47
    assert error.excerpt.splitlines()[1].index("^") == 46 + 2 - 1


def test_if_not_exists_is_asked_for_elsewhere() -> None:
    with pytest.raises(NotSupported, match="IF NOT EXISTS") as caught:
        create_stream("CREATE STREAM IF NOT EXISTS s (a BIGINT)")
    assert "--if-not-exists" in caught.value.hint
    assert create_stream("CREATE STREAM if (a BIGINT)").name == "if"


def test_begin_stands_before_end() -> None:
    with pytest.raises(SqlError, match="'BEGIN' is not expected here") as caught:
        window_clause("END (NOW) BEGIN (START)")
    assert caught.value.hint == "BEGIN stands before END"


@pytest.mark.parametrize(
    "interval",
    [
        "INTERVAL '{}' DAY",
        "INTERVAL '1' DAY '{}' DAY",
        "INTERVAL '{}'",
        "INTERVAL '-{}.5 DAY'",
        "time_bucket(INTERVAL '{}' DAY, t)",
    ],
)
@pytest.mark.parametrize("digit", ["9", " ", "1 day "])
def test_an_interval_of_many_characters_takes_no_longer_than_another_text(interval: str, digit: str) -> None:
    """sqlglot took it apart in the square of its length: three minutes for this one, in which no other thread ran."""
    error = refuse(f"SELECT vol FROM trades WHERE t > NOW - {interval.format(digit * (60_000 // len(digit)))}")
    assert len(error.message) < 1_000

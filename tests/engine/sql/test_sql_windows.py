"""BEGIN and END: text to window and back, and the windows that are refused."""

from __future__ import annotations

import pytest

from psoup.errors import SqlError
from psoup.model import NOW, SECOND, START, Anchor, Bound, StreamSpec, WindowClause
from psoup.plan.canonical import describe_duration, describe_window, written_window
from psoup.sql import create_stream, standing_query, window_clause

SPEC = create_stream("CREATE STREAM s (a INT, b BOOLEAN)")
JULY = 1_372_636_800 * SECOND


def lookup(name: str) -> StreamSpec | None:
    return SPEC if name == "s" else None


def back(micros: int) -> Bound:
    return Bound(Anchor.NOW, offset=micros)


def rows(count: int) -> Bound:
    return Bound(Anchor.NOW, rows=count)


def at(micros: int) -> Bound:
    return Bound(Anchor.ABSOLUTE, at=micros)


@pytest.mark.parametrize(
    ("text", "begin", "end", "kind", "canonical"),
    [
        ("", START, NOW, "landmark", "BEGIN (START) END (NOW)"),
        ("BEGIN (START)", START, NOW, "landmark", "BEGIN (START) END (NOW)"),
        ("END (NOW)", START, NOW, "landmark", "BEGIN (START) END (NOW)"),
        ("END now()", START, NOW, "landmark", "BEGIN (START) END (NOW)"),
        ("begin (now - 10) end (now)", back(10 * SECOND), NOW, "sliding", "BEGIN (NOW - 10 SECONDS) END (NOW)"),
        ("BEGIN (NOW - 1)", back(SECOND), NOW, "sliding", "BEGIN (NOW - 1 SECOND) END (NOW)"),
        ("BEGIN NOW - 15 MINUTES", back(900 * SECOND), NOW, "sliding", "BEGIN (NOW - 15 MINUTES) END (NOW)"),
        ("BEGIN NOW - INTERVAL '1' DAY", back(86_400 * SECOND), NOW, "sliding", "BEGIN (NOW - 1 DAY) END (NOW)"),
        ("BEGIN (NOW - 0.25)", back(250_000), NOW, "sliding", "BEGIN (NOW - 250 MILLISECONDS) END (NOW)"),
        ("BEGIN (NOW - 0)", back(0), NOW, "sliding", "BEGIN (NOW) END (NOW)"),
        ("BEGIN (NOW - 20) END (NOW - 10)", back(20 * SECOND), back(10 * SECOND), "sliding",
         "BEGIN (NOW - 20 SECONDS) END (NOW - 10 SECONDS)"),
        ("BEGIN (NOW - 100 ROWS)", rows(100), NOW, "sliding", "BEGIN (NOW - 100 ROWS) END (NOW)"),
        ("BEGIN (NOW - 9 ROWS) END (NOW - 1 ROW)", rows(9), rows(1), "sliding",
         "BEGIN (NOW - 9 ROWS) END (NOW - 1 ROWS)"),
        ("END (NOW - 5 ROWS)", START, rows(5), "landmark", "BEGIN (START) END (NOW - 5 ROWS)"),
        ("BEGIN (1372636800)", at(JULY), NOW, "landmark", "BEGIN (TIMESTAMP '2013-07-01 00:00:00') END (NOW)"),
        ("BEGIN TIMESTAMP '2013-07-01' END (TIMESTAMP '2013-07-01 00:00:00.5')", at(JULY), at(JULY + 500_000),
         "snapshot", "BEGIN (TIMESTAMP '2013-07-01 00:00:00') END (TIMESTAMP '2013-07-01 00:00:00.500000')"),
        ("BEGIN (DATE '2013-07-01')", at(JULY), NOW, "landmark", "BEGIN (TIMESTAMP '2013-07-01 00:00:00') END (NOW)"),
        ("BEGIN ((0)) END (0)", at(0), at(0), "snapshot",
         "BEGIN (TIMESTAMP '1970-01-01 00:00:00') END (TIMESTAMP '1970-01-01 00:00:00')"),
        ("END (TIMESTAMP '9999-12-31 23:59:59')", START, at(253_402_300_799 * SECOND), "snapshot",
         "BEGIN (START) END (TIMESTAMP '9999-12-31 23:59:59')"),
        ("BEGIN (TIMESTAMP '0001-01-01')", at(-62_135_596_800 * SECOND), NOW, "landmark",
         "BEGIN (TIMESTAMP '0001-01-01 00:00:00') END (NOW)"),
        ("BEGIN (NOW - 60) END (TIMESTAMP '2013-07-01')", back(60 * SECOND), at(JULY), "sliding",
         "BEGIN (NOW - 1 MINUTE) END (TIMESTAMP '2013-07-01 00:00:00')"),
        ("BEGIN (START) END (START)", START, START, "snapshot", "BEGIN (START) END (START)"),
    ],
)  # fmt: skip
def test_windows(text: str, begin: Bound, end: Bound, kind: str, canonical: str) -> None:
    query = standing_query(f"SELECT a FROM s {text}", lookup)
    assert query.window == WindowClause(begin, end)
    assert query.window.kind == kind
    assert describe_window(query.window) == canonical
    assert window_clause(canonical) == WindowClause(begin, end)
    if text:
        assert window_clause(text) == query.window


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM s AS x WHERE a > 1 ORDER BY a LIMIT 3 BEGIN (NOW - 10) END (NOW)",
        "SELECT a FROM s x BEGIN (NOW - 10) END (NOW)",
        "SELECT a FROM s BEGIN (NOW - 10) END (NOW)",
        "SELECT a FROM s WHERE CASE WHEN b THEN a > 1 ELSE FALSE END BEGIN (NOW - 10) END (NOW)",
        "SELECT CASE WHEN b THEN 1 END x FROM s ORDER BY CASE WHEN b THEN 2 END BEGIN (NOW - 10) END (NOW)",
        "SELECT a FROM s WHERE b BEGIN (NOW - 10) END (NOW)",
    ],
)
def test_begin_and_end_are_never_names(text: str) -> None:
    query = standing_query(text, lookup)
    assert query.window == WindowClause(back(10 * SECOND), NOW)
    without_begin = standing_query(text.replace("BEGIN (NOW - 10) ", ""), lookup)
    assert without_begin.window == WindowClause()


@pytest.mark.parametrize(
    ("text", "says", "column"),
    [
        ("BEGIN (NOW - 5) END (NOW - 10)", "END comes before BEGIN", 22),
        ("BEGIN (TIMESTAMP '2014-01-01') END (TIMESTAMP '2013-01-01')", "END comes before BEGIN", 37),
        ("BEGIN (10) END (5)", "END comes before BEGIN", 17),
        ("BEGIN (NOW) END (START)", "END (START) comes before BEGIN", 18),
        ("BEGIN (NOW - 0 ROWS)", "0 ROWS is not a window", 14),
        ("END (NOW - 0 ROWS)", "0 ROWS is not a window", 12),
        ("BEGIN (NOW - 1.5 ROWS)", "whole number of rows", 14),
        ("BEGIN (NOW - 5 ROWS) END (NOW - 5 ROWS)", "holds no rows", 8),
        ("BEGIN (NOW - 5 ROWS) END (NOW - 9 ROWS)", "holds no rows", 8),
        ("BEGIN (NOW) END (NOW - 9 ROWS)", "holds no rows", 8),
        ("BEGIN (NOW - 5 ROWS) END (NOW - 10)", "rows or time, not both", 8),
        ("BEGIN (NOW - 10) END (NOW - 5 ROWS)", "rows or time, not both", 23),
        ("BEGIN (TIMESTAMP '2013-01-01') END (NOW - 5 ROWS)", "rows or time, not both", 37),
        ("BEGIN (NOW - 5 ROWS) END (TIMESTAMP '2013-01-01')", "rows or time, not both", 8),
        ("BEGIN (NOW - -5)", "cannot be negative", 14),
        ("BEGIN (-5)", "cannot be negative", 8),
        ("BEGIN (NOW + 5)", "after NOW", 12),
        ("BEGIN (NOW - 1 MONTH)", "not a unit of time", 14),
        ("BEGIN (NOW - 5 SECNDS)", "not a unit of time", 14),
        ("BEGIN (NOW - 0.0000001)", "whole number of microseconds", 14),
        ("BEGIN (NOW - 1e40)", "out of range", 14),
        ("BEGIN (NOW - 99999999999999999999 DAYS)", "out of range", 14),
        ("BEGIN (NOW - x)", "needs a number of seconds", 14),
        ("BEGIN (99999999999999)", "not a time in seconds", 8),
        ("BEGIN ('2013-01-01')", "a text is not a bound", 8),
        ("BEGIN (TIMESTAMP 'soon')", "'soon'", 8),
        ("BEGIN (TIMESTAMP)", "needs a text", 17),
        ("BEGIN ()", "BEGIN needs", 8),
        ("BEGIN", "BEGIN needs", 6),
        ("BEGIN (NOW", "expected )", 11),
        ("BEGIN (NOW))", "closes nothing", 12),
        ("BEGIN (NOW) END (NOW) BEGIN (NOW)", "not expected", 23),
        ("END (NOW) BEGIN (NOW)", "not expected", 11),
        ("WHERE a > 1", "a window begins with BEGIN or END", 1),
        ("", "the statement is empty", 1),
    ],
)
def test_refused(text: str, says: str, column: int) -> None:
    with pytest.raises(SqlError) as caught:
        window_clause(text)
    assert says in caught.value.problem
    assert caught.value.column == column


def test_a_bound_is_given_once() -> None:
    with pytest.raises(SqlError, match="BEGIN"):
        standing_query("SELECT a FROM s BEGIN (NOW - 1) BEGIN (NOW - 2)", lookup)


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0, "0 SECONDS"), (1, "1 MICROSECOND"), (1_500_000, "1500 MILLISECONDS"), (SECOND, "1 SECOND"),
     (7 * 86_400 * SECOND, "1 WEEK"), (2 * 86_400 * SECOND, "2 DAYS")],
)  # fmt: skip
def test_durations_in_words(micros: int, text: str) -> None:
    assert describe_duration(micros) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("BEGIN (NOW - 7 DAYS)", "BEGIN (NOW - 7 DAYS) END (NOW)"),
        ("begin (now - 1 week) end (now - 60 minutes)", "BEGIN (NOW - 1 WEEK) END (NOW - 60 MINUTES)"),
        ("BEGIN (NOW - 90)", "BEGIN (NOW - 90 SECONDS) END (NOW)"),
        ("BEGIN (NOW - 1.5 HOUR)", "BEGIN (NOW - 1.5 HOURS) END (NOW)"),
        ("BEGIN NOW - INTERVAL '1' DAY", "BEGIN (NOW - 1 DAY) END (NOW)"),
        ("BEGIN (NOW - 0 DAYS)", "BEGIN (NOW) END (NOW)"),
        ("BEGIN (NOW - 5 ROWS)", "BEGIN (NOW - 5 ROWS) END (NOW)"),
        (f"BEGIN (NOW - 1.{'0' * 25} SECONDS)", "BEGIN (NOW - 1 SECOND) END (NOW)"),
    ],
)
def test_people_see_a_window_as_it_was_written(text: str, shown: str) -> None:
    window = window_clause(text)
    assert written_window(window) == shown
    assert window_clause(shown) == window
    assert describe_window(window) == describe_window(window_clause(describe_window(window)))


def test_windows_of_one_length_are_equal() -> None:
    week, days = window_clause("BEGIN (NOW - 1 WEEK)"), window_clause("BEGIN (NOW - 7 DAYS)")
    assert (week, hash(week), describe_window(week)) == (days, hash(days), describe_window(days))

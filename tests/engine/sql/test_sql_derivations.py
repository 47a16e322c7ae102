"""CREATE STREAM … AS: the definition of a derived stream, its text, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from psoup.derivation import INSTANT, Derivation, DerivedSource, StreamOperator
from psoup.errors import NotSupported, SqlError
from psoup.model import BIGINT, DOUBLE, TEXT, TIMESTAMP, Attribute, Retention, Schema, StreamSpec
from psoup.sql import (
    bound_derivation,
    columns_statement,
    create_statement,
    create_stream,
    standing_query,
    stays,
    with_derivation,
)
from psoup.sql.derive_options import MB

HOUR = 3_600_000_000
STREAMS = {
    spec.name: spec
    for spec in map(
        create_stream,
        (
            "CREATE STREAM t (k TEXT, v BIGINT, p DOUBLE)",
            "CREATE STREAM e (k TEXT, v BIGINT, at TIMESTAMP) TIMESTAMP BY at RETENTION 3 HOURS",
            "CREATE STREAM f (k TEXT, w BIGINT, at TIMESTAMP) TIMESTAMP BY at",
            "CREATE STREAM idle (k TEXT, at TIMESTAMP) TIMESTAMP BY at IDLE AFTER 1 MINUTE",
            "CREATE STREAM last (k TEXT, at TIMESTAMP) TIMESTAMP BY at RETENTION 10 ROWS",
            "CREATE TABLE c (k TEXT PRIMARY KEY, n TEXT)",
        ),
    )
}


def lookup(name: str) -> StreamSpec | None:
    return STREAMS.get(name.lower())


def derive(rest: str) -> StreamSpec:
    return create_stream(f"CREATE STREAM x {rest}", new=True, lookup=lookup, names=list(STREAMS))


def test_a_selection_becomes_the_columns_and_the_derivation_of_a_stream() -> None:
    spec = derive("AS ISTREAM (SELECT k, v + 1 AS w FROM t WHERE v > 3) FROM NOW RETENTION 1 DAY ARCHIVE 2 DAYS")
    assert spec.declared == (Attribute("k", TEXT), Attribute("w", BIGINT))
    assert spec.schema.attributes[-1] == Attribute(INSTANT, TIMESTAMP, hidden=True)
    assert spec.time_attribute == 2
    assert spec.retention == Retention(72 * HOUR, archive=48 * HOUR)
    select = "SELECT k, v + 1 AS w FROM t WHERE v > 3"
    assert spec.derived == Derivation(select, (DerivedSource("t", 0, 3, 0),), event_time=False, from_now=True)


@pytest.mark.parametrize(
    "rest",
    [
        "AS (SELECT * FROM t)",
        "(a, b) AS (SELECT k, p FROM t)",
        'AS (SELECT k AS "a b", 1 AS one FROM t) FROM NOW',
        "AS (SELECT e.k, f.w FROM e JOIN f ON e.k = f.k) RETENTION 10 ROWS",
        "AS (SELECT e.k, c.n FROM e JOIN c AS OF e ON c.k = e.k WHERE c.n <> 'x')",
        "AS (SELECT k FROM (SELECT k FROM t) AS inner_rows)",
    ],
)
def test_the_text_of_a_definition_gives_the_definition_again(rest: str) -> None:
    spec = derive(rest)
    assert spec.derived is not None
    assert create_stream(create_statement(spec), new=True, lookup=lookup) == spec
    assert with_derivation(create_stream(columns_statement(spec)), spec.derived) == spec


@pytest.mark.parametrize("operator", StreamOperator)
def test_the_options_stand_in_the_text_of_a_definition(operator: StreamOperator) -> None:
    derived = Derivation(
        "SELECT k FROM t",
        (),
        event_time=False,
        operator=operator,
        every=90_000_000,
        lag_limit=HOUR,
        state_limit=64 * MB,
    )
    text = create_statement(with_derivation(create_stream("CREATE STREAM x (k TEXT) RETENTION 1 DAY"), derived))
    options = "EVERY 90 SECONDS FROM START LAG AT MOST 1 HOUR STATE AT MOST 64 MB RETENTION 1 DAY"
    assert text == f"CREATE STREAM x (k) AS {operator.value} (SELECT k FROM t) {options}"
    again = derive(text.partition(" (k) ")[2]).derived
    assert again is not None
    assert (again.operator, again.every, again.lag_limit, again.state_limit) == (operator, 90_000_000, HOUR, 64 * MB)


def test_an_operator_with_state_needs_a_bound_or_a_limit() -> None:
    for operator in (
        "DISTINCT k FROM f",
        "DISTINCT e.k FROM e, f WHERE e.k = f.k",
        "k FROM e UNION SELECT k FROM f",
        "k FROM e WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.k = e.k)",
        "f.k, e.v FROM f LEFT JOIN e ON f.k = e.k",
        "count(*) AS n FROM f",
    ):
        with pytest.raises(SqlError, match="'f' never leave it") as refused:
            derive(f"AS (SELECT {operator})")
        assert refused.value.reason == "UNBOUNDED_STATE"
        assert "f [RANGE 1 DAY]" in str(refused.value)
        limited = derive(f"AS (SELECT {operator}) STATE AT MOST 2 MB").derived
        assert limited is not None
        assert limited.state_limit == 2 * MB
        assert limited.width_of(0) is None


def test_a_window_that_is_always_empty_is_refused() -> None:
    absence = "k FROM e WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.k = e.k AND f.at <= e.at + INTERVAL 4 HOURS)"
    for select in ("k FROM e END (NOW - 4 HOURS)", absence):
        with pytest.raises(SqlError, match="leave after 3 HOURS, before they come in: their window ends 4 HOURS"):
            derive(f"AS (SELECT {select}) STATE AT MOST 1 MB")


def test_an_absence_with_a_band_is_read_at_its_end_and_needs_no_window() -> None:
    """A tuple is needed until the end of the band. If a partner may leave first, its window counts."""
    band = "g.k = f.k AND g.at >= f.at - INTERVAL 1 HOUR AND g.at < f.at + INTERVAL 2 HOURS"
    absence = f"f.k FROM f WHERE NOT EXISTS (SELECT 1 FROM f g WHERE {band})"
    ways = {
        absence: ((2 * HOUR - 1, 0), (2 * HOUR - 1, 3 * HOUR - 1), 0),
        f"f.k, g.w FROM f LEFT JOIN f g ON {band}": ((2 * HOUR - 1, 0), (2 * HOUR - 1, 3 * HOUR - 1), 0),
        absence.replace("NOT ", ""): ((0, 0), (2 * HOUR - 1, 3 * HOUR - 1), 0),
        absence.replace("NOT ", "").replace(
            "FROM f WHERE", "FROM f [BEGIN (NOW - 9 HOURS) END (NOW - 3 HOURS)] f WHERE"
        ): (
            (3 * HOUR, 0),
            (3 * HOUR, 4 * HOUR),
            0,
        ),
        absence.replace("FROM f WHERE", "FROM f [RANGE 5 HOURS] f WHERE"): ((0, 0), (5 * HOUR, None), None),
        absence.replace("FROM f WHERE", "FROM e f WHERE"): ((2 * HOUR - 1, 0), (2 * HOUR - 1, 3 * HOUR - 1), 0),
        absence.replace("FROM f g", "FROM e g"): ((2 * HOUR - 1, 0), (None, 3 * HOUR), None),
    }
    for select, expected in ways.items():
        derived = derive(f"AS (SELECT {select}) STATE AT MOST 1 MB").derived
        assert derived is not None
        assert tuple(stays(bound_derivation(derived, lookup))) == expected, select


def test_rows_as_they_are_need_no_bound() -> None:
    """The rows of a source without a window never leave, and no pump keeps them."""
    assert derive("AS (SELECT k FROM e UNION ALL SELECT k FROM f)").derived is not None
    assert derive("AS DSTREAM (SELECT k FROM f)").derived is not None


def test_a_pump_with_state_needs_a_tuple_until_it_has_left() -> None:
    ways = {
        "DISTINCT k FROM e": 3 * HOUR + 1,
        "DISTINCT k FROM f [RANGE 1 HOUR] f": HOUR + 1,
        "k FROM f [BEGIN (NOW - 2 HOURS) END (NOW - 1 HOUR)] f": HOUR,
        "k FROM f": 0,
    }
    for select, width in ways.items():
        derived = derive(f"AS (SELECT {select})").derived
        assert derived is not None
        assert derived.sources[0].width == width


@pytest.mark.parametrize(
    ("rest", "widths"),
    [
        ("AS (SELECT k FROM e) EVERY 1 HOUR", (4 * HOUR,)),
        ("AS (SELECT k FROM e [RANGE 5 HOURS]) EVERY 1 HOUR", (4 * HOUR,)),
        ("AS (SELECT count(*) AS n FROM t [BEGIN (NOW - 2 HOURS) END (NOW - 1 HOUR)]) EVERY 1 HOUR", (3 * HOUR,)),
        ("AS (SELECT k FROM t [ROWS 5]) EVERY 1 HOUR", (None,)),
        ("AS (SELECT k FROM last [RANGE 1 HOUR]) EVERY 1 HOUR", (2 * HOUR,)),
        ("AS (SELECT e.k FROM e LEFT JOIN c ON e.k = c.k) EVERY 1 HOUR", (4 * HOUR, HOUR)),
        ("AS (SELECT e.k FROM e LEFT JOIN c AS OF e ON e.k = c.k) EVERY 1 HOUR", (4 * HOUR, 169 * HOUR)),
        ("AS DSTREAM (SELECT n FROM c) EVERY 1 HOUR", (HOUR,)),
        ("AS RSTREAM (SELECT k FROM e ORDER BY v LIMIT 3) EVERY 1 HOUR", (4 * HOUR,)),
        ("AS (SELECT k FROM e UNION SELECT k FROM f [RANGE 1 HOUR]) EVERY 1 HOUR", (4 * HOUR, 2 * HOUR)),
    ],
)
def test_with_every_a_tuple_stays_until_the_instant_after_it_has_left(rest: str, widths: tuple[int | None]) -> None:
    spec = derive(rest)
    assert spec.derived is not None
    assert spec.derived.every == HOUR
    assert tuple([source.width for source in spec.derived.sources]) == widths
    assert create_stream(create_statement(spec), new=True, lookup=lookup) == spec


def test_the_domain_of_tables_alone_is_that_of_their_times() -> None:
    for rest, event_time in (("SELECT n FROM c", False), ("SELECT c.n FROM e JOIN c ON e.k = c.k", True)):
        derived = derive(f"AS ({rest}) EVERY 1 HOUR").derived
        assert derived is not None
        assert derived.event_time == event_time


def test_a_tuple_of_a_join_stays_as_long_as_its_window_and_its_retention_say() -> None:
    ways = {
        "e, f WHERE e.k = f.k": (3 * HOUR, None),
        "e [RANGE 1 HOUR], f [RANGE 2 HOURS] WHERE e.k = f.k": (HOUR, 2 * HOUR),
        "e [RANGE 5 HOURS], f WHERE e.k = f.k": (3 * HOUR, None),
        "e JOIN c AS OF e ON e.k = c.k": (3 * HOUR, None),
    }
    for origin, widths in ways.items():
        derived = derive(f"AS (SELECT e.v FROM {origin})").derived
        assert derived is not None
        of_table = [0 if source.name == "c" else width for source, width in zip(derived.sources, widths, strict=True)]
        assert [source.width for source in derived.sources] == of_table
        assert stays(bound_derivation(derived, lookup)).widths == widths


def test_the_columns_stay_those_of_the_create_after_a_source_has_new_ones() -> None:
    derived = derive("AS (SELECT * FROM t)").derived
    assert derived is not None
    later = {**STREAMS, "t": STREAMS["t"].with_columns((Attribute("more", DOUBLE),))}
    query = bound_derivation(derived, lambda name: later.get(name.lower()))
    assert [output.name for output in query.select] == ["k", "v", "p"]


@pytest.mark.parametrize(
    ("rest", "problem", "hint"),
    [
        ("AS (SELECT e.k FROM e, idle WHERE e.k = idle.k) EVERY 1 SECOND", "IDLE AFTER", "WATERMARK BY CLOCK"),
        ("AS (SELECT k FROM last) EVERY 1 SECOND", "which has RETENTION in rows", "write a window in time"),
        ("AS (SELECT k FROM t) BY JOB", "BY JOB is not supported yet", "leave BY JOB out"),
        ("AS (SELECT DISTINCT k FROM t ORDER BY k)", "ORDER BY, LIMIT or OFFSET", "FROM x"),
        ("AS (SELECT DISTINCT k, row_number() OVER (ORDER BY k) AS r FROM t)", "OVER in a derived stream", "FROM x"),
        ("AS (SELECT DISTINCT k FROM last)", "RETENTION in rows", "RETENTION in time"),
        ("AS (SELECT first(e.k) AS k FROM e, f [RANGE 1 HOUR] f WHERE e.k = f.k)", "first over a join", "join first"),
        ("AS (SELECT DISTINCT count(*) AS n FROM e GROUP BY k)", "Distinct over another", "the inner SELECT"),
        ("AS (SELECT k FROM t ORDER BY k)", "ORDER BY, LIMIT or OFFSET", "FROM x"),
        ("AS (SELECT k FROM t LIMIT 3)", "ORDER BY, LIMIT or OFFSET", "FROM x"),
        ("AS (SELECT k, row_number() OVER (ORDER BY k) AS r FROM t)", "OVER in a derived stream", "FROM x"),
        ("AS (SELECT k FROM t EXCEPT SELECT k FROM t UNION SELECT k FROM t)", "over another", "EVERY 1 MINUTE"),
        ("AS (SELECT e.k FROM e FULL JOIN f ON e.k = f.k)", "FULL JOIN in a derived stream", "or a LEFT JOIN, EXISTS"),
        ("AS (SELECT k FROM e WHERE k NOT IN (SELECT k FROM f WHERE w > e.v))", "NOT IN", "NOT EXISTS"),
        ("AS (SELECT DISTINCT k FROM e WHERE k IN (SELECT k FROM f))", "Distinct over another", "the inner SELECT"),
        ("AS (SELECT e.k FROM e LEFT JOIN f ON e.k = f.k JOIN f g ON e.k = g.k)", "LEFT JOIN", "the inner SELECT"),
        ("AS (SELECT e.k FROM e LEFT JOIN c AS OF e ON e.k = c.k)", "AS OF LEFT JOIN", "JOIN … AS OF, without LEFT"),
        ("AS (SELECT n FROM c)", "the table 'c' without AS OF", "EVERY 1 MINUTE after the SELECT, or join it AS OF a"),
        ("AS (SELECT t.k FROM t JOIN c ON t.k = c.k)", "the table 'c' without AS OF", "join it AS OF a stream"),
        ("AS (SELECT e.k FROM e [ROWS 5], f WHERE e.k = f.k)", "window", "RANGE 1 HOUR"),
        ("AS (SELECT e.k FROM e, f WHERE e.k = f.k END (TIMESTAMP '2026-01-01'))", "such a window", "EVERY 1 MINUTE"),
        ("AS (SELECT e.k FROM e, idle WHERE e.k = idle.k)", "IDLE AFTER", "WATERMARK BY CLOCK"),
        ("AS (SELECT e.k FROM e, last WHERE e.k = last.k)", "RETENTION in rows", "RETENTION in time"),
    ],
)
def test_what_needs_state_is_refused_by_name_with_a_way_out(rest: str, problem: str, hint: str) -> None:
    with pytest.raises(SqlError) as refused:
        derive(rest)
    assert problem in str(refused.value)
    assert hint in str(refused.value)
    assert "not supported yet" in str(refused.value)


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ("AS (SELECT k, now() AS n FROM t)", "now() in a derived stream is not supported"),
        ("AS (SELECT k FROM t WHERE v > ?)", "a parameter without a value"),
        ("AS (SELECT k FROM t WHERE v > now())", "NOW in WHERE"),
        ("AS (SELECT e.k FROM e JOIN t ON e.k = t.k)", "no NOW in common"),
        ("AS (SELECT k, k FROM t)", "two columns are called 'k'"),
        ("AS (SELECT _id FROM t)", "'_id' is reserved"),
        ("(a) AS (SELECT k, v FROM t)", "1 name of a column, and the SELECT 2 columns"),
        ("(a TEXT) AS (SELECT k FROM t)", "write CREATE STREAM name (a, b) AS (SELECT …)"),
        ("AS (SELECT", "is not closed"),
        ("AS XSTREAM (SELECT k FROM t)", "only ISTREAM, DSTREAM or RSTREAM may stand before the parentheses"),
        ("AS SELECT k FROM t", "CREATE STREAM name AS (SELECT …), with parentheses"),
        ("AS (SELECT k FROM nowhere)", "there is no stream or table 'nowhere'"),
        ("AS (SELECT k FROM t) FROM NOW FROM START", "FROM is given twice"),
        ("AS (SELECT k FROM t) FROM THEN", "FROM needs START or NOW"),
        ("AS (SELECT k FROM t) TIMESTAMP BY k", "expected EVERY, FROM START, FROM NOW, LAG AT MOST, STATE AT MOST"),
        ("AS RSTREAM (SELECT k FROM t)", "RSTREAM needs EVERY"),
        ("AS (SELECT k, now() AS n FROM e) EVERY 1 SECOND", "now() in a derived stream is not supported"),
        ("AS (SELECT k FROM e ORDER BY now() LIMIT 1) EVERY 1 SECOND", "now() in a derived stream is not supported"),
        ("AS (SELECT k FROM e WHERE v > ?) EVERY 1 SECOND", "a parameter without a value"),
        ("AS (SELECT k FROM t) EVERY 1 SECOND", "the window of 't' has no bound"),
        ("AS (SELECT k FROM t BEGIN (START)) EVERY 1 SECOND", "the window of 't' has no bound"),
        ("AS (SELECT k FROM t [PARTITION BY k ROWS 2]) EVERY 1 SECOND", "the window of 't' has no bound"),
        ("AS (SELECT e.k FROM e JOIN f ON e.k = f.k) EVERY 1 SECOND", "the window of 'f' has no bound"),
        ("AS (SELECT k FROM t) EVERY 0 SECONDS", "EVERY must be longer than 0"),
        ("AS (SELECT k FROM t) EVERY 999 MICROSECONDS", "EVERY is shorter than a millisecond"),
        ("AS (SELECT k FROM t) EVERY 5", "EVERY 5 has no unit"),
        ("AS (SELECT k FROM t) EVERY", "EVERY needs a duration"),
        ("AS (SELECT k FROM t) EVERY -1 SECOND", "cannot be negative"),
        ("AS (SELECT k FROM t) EVERY 1 FORTNIGHT", "'FORTNIGHT' is not a unit of time"),
        ("AS (SELECT k FROM t) EVERY 1 SECOND EVERY 2 SECONDS", "EVERY is given twice"),
        ("AS (SELECT k FROM t) LAG 1 DAY", "LAG AT MOST needs a duration"),
        ("AS (SELECT k FROM t) LAG AT MOST 0 DAYS", "LAG AT MOST must be longer than 0"),
        ("AS (SELECT k FROM t) STATE AT MOST 0 MB", "0 MB is not a whole number from 1 to 1,000,000,000,000 MB"),
        ("AS (SELECT k FROM t) STATE AT MOST 5 GB", "STATE AT MOST 5 GB is not a whole number"),
        ("AS (SELECT k FROM t) STATE AT MOST 1.5 MB", "STATE AT MOST 1.5 MB is not a whole number"),
        ("AS (SELECT k FROM t) STATE AT MOST 1000000000001 MB", "1000000000001 MB is not a whole number"),
        ("AS (SELECT k FROM t) STATE AT MOST MB", "STATE AT MOST needs a size in MB"),
        ("AS (DROP STREAM t)", "a SELECT is needed here"),
        ("AS ()", "empty"),
    ],
)
def test_other_faults_name_themselves(rest: str, problem: str) -> None:
    with pytest.raises(SqlError) as refused:
        derive(rest)
    assert problem in str(refused.value)


def test_a_table_cannot_be_derived() -> None:
    with pytest.raises(SqlError, match="a table cannot be derived"):
        create_stream("CREATE TABLE x AS (SELECT k FROM t)", new=True, lookup=lookup)


def test_a_stream_derived_from_the_clock_has_no_now_in_common_with_other_streams() -> None:
    timed = replace(derive("AS (SELECT k FROM e)"), name="y")
    streams = {**STREAMS, "x": derive("AS (SELECT k FROM t)"), "y": timed}

    def find(name: str) -> StreamSpec | None:
        return streams.get(name.lower())

    for other in ("t", "e", "y"):
        with pytest.raises(SqlError, match="no NOW in common"):
            standing_query(f"SELECT x.k FROM x JOIN {other} ON x.k = {other}.k", find)
    assert len(standing_query("SELECT y.k FROM y JOIN e ON y.k = e.k", find).sources) == 2
    with pytest.raises(NotSupported, match="OVER"):
        create_stream("CREATE STREAM z AS (SELECT sum(1) OVER () AS s FROM x)", lookup=find)


@pytest.mark.parametrize("comment", ["-- all of them", "/* ) */", "-- '"])
def test_a_comment_at_the_end_of_the_select_ends_with_it(comment: str) -> None:
    spec = derive(f"AS (SELECT k, '--' AS d FROM t {comment}\n) FROM NOW RETENTION 1 DAY")
    assert create_stream(create_statement(spec), lookup=lookup, names=list(STREAMS)) == spec


@pytest.mark.parametrize(
    ("rest", "line", "column", "excerpt"),
    [
        ("AS (SELECT kk FROM t)", 1, 28, "CREATE STREAM x AS (SELECT kk FROM t)"),
        ("AS\n (\n  SELECT k\n  FROM tt)", 4, 8, "  FROM tt)"),
        ("AS ( SELECT k FROM t WHERE ? > v)", 1, 44, "CREATE STREAM x AS ( SELECT k FROM t WHERE ? > v)"),
        ("AS ()", 1, 21, "CREATE STREAM x AS ()"),
        ("AS (\n  SELECT k FROM t LIMIT 3)", 2, 19, "  SELECT k FROM t LIMIT 3)"),
        ("AS (SELECT k FROM t ORDER BY k)", 1, 37, "CREATE STREAM x AS (SELECT k FROM t ORDER BY k)"),
        ("AS (SELECT DISTINCT k FROM t)", 1, 44, "CREATE STREAM x AS (SELECT DISTINCT k FROM t)"),
        ("AS (SELECT c.n FROM c)", 1, 37, "CREATE STREAM x AS (SELECT c.n FROM c)"),
        ("AS (SELECT k, v AS k FROM t)", 1, 36, "CREATE STREAM x AS (SELECT k, v AS k FROM t)"),
        ("AS (SELECT k FROM t [ROWS 3])", 1, 37, "CREATE STREAM x AS (SELECT k FROM t [ROWS 3])"),
    ],
)
def test_an_error_in_the_select_has_its_place_in_the_statement(rest: str, line: int, column: int, excerpt: str) -> None:
    with pytest.raises(SqlError) as refused:
        derive(rest)
    problem = refused.value
    assert (problem.line, problem.column) == (line, column)
    assert problem.excerpt == f"{excerpt}\n{' ' * (column - 1)}^"


def test_an_option_of_other_streams_is_not_suggested_for_itself() -> None:
    with pytest.raises(SqlError) as refused:
        derive("AS (SELECT k FROM t) AHEAD 1 DAY")
    assert "AHEAD" not in refused.value.hint


@pytest.mark.parametrize("column", ["v + " * 40 + "v", 'v AS "a\nb"', 'v AS "a\u200bb"', f"v AS {'a' * 129}"])
def test_a_column_whose_name_no_statement_has_is_refused(column: str) -> None:
    """The log has the columns as a statement: a start would not read it."""
    with pytest.raises(SqlError, match="cannot name a column") as refused:
        derive(f"AS (SELECT {column} FROM t)")
    assert "write SELECT … AS name" in refused.value.hint
    assert derive(f"(a) AS (SELECT {column} FROM t)").declared == (Attribute("a", BIGINT),)


def test_columns_that_are_too_long_for_a_statement_are_refused() -> None:
    """A stream may get so many by ALTER, or a join by its sources."""
    names = [f"{'n' * 120}{number}" for number in range(600)]
    wide = StreamSpec("wide", Schema(tuple([Attribute(name, BIGINT) for name in names])))
    for count in (400, 600):
        part = replace(wide, schema=Schema(wide.schema.attributes[:count]))
        statement = "CREATE STREAM x AS (SELECT * FROM wide)"
        if count == 600:
            with pytest.raises(
                SqlError, match=r"names of the 600 columns have 7\d,\d{3} bytes, and 65,536 is the most"
            ):
                create_stream(statement, lookup=lambda _, part=part: part)
        else:
            spec = create_stream(statement, lookup=lambda _, part=part: part)
            assert create_stream(columns_statement(spec)).declared == spec.declared


@pytest.mark.parametrize(
    ("rest", "hint"),
    [
        ("AS (SELECT k FROM t WHERE v < ?)", "write the constant: CREATE takes no parameters"),
        ("(a, b) AS (SELECT k FROM t)", "give 1 name after the name of the stream, or none"),
        ("AS ()", "write the SELECT in the parentheses: CREATE STREAM name AS (SELECT … FROM …)"),
        ("AS (SELECT t.k FROM t, e WHERE t.k = e.k)", "derive or query each of them by itself, or create t again"),
    ],
)
def test_a_hint_says_what_can_be_done(rest: str, hint: str) -> None:
    with pytest.raises(SqlError) as refused:
        derive(rest)
    assert hint in refused.value.hint

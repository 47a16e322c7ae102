"""Plans: what equal queries share, what their text tells apart, and the update pattern of every step."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psoup.config import EngineConfig
from psoup.expressions.tree import AttributeRef, Call
from psoup.local import LocalPSoup
from psoup.model import BIGINT, BOOLEAN, SECOND, StreamSpec, WindowClause
from psoup.plan.canonical import expr_text
from psoup.plan.nodes import Limit, Project, Source, plan_text, walk
from psoup.plan.patterns import Pattern
from psoup.plan.standing_query import StandingQuery
from psoup.plan.updates import updates_of
from psoup.sql import create_stream, prepare, standing_query
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled

KEPT = create_stream("CREATE STREAM kept (a BIGINT, b DOUBLE, s TEXT)")
FORGOTTEN = create_stream("CREATE STREAM forgotten (a BIGINT, b DOUBLE, s TEXT) RETENTION 1 DAY")
TIMED = create_stream("CREATE STREAM timed (a BIGINT, t TIMESTAMP) TIMESTAMP BY t")
SILENT = create_stream("CREATE STREAM silent (a BIGINT, t TIMESTAMP) TIMESTAMP BY t IDLE AFTER 1 MINUTE")
STREAMS = {spec.name: spec for spec in (KEPT, FORGOTTEN)}
JOINED = STREAMS | {spec.name: spec for spec in (TIMED, SILENT)}
MONOTONIC, WEAKEST, WEAK, STRICT = Pattern
SLIDING = "BEGIN (NOW - 10)"
MICROS = pa.timestamp("us")


def lookup(name: str) -> StreamSpec | None:
    return JOINED.get(name.lower())


def bind(text: str) -> StandingQuery:
    return standing_query(text, lookup)


def shuffled_case(text: str, upper: list[bool]) -> str:
    """The same to SQL: some words in upper case, and more space."""
    words = text.split(" ")
    same = ("n", "m", "'x'")  # names of columns are the answer's, and texts are texts
    return "  ".join(word.upper() if up and word not in same else word for word, up in zip(words, upper, strict=False))


DISTINCTS = ("", "distinct ")
LISTS = ("a", "b", "a , s", "a + 1 as n", "a + 1 as m", "now as n", "*")
ORDERS = ("", "order by a", "order by a desc", "order by a nulls first", "order by 1 , a")
LIMITS = ("", "limit 3", "limit 4")
WINDOWS = ("", "begin (now - 10)", "begin (now - 10 rows)", "begin (now - 10) end (now - 5)")
FORMS = [
    " ".join(part for part in (f"select {distinct}{columns} from {stream}", "{where}", order, limit, window) if part)
    for stream, distinct, columns, order, limit, window in product(STREAMS, DISTINCTS, LISTS, ORDERS, LIMITS, WINDOWS)
    if not distinct or order in ("", "order by 1 , a") or columns in ("a", "*", "a , s")
    if not distinct or "1 , a" not in order or columns in ("a", "*", "a , s")
]


@settings(max_examples=scaled(100))
@given(
    st.sampled_from(FORMS),
    st.integers(-9, 9),
    st.integers(-9, 9),
    st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_equal_queries_have_equal_plans_whatever_where_says(form: str, one: int, two: int, upper: list[bool]) -> None:
    first = bind(form.format(where=f"where a > {one}"))
    other = bind(shuffled_case(form.format(where=f"where b < {two} or s = 'x'"), upper))
    assert plan_text(first.plan) == plan_text(other.plan)
    assert first.plan == other.plan
    assert str(one) not in plan_text(bind(f"select s from kept where a > {one}").plan)


@settings(max_examples=scaled(100))
@given(st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_plans_are_equal_if_and_only_if_their_texts_are(one: str, two: str) -> None:
    first, second = (bind(form.format(where="")).plan for form in (one, two))
    assert (first == second) == (plan_text(first) == plan_text(second))


def test_a_name_is_told_in_its_own_case() -> None:
    texts = [plan_text(bind(f"SELECT a AS {name} FROM kept").plan) for name in ("n", "N", '"n m"')]
    assert [text.partition(" (")[0] for text in texts] == ["Project a AS n", "Project a AS N", 'Project a AS "n m"']


def test_all_queries_of_a_template_share_one_plan() -> None:
    template = prepare("SELECT DISTINCT a FROM kept WHERE a > ? ORDER BY a LIMIT 2", lookup)
    first, second = template.bind((1,)), template.bind((2,))
    assert first.plan is second.plan
    assert first.selections != second.selections


def test_nodes_know_what_is_below() -> None:
    plan = bind(f"SELECT DISTINCT a, b AS c FROM kept ORDER BY a DESC LIMIT 7 {SLIDING}").plan
    window = "BEGIN (NOW - 10 SECONDS) END (NOW)"
    assert [node.label for _, node in walk(plan)] == [
        "Limit 7",
        "Sort a DESC",
        "Distinct",
        "Project a, b AS c",
        f"Source kept {window}",
    ]
    assert [depth for depth, _ in walk(plan)] == [0, 1, 2, 3, 4]
    (source,) = plan.sources
    assert [output.name for output in plan.schema] == ["a", "c"]
    assert [output.name for output in source.schema] == ["a", "b", "s"]
    assert [key.text() for key in plan.order] == ["a DESC", "_id"]
    keeps = [node.keeps_rows for _, node in walk(plan)]
    assert keeps == [False, False, False, True, True]
    assert plan_text(plan) == f"Limit 7 (Sort a DESC (Distinct (Project a, b AS c (Source kept {window}))))"


def test_attributes_name_their_source() -> None:
    """Of a stream that stands in FROM twice, columns of one name are not the same expression, nor the same text."""
    first, second = (Source(place, KEPT, WindowClause()).schema[0].expr for place in (0, 1))
    assert first != second and first == AttributeRef(BIGINT, 0, "a")
    assert [expr_text(Call(BOOLEAN, "gt", (first, expr))) for expr in (first, second)] == ["(a > a)", "(a > 1.a)"]


# Update patterns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("SELECT a FROM kept", MONOTONIC),
        ("SELECT a FROM kept BEGIN TIMESTAMP '2020-01-01' END TIMESTAMP '2021-01-01'", MONOTONIC),
        ("SELECT a FROM kept END (NOW - 5)", MONOTONIC),
        (f"SELECT a FROM kept {SLIDING}", WEAKEST),
        ("SELECT a FROM kept BEGIN (NOW - 10 ROWS)", WEAKEST),
        ("SELECT a FROM forgotten", WEAKEST),
        ("SELECT DISTINCT a FROM kept", MONOTONIC),
        (f"SELECT DISTINCT a FROM kept {SLIDING}", WEAK),
        (f"SELECT a FROM kept ORDER BY b {SLIDING}", WEAKEST),
        (f"SELECT a FROM kept LIMIT 3 {SLIDING}", WEAKEST),
        ("SELECT a FROM kept LIMIT 3", MONOTONIC),
        ("SELECT a FROM kept ORDER BY b LIMIT 3", STRICT),
        (f"SELECT a FROM kept ORDER BY _time, b LIMIT 3 {SLIDING}", WEAKEST),
        (f"SELECT a FROM kept ORDER BY _time DESC LIMIT 3 {SLIDING}", STRICT),
        (f"SELECT DISTINCT a FROM kept LIMIT 3 {SLIDING}", WEAK),
        ("SELECT extract(year FROM NOW) AS y FROM kept", STRICT),
        ("SELECT a FROM kept ORDER BY extract(year FROM NOW)", MONOTONIC),
        ("SELECT a FROM silent", MONOTONIC),
        ("SELECT x.a FROM kept x, kept y WHERE x.a = y.a", MONOTONIC),
        (f"SELECT x.a FROM kept x, kept y WHERE x.a = y.a {SLIDING}", WEAK),
        ("SELECT x.a FROM timed x, timed y WHERE x.a = y.a END (60)", MONOTONIC),
        ("SELECT x.a FROM silent x, silent y WHERE x.a = y.a", MONOTONIC),
        ("SELECT x.a FROM timed x, silent y WHERE x.a = y.a", STRICT),
        ("SELECT x.a FROM silent x, timed y WHERE x.a = y.a BEGIN (0) END (60)", STRICT),
        ("SELECT DISTINCT x.a FROM silent x, timed y, timed z WHERE x.a = y.a AND y.a = z.a", STRICT),
        ("SELECT x.a, count(*) FROM timed x, silent y WHERE x.a = y.a GROUP BY x.a", WEAK),
    ],
)
def test_patterns_of_queries(text: str, pattern: Pattern) -> None:
    assert updates_of(bind(text).plan).pattern is pattern


@settings(max_examples=scaled(100))
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=24),
    st.sampled_from(["kept", "forgotten"]),
    st.sampled_from(["", "DISTINCT "]),
    st.sampled_from(["", "ORDER BY b", "ORDER BY a DESC", "ORDER BY _time"]),
    st.sampled_from(["", "LIMIT 1", "LIMIT 3"]),
    st.sampled_from(["", SLIDING, "BEGIN (NOW - 4 ROWS)"]),
)
def test_rows_come_and_leave_as_their_pattern_says(
    steps: list[tuple[int, int]], stream: str, distinct: str, order: str, limit: str, window: str
) -> None:
    """Of a monotonic answer nothing leaves; of a weakest one the oldest leaves first; a weak row as its tuple does."""
    if distinct and order == "ORDER BY _time":
        order = ""
    columns = "a, b" if distinct else "_id, a, b"
    clock = VirtualClock()
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), clock)
    soup.execute(f"CREATE STREAM {stream} (a BIGINT, b BIGINT){' RETENTION 20 SECONDS' * (stream == 'forgotten')}")
    query = soup.register(f"SELECT {distinct}{columns} FROM {stream} {order} {limit} {window}")
    tuples = soup.register(f"SELECT _id FROM {stream} {window}")
    plan = soup.engine.snapshot().query(query, soup.tenant).query.plan
    pattern = updates_of(plan).pattern
    assert isinstance(plan.sources[0], Source) and isinstance(plan, Limit) == bool(limit)
    gone = -1
    before: list[tuple[int, ...]] = []
    for a, seconds in steps:
        clock.advance(seconds=seconds)
        soup.push(stream, pa.table({"a": [a], "b": [a % 2]}))
        rows = [tuple(row.values()) for row in again(soup.invoke, query).to_table().to_pylist()]
        held = {row["_id"] for row in again(soup.invoke, tuples).to_table().to_pylist()}
        left = [row for row in before if row not in rows]
        if pattern is MONOTONIC:
            assert not left
        if pattern <= WEAKEST and not distinct:
            assert all(row[0] < min(other[0] for other in rows) for row in left if rows)
            assert all(row[0] > gone for row in rows)
            gone = max([gone, *(row[0] for row in left)])
        if pattern <= WEAK and not distinct:
            assert not any(row[0] in held for row in left)
        before = rows


@settings(max_examples=scaled(100))
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, 5)), min_size=4, max_size=16),
    st.booleans(),
    st.sampled_from(["", "BEGIN (START) END (60)", "BEGIN (NOW - 8)"]),
)
def test_rows_of_joins_come_and_leave_as_their_pattern_says(
    steps: list[tuple[bool, int, int]], idle: bool, window: str
) -> None:
    """NOW steps back when a stream that was idle goes on: a row leaves, and both of its tuples are there."""
    clock = VirtualClock(10 * SECOND)
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), clock)
    for name in "xy":
        soup.execute(f"CREATE STREAM {name} (a BIGINT, t TIMESTAMP) TIMESTAMP BY t{' IDLE AFTER 5 SECONDS' * idle}")
    query = soup.register(f"SELECT x._id AS i, y._id AS j FROM x, y WHERE x.a = y.a {window}")
    pattern = updates_of(soup.engine.snapshot().query(query, soup.tenant).query.plan).pattern
    assert pattern is (STRICT if idle else WEAK if "NOW" in window else MONOTONIC)
    before: list[dict[str, int]] = []
    for first, seconds, behind in steps:
        clock.advance(seconds=seconds)
        time = pa.array([clock.now() - behind * SECOND], MICROS)
        soup.push("x" if first else "y", pa.table({"a": [1], "t": time}), refused="count")
        rows = again(soup.invoke, query).to_table().to_pylist()
        if pattern is MONOTONIC:
            assert not [row for row in before if row not in rows]
        before = rows


def test_explain_tells_the_plan_and_what_its_pattern_means() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM kept (a BIGINT)")
    query = soup.register("SELECT a FROM kept ORDER BY a LIMIT 2 BEGIN (NOW - 10)")
    lines = soup.explain(query).lines()
    at = next(k for k, line in enumerate(lines) if line.startswith("  plan"))
    assert lines[at : at + 9] == [
        "  plan     Limit 2 [strict, time, rows of kept]",
        "             | by computed_rows",
        "             | state: the tuples of kept of 10 SECONDS",
        "             Sort a [weakest, time]",
        "               Project a [weakest, time]",
        "                 Source kept BEGIN (NOW - 10 SECONDS) END (NOW) [weakest, time]",
        "                   | state: the tuples of kept of 10 SECONDS",
        "  updates  strict non-monotonic: a row may leave or change at any time, as others push it out or NOW moves",
        "  clocks   rows leave as time passes, and as rows of kept come",
    ]
    assert isinstance(soup.engine.snapshot().query(query, soup.tenant).query.plan.inputs[0].inputs[0], Project)


def test_a_join_says_that_rows_leave_when_an_idle_stream_goes_on() -> None:
    """Two of three rows leave, and one comes: NOW is 3 again. They are back when NOW is 901."""
    soup = LocalPSoup(clock=VirtualClock(1_000 * SECOND))
    for name, option in (("timed", ""), ("silent", " IDLE AFTER 30 SECONDS")):
        soup.execute(f"CREATE STREAM {name} (a BIGINT, t TIMESTAMP NOT NULL) TIMESTAMP BY t{option}")
    query = soup.register("SELECT x._id FROM timed x, silent y WHERE x.a = y.a BEGIN (START)")

    def rows(stream: str, *seconds: int) -> int:
        soup.push(stream, pa.table({"a": [1] * len(seconds), "t": pa.array([s * SECOND for s in seconds], MICROS)}))
        return soup.invoke(query).to_table().num_rows

    assert (rows("silent", 1), rows("timed", 2, 900)) == (0, 0)
    soup.clock.set(1_031 * SECOND)  # type: ignore[attr-defined]
    assert [rows("timed", 901), rows("silent", 3), rows("silent", 902)] == [3, 2, 6]
    lines = [line for line in soup.explain(query).lines() if line.endswith("]") or "updates" in line]
    assert lines == [
        "  plan     Project x._id AS _id [strict, time]",
        "             Join x.a = y.a [strict, time]",
        "               Source timed AS x BEGIN (START) END (NOW) [strict, time]",
        "               Source silent AS y BEGIN (START) END (NOW) [strict, time]",
        "  updates  strict non-monotonic: a row may leave or change at any time, as others push it out or NOW moves",
    ]

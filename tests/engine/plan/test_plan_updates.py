"""Update patterns with clocks: the rules of the paper, clocks of plans, and absences that time settles."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import pyarrow as pa
import pytest

from psoup.answer.plan_nodes import NOTHING, plan_lines, plan_nodes
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.model import SECOND, StreamSpec
from psoup.plan.nodes import Node
from psoup.plan.patterns import RULES, TIME, Operator, Pattern, UpdateClock, Updates, combined
from psoup.plan.updates import updates_of
from psoup.sql import create_stream, standing_query
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept

MONOTONIC, WEAKEST, WEAK, STRICT = Pattern
MICROS = pa.timestamp("us")
MINUTE = frozenset((UpdateClock(stay=60 * SECOND),))
HOUR = frozenset((UpdateClock(stay=3_600 * SECOND),))
ROWS = frozenset((UpdateClock("s", rows=True, stay=10),))
UNSTEADY = frozenset((TIME,))
STREAMS = {
    spec.name: spec
    for spec in (
        create_stream("CREATE STREAM d (k BIGINT, t TIMESTAMP) TIMESTAMP BY t"),
        create_stream("CREATE STREAM v (k BIGINT, t TIMESTAMP) TIMESTAMP BY t"),
        create_stream("CREATE STREAM silent (k BIGINT, t TIMESTAMP) TIMESTAMP BY t IDLE AFTER 1 MINUTE"),
        create_stream("CREATE STREAM forgotten (k BIGINT, t TIMESTAMP) TIMESTAMP BY t RETENTION 1 DAY"),
        create_stream("CREATE STREAM s (k BIGINT)"),
        create_stream("CREATE STREAM few (k BIGINT) RETENTION 100 ROWS"),
        create_stream("CREATE TABLE t (k BIGINT, PRIMARY KEY (k))"),
        create_stream("CREATE TABLE later (k BIGINT, PRIMARY KEY (k)) FIRST VERSION FROM ARRIVAL"),
        create_stream("CREATE TABLE idle (k BIGINT, t TIMESTAMP, PRIMARY KEY (k)) TIMESTAMP BY t IDLE AFTER 1 MINUTE"),
    )
}


def updates(pattern: Pattern, clocks: frozenset[UpdateClock] = MINUTE) -> Updates:
    return Updates(pattern, frozenset() if pattern is MONOTONIC else clocks)


def lookup(name: str) -> StreamSpec | None:
    return STREAMS.get(name.lower())


def plan_of(text: str) -> Node:
    return standing_query(text, lookup).plan


def words(text: str) -> str:
    return plan_nodes(plan_of(text), lambda _: NOTHING)[0].updates


def test_rules_are_those_of_the_paper() -> None:
    """Section 5.2, rules 1 to 5, for all inputs that the paper has: windows of time, all of one length."""
    labels = (WEAKEST, WEAK, STRICT)
    for label in labels:
        assert RULES[Operator.UNARY_WEAKEST]([updates(label)]) is label
        assert RULES[Operator.GROUP_BY]([updates(label)]) is WEAK
        assert RULES[Operator.STRICT]([updates(label)]) is STRICT
    for pair in product(labels, labels):
        inputs = [*map(updates, pair)]
        merged = STRICT if STRICT in pair else WEAK if WEAK in pair else WEAKEST
        assert RULES[Operator.BINARY_WEAKEST](inputs) is merged
        assert RULES[Operator.WEAK](inputs) is (STRICT if STRICT in pair else WEAK)
        assert RULES[Operator.STRICT](inputs) is STRICT


@pytest.mark.parametrize(
    ("left", "right", "merged"),
    [
        (MINUTE, MINUTE, WEAKEST),
        (ROWS, ROWS, WEAKEST),
        (MINUTE, ROWS, WEAK),
        (MINUTE, HOUR, WEAK),
        (ROWS, frozenset((UpdateClock("other", rows=True, stay=10),)), WEAK),
        (UNSTEADY, UNSTEADY, WEAK),
    ],
)
def test_rows_that_leave_by_different_clocks_are_not_in_one_order(
    left: frozenset[UpdateClock], right: frozenset[UpdateClock], merged: Pattern
) -> None:
    result = combined(Operator.BINARY_WEAKEST, [updates(WEAKEST, left), updates(WEAKEST, right)])
    assert result == Updates(merged, left | right)
    assert combined(Operator.BINARY_WEAKEST, [updates(WEAKEST, left), updates(WEAK, right)]).pattern is WEAK
    assert combined(Operator.WEAK, [updates(WEAKEST, left), updates(WEAKEST, right)]) == Updates(WEAK, left | right)


def test_nothing_leaves_where_nothing_leaves_the_inputs() -> None:
    stays = updates(MONOTONIC)
    assert combined(Operator.UNARY_WEAKEST, [stays]) == combined(Operator.BINARY_WEAKEST, [stays, stays]) == stays
    assert combined(Operator.WEAK, [stays, stays]) == stays
    assert combined(Operator.BINARY_WEAKEST, [stays, updates(WEAKEST)]) == updates(WEAKEST)
    assert combined(Operator.WEAK, [stays, updates(WEAKEST)]) == updates(WEAK)
    assert combined(Operator.GROUP_BY, [stays], ROWS) == updates(WEAK, ROWS)


ABSENCE = "SELECT d.k FROM d {} WHERE NOT EXISTS (SELECT 1 FROM v {} WHERE v.k = d.k AND {})"
HOURS = "v.t BETWEEN d.t AND d.t + INTERVAL 8 HOURS"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT k FROM s", "monotonic"),
        ("SELECT k FROM s BEGIN (NOW - 5)", "weakest, time"),
        ("SELECT k FROM s BEGIN (NOW - 5 ROWS)", "weakest, rows of s"),
        ("SELECT k FROM forgotten", "weakest, time"),
        ("SELECT k FROM few BEGIN (NOW - 5)", "weakest, time, rows of few"),
        ("SELECT s.k FROM s [ROWS 5], few WHERE s.k = few.k", "weak, rows of few, rows of s"),
        ("SELECT d.k FROM d [RANGE 1 DAY], v [ROWS 2] WHERE d.k = v.k", "weak, time, rows of v"),
        ("SELECT count(*) FROM s", "weak, rows of s"),
        ("SELECT k, now FROM s", "strict, time"),
        ("SELECT k FROM s ORDER BY k LIMIT 1", "strict, rows of s"),
        ("SELECT d.k FROM d, silent WHERE d.k = silent.k", "strict, time"),
        ("SELECT d.k FROM d LEFT JOIN v ON d.k = v.k", "strict, rows of v"),
        ("SELECT d.k FROM d RIGHT JOIN v ON d.k = v.k", "strict, rows of d"),
        ("SELECT d.k FROM d FULL JOIN v ON d.k = v.k", "strict, rows of d, rows of v"),
        ("SELECT k FROM d EXCEPT SELECT k FROM v", "strict, rows of v"),
        ("SELECT k FROM d [RANGE 1 DAY] UNION ALL SELECT k FROM v [RANGE 1 DAY]", "weakest, time"),
        ("SELECT k FROM d [RANGE 1 DAY] UNION ALL SELECT k FROM v [RANGE 2 DAYS]", "weak, time"),
        ("SELECT k FROM d [ROWS 5] UNION ALL SELECT k FROM v [ROWS 5]", "weak, rows of d, rows of v"),
        ("SELECT k FROM d [ROWS 5] UNION ALL SELECT k FROM d [ROWS 5]", "weakest, rows of d"),
        ("SELECT k FROM d [ROWS 5] UNION ALL SELECT k FROM v", "weakest, rows of d"),
        ("SELECT k FROM d [RANGE 1 DAY] UNION ALL (SELECT k FROM v [RANGE 1 DAY] LIMIT 1)", "weak, time"),
        ("SELECT k FROM t", "strict, rows of t"),
        ("SELECT d.k FROM d JOIN t ON t.k = d.k", "strict, rows of t"),
        ("SELECT d.k FROM d JOIN t AS OF d ON t.k = d.k", "monotonic"),
        ("SELECT d.k FROM d [RANGE 1 DAY] JOIN t AS OF d ON t.k = d.k", "weakest, time"),
        ("SELECT d.k FROM d [ROWS 5] JOIN t AS OF d ON t.k = d.k", "weakest, rows of d"),
        ("SELECT d.k FROM d, v [ROWS 5] JOIN t AS OF v ON t.k = v.k WHERE d.k = v.k", "weak, rows of v"),
        ("SELECT d.k FROM d LEFT JOIN later AS OF d ON later.k = d.k", "monotonic"),
        ("SELECT d.k FROM d LEFT JOIN t AS OF d ON t.k = d.k", "strict, rows of t"),
        ("SELECT d.k FROM d JOIN idle AS OF d ON idle.k = d.k", "strict, time"),
        ("SELECT d.k FROM d JOIN t AS OF d ON t.k = d.k JOIN t u ON u.k = d.k", "strict, rows of t"),
    ],
)
def test_clocks_of_queries(text: str, expected: str) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ABSENCE.format("", "", HOURS), "strict, rows of v; monotonic 8 HOURS later"),
        (ABSENCE.format("", "", "v.t >= d.t"), "strict, rows of v"),
        (ABSENCE.format("", "", "v.t < d.t"), "monotonic"),
        (ABSENCE.format("", "", "v.t <= d.t"), "strict, rows of v; monotonic once NOW moves on"),
        (ABSENCE.format("", "", "v._time = d._time"), "strict, rows of v; monotonic once NOW moves on"),
        (ABSENCE.format("", "", "v.t < d.t - INTERVAL 1 HOUR"), "monotonic"),
        (ABSENCE.format("", "", "v.t - INTERVAL 1 HOUR < d.t"), "strict, rows of v; monotonic 1 HOUR later"),
        (ABSENCE.format("", "", "v.t < d.t + INTERVAL 1 MONTH"), "strict, rows of v"),
        (ABSENCE.format("", "", "v.t < d.t + INTERVAL 1 DAY AND v.t < d.t"), "monotonic"),
        (
            ABSENCE.format("[BEGIN (START) END (NOW - 3 HOURS)]", "", HOURS),
            "strict, rows of v; monotonic 5 HOURS later",
        ),
        (ABSENCE.format("[BEGIN (START) END (NOW - 9 HOURS)]", "", HOURS), "monotonic"),
        (
            ABSENCE.format("[BEGIN (START) END (NOW - 8 HOURS)]", "", HOURS),
            "strict, rows of v; monotonic once NOW moves on",
        ),
        (
            ABSENCE.format("", "[BEGIN (START) END (NOW - 1 HOUR)]", HOURS),
            "strict, rows of v; monotonic 9 HOURS later",
        ),
        (ABSENCE.format("", "[BEGIN (NOW - 9 ROWS) END (NOW - 5 ROWS)]", HOURS), "strict, rows of v"),
        (ABSENCE.format("", "[ROWS 9]", HOURS), "strict, rows of v; monotonic 8 HOURS later"),
        (ABSENCE.format("[RANGE 1 DAY]", "", HOURS), "strict, time, rows of v; weakest 8 HOURS later"),
        (ABSENCE.format("[RANGE 1 DAY]", "[RANGE 1 DAY]", HOURS), "strict, time, rows of v; weak 8 HOURS later"),
        (ABSENCE.format("", "", HOURS).replace("d.k", "DISTINCT d.k", 1), "strict, rows of v; monotonic 8 HOURS later"),
        (ABSENCE.format("", "", HOURS).replace("d.k", "count(*)", 1), "weak, rows of d, rows of v"),
        (ABSENCE.format("", "", HOURS) + " ORDER BY d.k LIMIT 1", "strict, rows of d, rows of v"),
        (ABSENCE.replace("v {}", "silent v {}").format("", "", HOURS), "strict, time, rows of silent"),
        (ABSENCE.replace("v {}", "d v {}").format("", "", HOURS), "strict, rows of d; monotonic 8 HOURS later"),
        (
            f"SELECT d.k FROM d ANTI JOIN v ON d.k = v.k AND {HOURS}",
            "strict, rows of v; monotonic 8 HOURS later",
        ),
        (
            f"SELECT d.k FROM d WHERE d.k NOT IN (SELECT k FROM v WHERE {HOURS})",
            "strict, rows of v; monotonic 8 HOURS later",
        ),
        (f"SELECT d.k FROM d LEFT JOIN v ON d.k = v.k AND {HOURS}", "strict, rows of v; monotonic 8 HOURS later"),
        (f"SELECT d.k FROM d RIGHT JOIN v ON d.k = v.k AND {HOURS}", "strict, rows of d"),
        ("SELECT d.k FROM d ASOF JOIN v ON d.k = v.k AND d.t > v.t", "monotonic"),
        ("SELECT d.k FROM d ASOF JOIN v ON d.k = v.k AND d.t < v.t", "strict, rows of v"),
        (
            "SELECT k FROM s WHERE NOT EXISTS (SELECT 1 FROM few WHERE few._time BETWEEN s._time AND s._time)",
            "strict, rows of few",
        ),
    ],
)
def test_time_settles_absences_whose_band_ends(text: str, expected: str) -> None:
    assert words(text).replace("strict, rows of few, rows of few", "strict, rows of few") == expected


def test_explain_says_when_rows_are_settled() -> None:
    lines = plan_lines(plan_nodes(plan_of(ABSENCE.format("[RANGE 1 DAY]", "", HOURS)), lambda _: NOTHING))
    assert lines[-3:] == [
        f"  updates  strict non-monotonic: {Pattern.STRICT.meaning}",
        "  clocks   rows leave as time passes, and as rows of v come",
        "  settled  weakest non-monotonic 8 HOURS later: rows leave in the order in which they came",
    ]


NEAR = "v.t BETWEEN d.t AND d.t + INTERVAL 3 SECONDS"
BEFORE = "v.t < d.t AND v.t > d.t - INTERVAL 3 SECONDS"
OBSERVED = [
    "SELECT _id AS i, t FROM d [ROWS 3]",
    "SELECT _id AS i, t FROM d [RANGE 4 SECONDS] UNION ALL SELECT -_id AS i, t FROM v [RANGE 4 SECONDS]",
    "SELECT _id AS i, t FROM d [RANGE 4 SECONDS] UNION ALL SELECT -_id AS i, t FROM v [RANGE 9 SECONDS]",
    "SELECT _id AS i, t FROM d [ROWS 2] UNION ALL SELECT -_id AS i, t FROM v [ROWS 2]",
    "SELECT d._id AS i, d.t FROM d [ROWS 3] JOIN v [RANGE 4 SECONDS] ON d.k = v.k",
    f"SELECT d._id AS i, d.t FROM d WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.k = d.k AND {NEAR})",
    f"SELECT d._id AS i, d.t FROM d WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.k = d.k AND {BEFORE})",
    "SELECT d._id AS i, d.t FROM d WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.k = d.k AND v.t <= d.t)",
    f"SELECT d._id AS i, d.t FROM d [BEGIN START END (NOW - 2)] ANTI JOIN v ON v.k = d.k AND {NEAR}",
    f"SELECT d._id AS i, d.t FROM d [BEGIN START END (NOW - 4)] ANTI JOIN v ON v.k = d.k AND {NEAR}",
    f"SELECT d._id AS i, d.t FROM d WHERE d.k NOT IN (SELECT nullif(k, 1) FROM v [RANGE 5] WHERE {NEAR})",
    f"SELECT d._id AS i, d.t FROM d [RANGE 9] ANTI JOIN v [ROWS 1] ON v.k = d.k AND {NEAR}",
    f"SELECT d._id AS i, d.t, v._id AS j FROM d LEFT JOIN v ON v.k = d.k AND {NEAR}",
    f"SELECT d._id AS i, d.t, v._id AS j FROM d LEFT JOIN v [RANGE 4] ON v.k = d.k AND {NEAR}",
    "SELECT d._id AS i, d.t, v._id AS j FROM d ASOF JOIN v ON v.k = d.k AND d.t >= v.t",
    "SELECT d._id AS i, d.t, v._id AS j FROM d ASOF LEFT JOIN v ON v.k = d.k AND d.t > v.t",
]


LATEST_PARTNER = [("d", 1, 0), ("v", 0, 0), ("d", 0, 3), ("v", 0, 3), ("v", 1, 0), ("d", 0, 1), ("v", 0, 1)]
"""The first row gets its partner at the last moment of a band of 3 seconds."""
SAME_MOMENT = [("d", 1, 0), ("v", 0, 0), ("v", 1, 0), ("d", 0, 1), ("v", 0, 1)]
"""The first row gets its partner at the same time, after it was shown."""


@pytest.mark.parametrize("text", swept(OBSERVED, fast=range(0, 16, 3)))
def test_rows_come_and_leave_as_pattern_and_clocks_say(text: str) -> None:
    _observe(text, LATEST_PARTNER)
    _observe(text, SAME_MOMENT)
    for seed in range(scaled(4)):
        drawn = random.Random(seed)
        steps = [(drawn.choice("dv"), drawn.randint(0, 1), drawn.randint(0, 2)) for _ in range(24)]
        _observe(text, steps)


def _observe(text: str, steps: Sequence[tuple[str, int, int]]) -> None:
    """Push tuples one by one: a stream, a key, and the seconds since its last tuple. Compare what leaves."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), VirtualClock(1_000 * SECOND))
    for name in "dv":
        soup.execute(f"CREATE STREAM {name} (k BIGINT, t TIMESTAMP NOT NULL) TIMESTAMP BY t")
    query = soup.register(text)
    claim = updates_of(soup.engine.snapshot().query(query, soup.tenant).query.plan)
    times = {"d": 100, "v": 100}
    came: dict[tuple[object, ...], int] = {}
    shown: dict[tuple[object, ...], int] = {}
    before, now = list[tuple[object, ...]](), None
    for number, (name, key, seconds) in enumerate(steps):
        times[name] += seconds
        soup.push(name, pa.table({"k": [key], "t": pa.array([times[name] * SECOND], MICROS)}))
        answer = again(soup.invoke, query)
        rows = [tuple(row.values()) for row in answer.to_table().to_pylist()]
        left = [row for row in before if row not in rows]
        last, now = now, answer.completeness.now
        if claim.pattern is MONOTONIC:
            assert not left
        if claim.pattern is WEAKEST:
            latest = max([came[row] for row in left], default=-1)
            assert all(came.get(row, number) >= latest for row in rows)
        assert not left or claim.clocks
        if claim.clock_texts == ("time",):
            assert not left or now != last
        for row in left:
            if claim.settled is not None and claim.settled.pattern is MONOTONIC and last is not None:
                assert last - shown[row] <= claim.after
        for row in rows:
            came.setdefault(row, number)
            if row not in before and now is not None:
                shown[row] = now
        before = rows

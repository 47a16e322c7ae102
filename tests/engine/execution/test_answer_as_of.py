"""Joins AS OF: each tuple meets the version of its own time, against a naive list of versions."""

from __future__ import annotations

import random

import pytest

from psoup.answer.copies.join_since import boxed, paired
from psoup.answer.question import Question
from psoup.errors import SqlError
from psoup_testing.oracles.as_of_duel import (
    BY_CLOCK,
    EVENT,
    SYSTEM,
    BoxCopy,
    Copy,
    Model,
    Row,
    asked,
    made,
    plan_of,
    push,
    pushed,
)
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept

JOINS = {
    "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k": (0, False),
    "SELECT o.n, p.price FROM orders o LEFT JOIN prices AS OF o p USING (k)": (0, True),
    "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k WHERE p.price >= 5": (5, False),
    "SELECT o.n, p.price FROM orders o LEFT JOIN prices p AS OF o ON p.k = o.k AND p.price >= 5": (5, True),
    "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON o.k = p.k AND p.price + o.n >= 5 + o.n": (5, False),
    "SELECT o.n, p.price FROM orders o LEFT JOIN prices p AS OF o ON p.k = o.k AND p.price + o.n >= 5 + o.n": (5, True),
    "SELECT o.n, p.price FROM orders o [RANGE 3 SECONDS] JOIN prices p AS OF o ON p.k = o.k": (0, False),
    "SELECT n, price FROM (SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k) d": (0, False),
}


@pytest.mark.parametrize("stream", swept([SYSTEM, EVENT], fast=(1,)))
@pytest.mark.parametrize("table", swept([EVENT, SYSTEM, BY_CLOCK], fast=1))
def test_each_tuple_meets_the_version_of_its_own_time(stream: str, table: str) -> None:
    for seed in range(scaled(4)):
        drawn = random.Random(seed)
        from_arrival = seed % 2 == 1
        soup, clock = made(stream, table, f" FIRST VERSION FROM {'ARRIVAL' if from_arrival else 'START'}")
        model = Model(from_arrival=from_arrival)
        queries = {soup.register(text): (*case, text) for text, case in JOINS.items()}
        shown = {query: list[Row]() for query in queries}
        copies = {query: Copy() for query in queries}
        boxes = {query: BoxCopy() for query, case in queries.items() if paired(plan_of(soup, query)) is not None}
        assert len(boxes) == 5
        for number in range(24):
            clock.advance(seconds=drawn.randint(0, 2))
            push(soup, clock, model, drawn, number, stream, table)
            for query in drawn.sample(list(queries), 1):
                floor, left, text = queries[query]
                answer = again(soup.invoke, query)
                rows = [tuple(row.values()) for row in answer.to_table().to_pylist()]
                width = 3 if "RANGE" in text else 1_000_000
                assert rows == model.rows(answer.completeness.now, floor, left=left, width=width), (seed, number, text)
                assert answer.unknown == (model.unknown(answer.completeness.now, width) if table else 0), (seed, text)
                stay = (
                    shown[query] if from_arrival and not table else [row for row in shown[query] if row[1] is not None]
                )
                stay = [] if "RANGE" in text else stay
                assert [row for row in stay if row not in rows] == [], "a version never changes a row that was shown"
                shown[query] = rows
                copies[query].sync(soup, query)
                assert copies[query].rows == rows, (seed, number, text)
                assert query not in boxes or boxes[query].sync(soup, query) == rows, (seed, number, text)


@pytest.mark.seeded("a version of a table begins after its own time in a join AS OF")
@pytest.mark.seeded("a version of a table also holds at the time at which a deletion ends it")
def test_a_version_holds_from_its_time_until_the_next_and_not_at_it() -> None:
    """Both edges: the version of 10 holds at 10, and not at 20. The deletion of 30 ends the version of 20."""
    soup, _ = made(EVENT, EVENT, " FIRST VERSION FROM ARRIVAL")
    pushed(soup, "prices", k=["a", "a", "b"], price=[1, 2, 9], t=[10, 20, 30])
    pushed(soup, "prices", k=["a", "b"], price=[None, 9], _deleted=[True, False], t=[30, 40])
    pushed(soup, "orders", n=[9, 10, 19, 20, 29, 30], k=["a"] * 6, t=[9, 10, 19, 20, 29, 30])
    join = "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k"
    assert asked(soup, join) == [(10, 1), (19, 1), (20, 2), (29, 2)]


@pytest.mark.seeded("a join AS OF shows a tuple at the watermark of the table")
def test_a_tuple_is_shown_only_below_the_watermark_of_the_table() -> None:
    """At the watermark another version may still come."""
    soup, _ = made(EVENT, EVENT)
    join = "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k"
    pushed(soup, "orders", n=[1, 2], k=["a", "a"], t=[10, 12])
    assert asked(soup, join) == []  # the table has no watermark yet
    pushed(soup, "prices", k=["a"], price=[1], t=[10])
    assert asked(soup, join) == []
    pushed(soup, "prices", k=["a"], price=[2], t=[10])
    pushed(soup, "prices", k=["b"], price=[3], t=[11])
    assert asked(soup, join) == [(1, 2)]
    pushed(soup, "prices", k=["b"], price=[3], t=[13])
    assert asked(soup, join) == [(1, 2), (2, 2)]


def test_a_table_of_system_time_shows_tuples_before_the_clock() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    join = "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k"
    pushed(soup, "prices", k=["a"], price=[1])
    pushed(soup, "orders", n=[1], k=["a"])
    assert asked(soup, join) == []  # a price of this microsecond may follow
    pushed(soup, "prices", k=["a"], price=[2])
    clock.advance(seconds=1)
    assert asked(soup, join) == [(1, 2)]


@pytest.mark.seeded("a join AS OF reads the present versions of a table")
def test_an_upsert_does_not_rewrite_the_past() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    join = soup.register("SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k")
    pushed(soup, "prices", k=["a"], price=[1])
    clock.advance(seconds=1)
    pushed(soup, "orders", n=[1], k=["a"])
    for price in (2, 3):
        clock.advance(seconds=1)
        pushed(soup, "prices", k=["a"], price=[price])
        assert again(soup.invoke, join).to_table()["price"].to_pylist() == [1]
    assert asked(soup, "SELECT o.n, p.price FROM orders o JOIN prices p ON p.k = o.k") == [(1, 3)]


def test_a_table_that_is_idle_does_not_hold_the_join() -> None:
    soup, clock = made(EVENT, " TIMESTAMP BY t IDLE AFTER 5 SECONDS")
    join = "SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k"
    pushed(soup, "prices", k=["a"], price=[1], t=[10])
    pushed(soup, "orders", n=[1], k=["a"], t=[12])
    assert asked(soup, join) == []
    clock.advance(seconds=6)
    pushed(soup, "orders", n=[2], k=["a"], t=[13])
    assert asked(soup, join) == [(1, 1), (2, 1)]
    query = soup.register(join)
    assert soup.explain(query).nodes[0].updates == "strict, time"


def test_a_deletion_ends_a_version_and_matches_nothing() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    for number, row in enumerate(({"price": [1], "_deleted": [False]}, {"price": [None], "_deleted": [True]})):
        pushed(soup, "prices", k=["a"], **row)
        clock.advance(seconds=1)
        pushed(soup, "orders", n=[number], k=["a"])
        clock.advance(seconds=1)
    join = "FROM orders o LEFT JOIN prices p AS OF o ON p.k = o.k"
    assert asked(soup, f"SELECT o.n, p.price, p.k {join}") == [(0, 1, "a"), (1, None, None)]
    assert asked(soup, f"SELECT o.n {join} WHERE p.price IS NULL") == [(1,)]
    assert asked(soup, f"SELECT count(*), count(p.k) {join}") == [(2, 1)]
    assert asked(soup, "SELECT o.n FROM orders o JOIN prices p AS OF o ON p.k = o.k WHERE p.price IS NULL") == []


def test_joins_as_of_stand_among_other_joins() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    soup.execute("CREATE TABLE names (k TEXT, region BIGINT, name TEXT, PRIMARY KEY (k, region))")
    pushed(soup, "prices", k=["a", "b"], price=[1, 5])
    pushed(soup, "names", k=["a", "a", "b"], region=[1, 2, 1], name=["A1", "A2", "B1"])
    clock.advance(seconds=1)
    pushed(soup, "orders", n=[1, 2, 3], k=["a", "b", "c"])
    clock.advance(seconds=1)
    pushed(soup, "prices", k=["a"], price=[100])
    pushed(soup, "names", k=["a"], region=[1], name=["new"])
    clock.advance(seconds=1)
    both = "orders o JOIN prices p AS OF o ON p.k = o.k JOIN names x AS OF o ON x.k = o.k AND x.region = 1"
    assert asked(soup, f"SELECT o.n, p.price, x.name FROM {both}") == [(1, 1, "A1"), (2, 5, "B1")]
    mixed = "orders o LEFT JOIN names x AS OF o ON x.k = o.k AND x.region = o.n JOIN prices p ON p.k = o.k"
    assert asked(soup, f"SELECT o.n, p.price, x.name FROM {mixed}") == [(1, 100, "A1"), (2, 5, None)]
    inside = "SELECT 1 FROM orders y JOIN prices p AS OF y ON p.k = y.k WHERE y.n = o.n AND p.price < 5"
    assert asked(soup, f"SELECT o.n FROM orders o WHERE EXISTS ({inside})") == [(1,)]
    assert asked(soup, f"SELECT o.n FROM orders o WHERE NOT EXISTS ({inside})") == [(2,), (3,)]
    grouped = f"SELECT p.price, count(*) FROM {both} GROUP BY p.price ORDER BY 1"
    assert asked(soup, f"{grouped} LIMIT 1") == [(1, 1)]
    earlier = clock.now() - 1_500_000
    assert asked(soup, f"SELECT o.n, p.price FROM {both}", as_of=earlier) == [(1, 1), (2, 5)]


def test_why_and_explain_name_the_version_that_held() -> None:
    soup, clock = made(SYSTEM, SYSTEM)
    query = soup.register("SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k")
    for price in (1, 2):
        pushed(soup, "prices", k=["a"], price=[price])
        clock.advance(seconds=1)
        pushed(soup, "orders", n=[price], k=["a"])
        clock.advance(seconds=1)
    pushed(soup, "orders", n=[3], k=["b"])
    clock.advance(seconds=1)
    condition = "AS OF JOIN o.k = p.k AND p holds at o._time"
    for order, version in ((0, 0), (1, 1)):
        met = soup.why(query, order, source="o").steps[-1]
        assert (met.text, met.passed, met.partners) == (condition, True, (("p", version),))
        shown = soup.why(query, version, source="p")
        assert (shown.kept_out, shown.steps[-1].partners) == (None, (("o", order),))
    assert not soup.why(query, 2, source="o").steps[-1].passed
    nodes = soup.explain(query).nodes
    assert [node.updates for node in nodes] == ["monotonic"] * 4
    assert (nodes[1].operator, nodes[1].text) == ("as of join", condition)


def test_copies_of_joins_as_of_get_only_new_rows_until_history_may_lose_a_version() -> None:
    soup, clock = made(SYSTEM, SYSTEM, " HISTORY 1 MINUTE")
    query = soup.register("SELECT o.n, p.price FROM orders o JOIN prices p AS OF o ON p.k = o.k")
    assert "  copies   only new rows come, and the window tells which rows leave" in soup.explain(query).lines()
    copy = BoxCopy()
    for number in range(3):
        pushed(soup, "prices", k=["a"], price=[number])
        clock.advance(seconds=1)
        pushed(soup, "orders", n=[number], k=["a"])
        clock.advance(seconds=1)
        assert copy.sync(soup, query) == [(each, each) for each in range(number + 1)]
    record = soup.engine.snapshot().query(query, soup.tenant)
    assert boxed(soup.engine.snapshot(), record, Question(clock.now()))
    clock.advance(seconds=60)
    assert again(soup.invoke, query).to_table().num_rows < 3
    assert not boxed(soup.engine.snapshot(), record, Question(clock.now()))


@pytest.mark.parametrize(
    ("joined", "problem", "reason"),
    [
        ("orders o JOIN prices p AS OF o ON p.price = o.n", "p AS OF o needs the whole primary key in ON; k", "KEY"),
        ("orders o JOIN prices p AS OF o ON upper(p.k) = o.k", "k has no equality", "KEY"),
        ("orders o JOIN prices p AS OF o ON p.k = p.k", "k has no equality", "KEY"),
        ("orders o JOIN numbers p AS OF o ON p.k = 0.5::DOUBLE", "k has no equality", "KEY"),
        ("orders o JOIN prices p AS OF o", "whole primary key", "KEY"),
        ("orders o JOIN orders p AS OF o ON p.k = o.k", "'p' is not a table", "AS_OF_WITHOUT_TABLE"),
        ("orders o JOIN (SELECT * FROM prices) p AS OF o ON p.k = o.k", "'p' is not a table", "AS_OF_WITHOUT_TABLE"),
        ("orders o JOIN prices p AS OF z ON p.k = o.k", "they are called o", "UNKNOWN_SOURCE"),
        ("prices o JOIN prices p AS OF o ON p.k = o.k", "it is a table", "AS_OF_WITHOUT_STREAM"),
        ("(SELECT k FROM orders LIMIT 1) o JOIN prices p AS OF o ON p.k = o.k", "a subselect", "AS_OF_WITHOUT_STREAM"),
        ("prices p AS OF o JOIN orders o ON p.k = o.k", "needs a JOIN before it", "SQL"),
        ("orders o, prices p AS OF o WHERE p.k = o.k", "needs a JOIN before it", "SQL"),
        ("orders o JOIN prices AS OF o p AS OF o ON p.k = o.k", "has one AS OF", "SQL"),
        ("orders o FULL JOIN prices p AS OF o ON p.k = o.k", "FULL JOIN with AS OF", "NOT_SUPPORTED"),
        ("orders o CROSS JOIN prices p AS OF o", "CROSS JOIN with AS OF", "NOT_SUPPORTED"),
    ],
)
def test_joins_as_of_that_are_refused(joined: str, problem: str, reason: str) -> None:
    soup, _ = made(SYSTEM, SYSTEM)
    soup.execute("CREATE TABLE numbers (k BIGINT, PRIMARY KEY (k))")
    with pytest.raises(SqlError) as refused:
        soup.ask(f"SELECT 1 AS one FROM {joined}")
    assert problem in str(refused.value) and reason in refused.value.reason
    assert refused.value.hint


def test_of_may_be_the_name_of_a_source() -> None:
    soup, _ = made(SYSTEM, SYSTEM)
    assert asked(soup, "SELECT of.k FROM orders o JOIN prices AS of ON of.k = o.k") == []

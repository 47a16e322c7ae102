"""EXISTS, IN, SEMI and ANTI over a table AS OF a stream: a tuple has a version at its own time, or has none."""

from __future__ import annotations

import random

import pytest

from psoup.errors import SqlError
from psoup_testing.oracles.as_of_duel import BY_CLOCK, EVENT, SYSTEM, Copy, Model, made, push, pushed
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept

EXISTING = {
    "EXISTS (SELECT 1 FROM prices p AS OF o WHERE p.k = o.k)": (0, True),
    "NOT EXISTS (SELECT 1 FROM prices p AS OF o WHERE p.k = o.k)": (0, False),
    "EXISTS (SELECT * FROM prices AS OF o p WHERE o.k = p.k AND p.price >= 5)": (5, True),
    "NOT EXISTS (SELECT 1 FROM prices p AS OF o WHERE o.k = p.k AND p.price + o.n >= 5 + o.n)": (5, False),
    "o.k IN (SELECT p.k FROM prices p AS OF o)": (0, True),
    "o.k IN (SELECT k FROM prices AS OF o WHERE price >= 5) AND o.n >= 0": (5, True),
}
"""Conditions on versions of the time of an order: the least price, and whether the version must be there."""
EXISTING_JOINS = {
    "SELECT o.n FROM orders o SEMI JOIN prices p AS OF o ON p.k = o.k": (0, True),
    "SELECT o.n FROM orders o ANTI JOIN prices p AS OF o ON p.k = o.k AND p.price >= 5": (5, False),
    "SELECT count(*) AS n FROM orders o WHERE NOT EXISTS (SELECT 1 FROM prices p AS OF o WHERE p.k = o.k)": (0, False),
    **{f"SELECT o.n FROM orders o WHERE {condition}": case for condition, case in EXISTING.items()},
}


@pytest.mark.parametrize(("stream", "table"), swept([(SYSTEM, SYSTEM), (EVENT, EVENT), (SYSTEM, BY_CLOCK)], fast=(1,)))
def test_a_tuple_has_or_has_no_version_at_its_own_time(stream: str, table: str) -> None:
    """EXISTS, IN, SEMI and ANTI over a table AS OF a stream."""
    for seed in range(scaled(4)):
        drawn = random.Random(seed)
        from_arrival = seed % 2 == 0
        soup, clock = made(stream, table, f" FIRST VERSION FROM {'ARRIVAL' if from_arrival else 'START'}")
        model = Model(from_arrival=from_arrival)
        queries = {soup.register(text): (*case, text) for text, case in EXISTING_JOINS.items()}
        copies = {query: Copy() for query in queries}
        for number in range(16):
            clock.advance(seconds=drawn.randint(0, 2))
            push(soup, clock, model, drawn, number, stream, table)
            for query in drawn.sample(list(queries), 1):
                floor, wanted, text = queries[query]
                answer = again(soup.invoke, query)
                rows = [tuple(row.values()) for row in answer.to_table().to_pylist()]
                now = answer.completeness.now
                model_rows = [
                    (n,) for n, price in model.rows(now, floor, left=True, width=10**6) if (price is not None) is wanted
                ]
                if "count" in text:
                    model_rows = [(len(model_rows),)]
                assert rows == model_rows, (seed, number, text)
                assert answer.unknown == (model.unknown(now, 10**6) if table else 0), (seed, number, text)
                copies[query].sync(soup, query)
                assert copies[query].rows == rows, (seed, number, text)


def test_why_and_explain_of_versions_that_exist_or_do_not() -> None:
    soup, _ = made(EVENT, EVENT)
    where = "SELECT o.n FROM orders o WHERE {} (SELECT 1 FROM prices p AS OF o WHERE p.k = o.k AND p.price > 1)"
    queries = [soup.register(where.format(kind)) for kind in ("EXISTS", "NOT EXISTS")]
    pushed(soup, "prices", k=["a", "a", "b"], price=[1, 2, 3], t=[10, 20, 30])
    pushed(soup, "orders", n=[1, 2], k=["a", "a"], t=[15, 25])
    assert [again(soup.invoke, query).to_table()["n"].to_pylist() for query in queries] == [[2], [1]]
    whys = [[soup.why(query, order, source="o").steps[-1] for order in (0, 1)] for query in queries]
    assert [[(step.kind, step.passed, step.partners) for step in steps] for steps in whys] == [
        [("partner", False, ()), ("partner", True, (("p", 1),))],
        [("absence", True, ()), ("absence", False, (("p", 1),))],
    ]
    assert [soup.explain(query).nodes[0].updates for query in queries] == ["monotonic", "strict, rows of prices"]
    texts = [soup.explain(query).nodes[1].text for query in queries]
    assert texts == [f"AS OF {kind} JOIN o.k = p.k AND p holds at o._time" for kind in ("SEMI", "ANTI")]


@pytest.mark.parametrize(
    ("joined", "problem", "reason"),
    [
        ("orders o WHERE o.k NOT IN (SELECT k FROM prices AS OF o)", "NOT IN with AS OF", "NOT_SUPPORTED"),
        ("orders o WHERE EXISTS (SELECT 1 FROM prices p AS OF o)", "whole primary key in WHERE; k", "KEY"),
        ("orders o WHERE EXISTS (SELECT 1 FROM orders p AS OF o WHERE p.k = o.k)", "'p' is not a table", "TABLE"),
        ("orders o WHERE EXISTS (SELECT 1 FROM prices p AS OF z WHERE p.k = o.k)", "they are called o", "SOURCE"),
        ("orders o WHERE EXISTS (SELECT 1 FROM prices p AS OF o, orders x WHERE p.k = o.k)", "a JOIN before", "SQL"),
        ("orders o WHERE EXISTS (SELECT 1 FROM orders x, prices p AS OF o WHERE p.k = o.k)", "a JOIN before", "SQL"),
        ("orders o WHERE EXISTS (SELECT count(*) FROM prices p AS OF o WHERE p.k = 'a')", "a JOIN before", "SQL"),
        ("orders o WHERE 1 = (SELECT max(p.price) FROM prices p AS OF o WHERE p.k = o.k)", "a JOIN before", "SQL"),
        (
            "orders o WHERE EXISTS (SELECT 1 FROM orders x WHERE x.n = o.n AND"
            " EXISTS (SELECT 1 FROM prices p AS OF x WHERE p.k = x.k AND p.price = o.n))",
            "two levels up",
            "NOT_SUPPORTED",
        ),
    ],
)
def test_subselects_as_of_that_are_refused(joined: str, problem: str, reason: str) -> None:
    soup, _ = made(SYSTEM, SYSTEM)
    with pytest.raises(SqlError) as refused:
        soup.ask(f"SELECT 1 AS one FROM {joined}")
    assert problem in str(refused.value) and reason in refused.value.reason
    assert refused.value.hint

"""Static optimization (SIGMOD 2004), example 1: three plans of one join, as a step takes longer.

    SELECT A.a, B.b, C.c FROM A [ROWS 10], B [ROWS 10], C [ROWS 10] WHERE A.a = B.a AND B.b = C.b
    rates 10, 70 and 20 a second; f(A, B) = 0.5, f(B, C) = 0.2

    plan          joins a second   0.5 ms a tuple   3 ms    5 ms
    (a) (A B) C   500              25 %             150 %   sheds load
    (b) (B C) A   280              14 %              84 %   sheds load
    (c) (A C) B   400              20 %             120 %   sheds load

The plans are formulas, as PSoup has no optimizer of this kind. It answers the query itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.reproduce.static_optimization_2004.example import RATES, STREAMS
from benchmarks.reproduce.static_optimization_2004.plans import shares, throughput
from psoup.local import LocalPSoup
from psoup_testing.oracles.questions import again

QUERY = "SELECT A.a, B.b, C.c FROM A [ROWS 10], B [ROWS 10], C [ROWS 10] WHERE A.a = B.a AND B.b = C.b"
OUTPUT = 1_000
"""Tuples a second of every plan that sheds no load."""


@pytest.mark.parametrize(("order", "joins"), [("ABC", 500), ("BCA", 280), ("ACB", 400)])
def test_example_1_a_plan_takes_time_for_its_inputs_and_for_what_is_between_its_joins(order: str, joins: int) -> None:
    plan = STREAMS.left_deep(order)
    assert plan.cost @ RATES == pytest.approx(joins)
    assert plan.output @ RATES == pytest.approx(OUTPUT)
    rate = dict(zip(STREAMS.names, RATES, strict=True))
    first, second = order[0], order[1]
    selectivity = STREAMS.selectivities.get(frozenset((first, second)), 1.0)
    between = selectivity * (10 * rate[first] + 10 * rate[second])
    assert joins == pytest.approx(RATES.sum() + between)


@pytest.mark.parametrize(
    ("step_ms", "used"),
    [(0.5, {"ABC": 25, "BCA": 14, "ACB": 20}), (3, {"ABC": 150, "BCA": 84, "ACB": 120})],
)
def test_example_1_only_plan_b_is_feasible_at_3_ms(step_ms: float, used: dict[str, float]) -> None:
    for order, percent in used.items():
        plan = STREAMS.left_deep(order)
        assert plan.cost @ RATES * step_ms / 10 == pytest.approx(percent)
        output = throughput(plan.cost * RATES, plan.output * RATES, np.array(1e3 / step_ms))
        assert bool(output >= OUTPUT - 1e-9) is (percent <= 100)


def test_example_1_the_cheapest_plan_is_not_the_best_one_to_shed_load_from() -> None:
    """At 5 ms there is time for 200 tuples a second. Plan (c) drops tuples of A, plan (b) tuples of B and C."""
    outputs = {}
    for order in ("BCA", "ACB"):
        plan = STREAMS.left_deep(order)
        part = shares(plan.cost * RATES, plan.output * RATES, np.array(200.0))
        outputs[order] = part @ (plan.output * RATES)
        assert part @ (plan.cost * RATES) == pytest.approx(200)
    assert outputs == pytest.approx({"BCA": 733.33, "ACB": 818.18}, rel=1e-4)


def test_example_1_runs_in_psoup_with_the_answer_of_any_order() -> None:
    """PSoup drops no tuple, so its answer has every triple of the last ten rows."""
    rng, soup = np.random.default_rng(1), LocalPSoup()
    rows = {"A": ("a",), "B": ("a", "b"), "C": ("b", "c")}
    values = {name: rng.integers(0, 3, (len(columns), 25)) for name, columns in rows.items()}
    for name, columns in rows.items():
        soup.execute(f"CREATE STREAM {name} ({', '.join(f'{column} BIGINT' for column in columns)})")
        soup.push(name, pa.table(dict(zip(columns, values[name], strict=True))))
    a, b, c = (values[name][:, -10:] for name in "ABC")
    wanted = [(x, y, z) for (x,) in a.T for u, y in b.T for v, z in c.T if x == u and y == v]
    answer = again(soup.invoke, soup.register(QUERY)).to_table()
    assert sorted(zip(*(column.to_pylist() for column in answer.columns), strict=True)) == sorted(wanted)
    assert wanted

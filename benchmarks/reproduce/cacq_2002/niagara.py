"""CACQ against NiagaraCQ: many queries of a selection and a join, as comparisons and as costly functions.

CACQ's plan and NiagaraCQ's PushDown and PullUp are emulated (`emulators.cacq.niagara_plans`). PSoup answers the same
queries over the same tuples (`niagara_runs`). PSoup's times include the answers: an Arrow table for each query. The
numbers of tuples and queries are a reconstruction, as our text of the paper lost its numbers.
"""

from __future__ import annotations

import math

from benchmarks.reproduce.cacq_2002.niagara_runs import (
    BODIES,
    NAMES,
    drawn_constants,
    drawn_update,
    plan_times,
    supplied,
)
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import Differs, Measured, Series, Shape, ratio
from benchmarks.tool.run import Run

COUNTS = (1, 5, 10, 25, 50, 100, 200)
ARTICLES = (1, 2, 4, 8, 16, 32)
STOCKS = 2_000
"""Stocks of an update, each with one article."""
FEWER_STOCKS = 500
"""Stocks of an update, if functions select them."""
FUNCTIONS = 20
"""Queries with a function."""
MOST_STEPS = 10_000
"""The most steps of a function. A step takes 1.9 ns."""
KINDS = dict(
    zip(NAMES, ("product", "emulator", "emulator", "emulator", "by hand: a loop over tuples and queries"), strict=True)
)
_LEVEL = 0.9
"""Times of a millisecond vary by a tenth. The two plans differ by 3 to 40 % from run to run."""
_SOURCE = "CACQ (SIGMOD 2002), against NiagaraCQ,"
_TUPLES = f"articles of {BODIES[0]} to {BODIES[1]:,} bytes, uniform prices, one thread; a reconstruction"


def selections(run: Run) -> Experiment:
    """The time of an update against the number of queries with a comparison."""
    counts, stocks = run.of(COUNTS, (COUNTS[0], COUNTS[2], COUNTS[-1]), (1, 3)), run.of(STOCKS, STOCKS, 60)
    update = drawn_update(stocks, 1)
    series = _by_name({count: plan_times(update, drawn_constants(count), run.of(11, 5, 1)) for count in counts})
    product, cacq, push_down, pull_up, _ = series.values()
    few, many = counts[0], counts[-1]
    shapes = [
        Shape("with one query CACQ's plan is faster than PullUp", ratio(pull_up, cacq, few, 1), Differs(0.95, _WIDTH)),
        Shape(f"with {many} queries CACQ's plan is somewhat slower than PullUp", ratio(cacq, pull_up, many, _LEVEL, 3)),
        Shape("with more than one query PushDown is always slower than CACQ's plan", least_ratio(push_down, cacq, few)),
        Shape("with one query PSoup is faster than PullUp", ratio(pull_up, product, few, 1), Differs(0.08, _FIXED)),
        Shape(
            f"with {many} queries PSoup is somewhat slower than PullUp",
            ratio(product, pull_up, many, 1, 3),
            Differs(85, _ANSWERS),
        ),
        Shape(
            f"with {many} queries PushDown is slower than PSoup",
            ratio(push_down, product, many, 1),
            Differs(0.21, _ANSWERS),
        ),
    ]
    published = (
        "CACQ is faster than PullUp, NiagaraCQ's better plan, for small numbers of queries, because it selects before"
        " it joins, and slightly slower for large ones, because of its tuples' state; PushDown is always slower"
    )
    parameters = f"{stocks:,} stocks with one article each; some query selects each of them; {_TUPLES}"
    facts = "queries", "ms", series, shapes, KINDS
    return Experiment("R14", "niagara", f"{_SOURCE} selections", published, *facts, parameters=parameters)


def functions(run: Run) -> Experiment:
    """The time of an update against the articles of a stock, for queries with a function of the stock."""
    fanouts = run.of(ARTICLES, ARTICLES[:5:2], ARTICLES[:2])
    stocks, most_steps = run.of(FEWER_STOCKS, FEWER_STOCKS // 2, 30), run.of(MOST_STEPS, MOST_STEPS, 100)
    constants = drawn_constants(run.of(FUNCTIONS, FUNCTIONS, 3))
    with supplied():
        times = {
            each: plan_times(drawn_update(stocks, each), constants, run.of(5, 3, 1), most_steps) for each in fanouts
        }
    series = _by_name(times)
    product, cacq, push_down, pull_up, _ = series.values()
    last = fanouts[-1]
    shapes = [
        Shape(
            f"PullUp calls the functions for each joined tuple: from 1 to {last} articles its time rises {last} times",
            ratio({0: pull_up[last]}, {0: pull_up[1]}, 0, 0.7 * last, 1.3 * last),
        ),
        Shape("the time of CACQ's plan rises less than a fifth as fast as PullUp's", rise_ratio(cacq, pull_up)),
        Shape("the time of PSoup rises less than a fifth as fast as PullUp's", rise_ratio(product, pull_up)),
        Shape(f"with {last} articles PushDown is slower than CACQ's plan", ratio(push_down, cacq, last, 1)),
        Shape(
            "with one article PullUp is slower than CACQ's plan", ratio(pull_up, cacq, 1, 1.02), Differs(1.0, _EQUAL)
        ),
    ]
    published = (
        "NiagaraCQ's time grows with the articles of a quote, because its plan with a single join calls the functions"
        " after the join; CACQ calls them before it, and is faster with one article already; PushDown is slower"
    )
    spinning = f"a function that spins for 0 to {most_steps:,} steps of 1.9 ns"
    parameters = f"{len(constants)} queries with {spinning}, {stocks} stocks; {_TUPLES}"
    facts = "articles of a stock", "ms", series, shapes, KINDS
    return Experiment("R15", "niagara_functions", f"{_SOURCE} functions", published, *facts, parameters=parameters)


_WIDTH = (
    "a selection reads the price where it lies, in a stock or in a joined tuple that was just written; the state of a"
    " tuple costs a little, even for one query"
)
_FIXED = "the two pushes take PSoup 4 ms, and an answer takes 0.5 ms; the plans take the tuples as arrays"
_ANSWERS = (
    "each of PSoup's queries gets an Arrow table with its own copy of the articles, 130 MB in all, and a join of its"
    " own; without the articles the answers take a fifth of the time. The plans hand on references"
)
_EQUAL = "a function spins as long over a stock as over a joined tuple, and reads the price where it lies"


def _by_name(times: dict[int, dict[str, float]]) -> dict[str, dict[int, float]]:
    """Times by point and series as series."""
    return {name: {point: spent[name] for point, spent in times.items()} for name in NAMES}


def least_ratio(over: Series, under: Series, first: int) -> Measured:
    """The least ratio of two series after the first point. It holds if it is above 1."""
    figure = min(over[point] / under[point] for point in over if point > first)
    return Measured(figure, figure > 1)


def rise_ratio(slow: Series, fast: Series) -> Measured:
    """The rise of a series by the rise of another, from the first point to the last. It holds if it is below 0.2."""
    first, *_, last = slow
    rises = slow[last] - slow[first], fast[last] - fast[first]
    figure = rises[0] / rises[1] if rises[1] else math.inf
    return Measured(figure, figure < 0.2)

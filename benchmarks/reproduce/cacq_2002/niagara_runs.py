"""The runs of CACQ's comparison with NiagaraCQ: the times of three emulated plans, of a plain loop, and of PSoup.

    articles ──> all plans ──> the outputs of all queries     SELECT * FROM stocks s, articles a
    stocks   ──>                                              WHERE s.price > constant AND s.symbol = a.symbol

A run is one update: all articles, then all stocks, until all queries have their outputs. Prices and constants are
uniform, and the first constant is below all prices. So some query selects each tuple. With functions in place of
`s.price > constant`, PSoup calls the function that the plans call, by `psoup.functions`. The text that we have of the
paper lost its numbers, so these are a reconstruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.reproduce.emulators.cacq.niagara_plans import Array, Articles, Plans, by_hand, selections, spins_each
from benchmarks.reproduce.processor_time import in_turns
from psoup.config import EngineConfig
from psoup.expressions import supplied_functions
from psoup.functions import MARK, function
from psoup.local import LocalPSoup
from psoup.sql.supplied_names import make_known

PRICES = 10_000
BODIES = 200, 1_000
"""The fewest and most bytes of an article."""
_WORD = 8
_SHORT = 5
"""Measurements of the plans for each one of PSoup, if an update takes them a millisecond."""
NAMES = ("PSoup", "CACQ's plan", "PushDown", "PullUp", "by hand")


class Update(NamedTuple):
    """The tuples that come: stocks, int64[n, 2] of symbol and price, and articles."""

    stocks: Array
    articles: Articles


def drawn_update(stocks: int, articles_of_stock: int) -> Update:
    """A random update with as many articles of each stock."""
    rng = np.random.default_rng([31, stocks, articles_of_stock])
    symbols = rng.permutation(np.repeat(np.arange(stocks), articles_of_stock))
    lengths = rng.integers(BODIES[0] // _WORD, BODIES[1] // _WORD + 1, len(symbols))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    words = rng.integers(ord("a"), ord("z") + 1, _WORD * starts[-1], np.uint8).view(np.int64)
    return Update(
        np.column_stack([np.arange(stocks), rng.integers(0, PRICES, stocks)]), Articles(symbols, starts, words)
    )


def drawn_constants(queries: int) -> Array:
    """The constant of each query, int64[queries], all distinct. The first selects every tuple."""
    chosen = np.random.default_rng([32, queries]).choice(PRICES, queries - 1, replace=False)
    return np.concatenate([[-1], chosen]).astype(np.int64)


def plan_times(update: Update, constants: Array, repeats: int, most_steps: int = 0) -> dict[str, float]:
    """Milliseconds of an update by name. `most_steps`: the most steps of a function; 0: the selections are comparisons.

    PSoup is measured before the plans, because its calls empty the caches of the processor. Raises AssertionError if
    the plans and PSoup have other numbers of outputs.
    """
    pairs = len(update.articles.symbols)
    plans = Plans(selections(constants, most_steps), len(constants) * pairs)
    engines = [engine_of(constants, most_steps) for _ in range(repeats + 1)]
    outputs = np.zeros((3, len(constants) * pairs), np.int64)
    calls: dict[str, Callable[[], int]] = {
        "PSoup": partial(_answer_all, engines, *tables_of(update)),
        "CACQ's plan": lambda: plans.cacq(*update).shape[1],
        "PushDown": lambda: plans.push_down(*update).shape[1],
        "PullUp": lambda: plans.pull_up(*update).shape[1],
        "by hand": lambda: by_hand(*update, constants, most_steps, outputs),
    }
    counts = {name: call() for name, call in calls.items()}
    if len(set(counts.values())) != 1:
        raise AssertionError(f"the numbers of outputs differ: {counts}")
    product = {"PSoup": calls.pop("PSoup")}
    turns = repeats if most_steps else _SHORT * repeats
    return in_turns(product, repeats) | in_turns(calls, turns)


def statement(constant: int, query: int, most_steps: int) -> str:
    """The query for PSoup."""
    selection = f"spins_above(s.price, {constant}, {query}, {most_steps})" if most_steps else f"s.price > {constant}"
    return f"SELECT * FROM stocks s, articles a WHERE {selection} AND s.symbol = a.symbol"


def engine_of(constants: Array, most_steps: int) -> LocalPSoup:
    """PSoup with the queries, and no tuples."""
    local = LocalPSoup(EngineConfig())
    local.execute("CREATE STREAM stocks (symbol BIGINT NOT NULL, price BIGINT NOT NULL)")
    local.execute("CREATE STREAM articles (symbol BIGINT NOT NULL, body TEXT NOT NULL)")
    local.register_many([statement(int(constant), query, most_steps) for query, constant in enumerate(constants)])
    return local


def tables_of(update: Update) -> tuple[pa.Table, pa.Table]:
    """The stocks and the articles as Arrow tables."""
    symbols, starts, words = update.articles
    offsets = pa.py_buffer((starts * _WORD).astype(np.int32))
    bodies = pa.StringArray.from_buffers(len(symbols), offsets, pa.py_buffer(words))
    stocks = {"symbol": update.stocks[:, 0].copy(), "price": update.stocks[:, 1].copy()}
    return pa.table(stocks), pa.table({"symbol": symbols, "body": bodies})


def _answer_all(engines: list[LocalPSoup], stocks: pa.Table, articles: pa.Table) -> int:
    """Push an update to an engine that has none yet, and read the answers of all queries. Returns their rows."""
    local = engines.pop()
    local.push("articles", articles)
    local.push("stocks", stocks)
    return sum(local.invoke(query).to_table().num_rows for query in local.queries())


@contextmanager
def supplied() -> Iterator[None]:
    """A context in which statements may call `spins_above`."""
    make_known([getattr(spins_above, MARK)])
    try:
        yield
    finally:
        supplied_functions.install(())


@function(["BIGINT", "BIGINT", "BIGINT", "BIGINT"], "BOOLEAN", cost=1_000)
def spins_above(value: pa.Array, constant: pa.Array, query: pa.Array, most_steps: pa.Array) -> pa.Array:
    """Compare a value with a constant, after a spin of random length."""
    return pa.array(spins_each(*(np.asarray(argument) for argument in (value, constant, query, most_steps))))

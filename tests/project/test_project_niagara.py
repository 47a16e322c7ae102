"""The emulated plans of NiagaraCQ and CACQ: their outputs equal a recomputation, and PSoup's answers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.reproduce.cacq_2002 import niagara_runs
from benchmarks.reproduce.cacq_2002.niagara import least_ratio, rise_ratio
from benchmarks.reproduce.cacq_2002.niagara_runs import (
    Update,
    drawn_constants,
    drawn_update,
    engine_of,
    supplied,
    tables_of,
)
from benchmarks.reproduce.emulators.cacq.niagara_plans import Articles, Plans, by_hand, selections, spins

Outputs = set[tuple[int, int, int]]
PLANS = ("push_down", "pull_up", "cacq")
STEPS = 40


def some_update(stocks: int, articles: int, symbols: int) -> Update:
    """An update with symbols by chance: some stocks have no article, some articles have no stock."""
    rng = np.random.default_rng([stocks, articles, symbols])
    lengths = rng.integers(0, 9, articles)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    words = rng.integers(0, 2**62, starts[-1])
    rows = np.column_stack([rng.integers(0, symbols, stocks), rng.integers(0, 20, stocks)])
    return Update(rows, Articles(rng.integers(0, symbols, articles), starts, words))


def recomputed(update: Update, constants: np.ndarray) -> Outputs:
    return {
        (query, row, article)
        for query, constant in enumerate(constants.tolist())
        for row, (symbol, price) in enumerate(update.stocks.tolist())
        for article, other in enumerate(update.articles.symbols.tolist())
        if price > constant and symbol == other
    }


def as_set(outputs: np.ndarray) -> Outputs:
    rows = [(int(query), int(stock), int(article)) for query, stock, article in outputs.T]
    assert len(set(rows)) == len(rows)
    return set(rows)


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("most_steps", [0, STEPS])
@pytest.mark.parametrize(("stocks", "articles", "symbols", "queries"), [(40, 30, 12, 5), (30, 50, 3, 70), (9, 1, 1, 1)])
def test_each_plan_has_the_outputs_of_a_recomputation(
    stocks: int, articles: int, symbols: int, queries: int, most_steps: int
) -> None:
    update = some_update(stocks, articles, symbols)
    constants = np.random.default_rng(queries).integers(-1, 20, queries)
    wanted = recomputed(update, constants)
    room = queries * stocks * articles
    plans = Plans(selections(constants, most_steps), room)
    for name in PLANS:
        assert as_set(getattr(plans, name)(*update)) == wanted, name
    outputs = np.zeros((3, room), np.int64)
    assert as_set(outputs[:, : by_hand(*update, constants, most_steps, outputs)]) == wanted


@pytest.mark.parametrize("name", PLANS)
def test_a_joined_tuple_is_copied_as_a_whole(name: str) -> None:
    update = drawn_update(1, 2)
    plans = Plans(selections(np.array([-1])), 2)
    assert getattr(plans, name)(*update).shape[1] == 2
    symbols, starts, words = update.articles
    joined = [[*update.stocks[0], symbols[row], *words[starts[row] : starts[row + 1]]] for row in range(2)]
    assert plans.ring[: len(words) + 6].tolist() == joined[0] + joined[1]


def test_a_full_ring_begins_again() -> None:
    update = drawn_update(2_000, 1)
    plans = Plans(selections(drawn_constants(3)), 6_000)
    assert update.articles.starts[-1] > len(plans.ring)
    counts = {getattr(plans, name)(*update).shape[1] for name in PLANS}
    assert counts == {int(sum((update.stocks[:, 1] > constant).sum() for constant in drawn_constants(3)))}


def test_a_function_compares_whatever_it_spins() -> None:
    values = np.random.default_rng(5).integers(0, 100, 500)
    assert [spins(value, 50, 3, STEPS) for value in values] == (values > 50).tolist()


def test_some_query_selects_each_tuple() -> None:
    constants = drawn_constants(200)
    assert constants[0] < drawn_update(50, 1).stocks[:, 1].min()
    assert len(set(constants.tolist())) == 200


@pytest.mark.parametrize("most_steps", [0, STEPS])
def test_psoup_answers_with_the_outputs_of_the_plans(most_steps: int) -> None:
    update, constants = drawn_update(40, 3), drawn_constants(6)
    stocks, articles = tables_of(update)
    with supplied():
        local = engine_of(constants, most_steps)
        local.push("articles", articles)
        local.push("stocks", stocks)
        answers = [local.invoke(query).to_table() for query in local.queries()]
    outputs = Plans(selections(constants, most_steps), 6 * 120).pull_up(*update)
    for query, answer in enumerate(answers):
        _, rows, partners = outputs[:, outputs[0] == query]
        assert rows_of(answer) == rows_of(
            pa.table([*stocks.take(rows).columns, *articles.take(partners).columns], list("abcd"))
        )


@pytest.mark.parametrize("articles", [1, 8])
def test_psoup_calls_a_function_once_for_each_stock(articles: int, monkeypatch: pytest.MonkeyPatch) -> None:
    called = list[int]()

    def counting(values: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
        called.append(len(values))
        return values > arguments[0]

    monkeypatch.setattr(niagara_runs, "spins_each", counting)
    stocks, pieces = tables_of(drawn_update(50, articles))
    with supplied():
        local = engine_of(drawn_constants(4), STEPS)
        local.push("articles", pieces)
        local.push("stocks", stocks)
        assert sum(local.invoke(query).to_table().num_rows for query in local.queries()) > 50 * articles
    assert sum(called) == 4 * 50


def test_outputs_that_differ_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plans, "push_down", Plans.pull_up)
    update, constants = drawn_update(20, 2), drawn_constants(3)
    assert set(niagara_runs.plan_times(update, constants, 1)) == set(niagara_runs.NAMES)
    monkeypatch.setattr(Plans, "push_down", lambda self, *_: np.zeros((3, 1)))
    with pytest.raises(AssertionError, match="'PushDown': 1"):
        niagara_runs.plan_times(update, constants, 1)


def test_articles_are_texts_of_the_stated_lengths() -> None:
    lengths = pa.compute.binary_length(tables_of(drawn_update(500, 1))[1]["body"]).to_pylist()
    assert niagara_runs.BODIES == (200, 1_000)
    assert min(lengths) >= 200 and max(lengths) <= 1_000 and 550 < np.mean(lengths) < 650


@pytest.mark.parametrize(
    ("measured", "expected", "holds"),
    [
        (least_ratio({1: 1.0, 2: 3.0, 3: 4.0}, {1: 9.0, 2: 2.0, 3: 2.0}, 1), 1.5, True),
        (least_ratio({1: 9.0, 2: 2.0}, {1: 1.0, 2: 2.0}, 1), 1, False),
        (rise_ratio({1: 1.0, 2: 9.0, 3: 2.0}, {1: 0.0, 2: 0.0, 3: 8.0}), 0.125, True),
        (rise_ratio({1: 1.0, 2: 2.0}, {1: 0.0, 2: 5.0}), 0.2, False),
        (rise_ratio({1: 1.0, 2: 2.0}, {1: 3.0, 2: 3.0}), np.inf, False),
    ],
)
def test_a_predicate_returns_what_it_measured(measured: object, expected: float, holds: bool) -> None:
    assert (measured.value, measured.holds) == (pytest.approx(expected), holds)  # type: ignore[attr-defined]

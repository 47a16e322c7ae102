"""The emulated Nile and its sales: the generator is calibrated, and what the emulators find equals a recomputation."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.reproduce.emulators.promising_tuples.join import NO_COSTS, Costs, _promise, join
from benchmarks.reproduce.emulators.promising_tuples.queue import ASC, DESC, WEIGHTED, new_queue
from benchmarks.reproduce.emulators.promising_tuples.selection import promising, simple
from benchmarks.reproduce.emulators.promising_tuples.store import FORMS, OLD_ZONES, columns, estimate, insert, new_store
from benchmarks.reproduce.promising_tuples.joins import hist_mse, outliers, product_pairs
from benchmarks.reproduce.promising_tuples.sales import (
    ITEMS,
    SELECTIVITY,
    WINDOW,
    Sales,
    pairs_within,
    popularity,
    sales,
)
from benchmarks.reproduce.promising_tuples.selections import (
    SHARES,
    errors_of,
    exact_outputs,
    intervals_of,
    product_outputs,
)
from benchmarks.reproduce.promising_tuples.step_costs import T1_INSERT, _loop, records_of, step_costs
from benchmarks.tool.run import Size

PUBLISHED = Costs(insert=7.5, promise=1.0, visit=0.5, emit=5.0)


def sold(stores: list[int], items: list[int], seconds: list[float]) -> Sales:
    """A trace written by hand; every price is its item."""
    item = np.array(items)
    return Sales(np.array(stores), np.array(seconds), item, item, np.zeros(len(items), np.int64))


def rows(pairs: np.ndarray) -> set[int]:
    """Each pair as one number."""
    return set((pairs[:, 0] * 10**6 + pairs[:, 1]).tolist())


def test_sales_have_the_published_selectivity() -> None:
    shares = []
    for seed in range(1, 11):
        trace = sales(600, 100, seed)
        first, second = (trace.seconds[trace.store == store] for store in (0, 1))
        reach = np.searchsorted(second, first + WINDOW, "right") - np.searchsorted(second, first - WINDOW)
        shares.append(len(pairs_within(trace, WINDOW)) / reach.sum())
    assert np.mean(shares) == pytest.approx(SELECTIVITY, rel=0.2)


def test_sales_follow_zipf_in_both_stores() -> None:
    chances, top = popularity(), 5
    assert chances[0] / chances[9] == pytest.approx(10**1.1)
    traces = [sales(3_000, 100, seed) for seed in range(1, 11)]
    for store in (0, 1):
        share = [
            np.isin(trace.item[trace.store == store], np.random.default_rng(seed).permutation(ITEMS)[:top]).mean()
            for seed, trace in enumerate(traces, 1)
        ]
        assert np.mean(share) == pytest.approx(chances[:top].sum(), rel=0.1)


def test_sales_are_exponential_and_seeded() -> None:
    trace, again = sales(600, 50), sales(600, 50)
    gaps = np.diff(trace.seconds)
    assert gaps.mean() == pytest.approx(0.05, rel=0.05) and gaps.std() == pytest.approx(gaps.mean(), rel=0.1)
    assert all(np.array_equal(column, same) for column, same in zip(trace, again, strict=True))
    assert trace.store.mean() == pytest.approx(0.5, abs=0.02)


def test_pairs_are_those_of_two_loops() -> None:
    trace = sales(30, 100)
    wanted = {
        early * 10**6 + late
        for late in range(len(trace.item))
        for early in range(late)
        if trace.item[early] == trace.item[late]
        and trace.store[early] != trace.store[late]
        and trace.seconds[late] - trace.seconds[early] <= 10
    }
    assert rows(pairs_within(trace, 10)) == wanted
    assert product_pairs(trace) == len(pairs_within(trace, WINDOW))


@pytest.mark.parametrize("name", ["SHJ", "T1"])
def test_a_join_without_summaries_finds_every_pair(name: str) -> None:
    trace = sales(150, 100)
    exact = pairs_within(trace, WINDOW)
    output = join(records_of(trace), trace.seconds, name)
    assert len(output.pairs) == len(exact) and rows(output.pairs) == rows(exact)
    whole = join(records_of(trace), trace.seconds, name, whole=True)
    assert rows(whole.pairs) == rows(pairs_within(trace, np.inf))


@pytest.mark.parametrize("name", ["T2", "T3", "T4"])
@pytest.mark.parametrize("preference", [DESC, ASC, WEIGHTED])
def test_a_join_by_summaries_finds_true_pairs_once(name: str, preference: int) -> None:
    trace = sales(100, 100)
    for whole, window in ((False, WINDOW), (True, np.inf)):
        exact = rows(pairs_within(trace, window))
        output = join(records_of(trace), trace.seconds, name, preference=preference, whole=whole)
        assert len(output.pairs) == len(rows(output.pairs))
        assert rows(output.pairs) <= exact
        assert len(output.pairs) >= 0.97 * len(exact), "estimates miss few pairs"


def test_preferences_choose_frequent_or_rare_items_first() -> None:
    trace = sales(120, 40)
    exact = pairs_within(trace, WINDOW)
    outputs = {
        preference: join(records_of(trace), trace.seconds, "T3", PUBLISHED, preference=preference).pairs
        for preference in (DESC, ASC, WEIGHTED)
    }
    assert all(rows(pairs) < rows(exact) for pairs in outputs.values())
    rare = {preference: outliers(trace, exact, pairs) for preference, pairs in outputs.items()}
    assert rare[ASC] > 2 * rare[DESC] and rare[ASC] > rare[WEIGHTED]
    assert hist_mse(trace, exact, outputs[WEIGHTED]) < hist_mse(trace, exact, outputs[DESC])


def test_less_time_gives_fewer_outputs() -> None:
    shares = []
    for interarrival in (200, 50, 10):
        trace = sales(120, interarrival)
        output = join(records_of(trace), trace.seconds, "T4", PUBLISHED)
        shares.append(output.outputs / len(pairs_within(trace, WINDOW)))
    assert shares[0] > 2 * shares[1] > 4 * shares[2]


def test_the_older_granularity_fades() -> None:
    form, count = FORMS["T3"], 200
    records = np.zeros((count, 5), np.int64)
    records[:, 0], records[:, 3] = 1, np.where(np.arange(count) < 20, 7, 8)
    store, queue = new_store(form, count), new_queue(1)
    for at in range(count):
        insert(store, form, records, at, float(at), WINDOW, True)
    assert _promise(store, form, queue, 0, 0, 7, DESC, 1.0) == 2, "the other stream has no summaries"
    _promise(store, form, queue, 0, 1, 7, DESC, 1.0)
    matches = estimate(store.sketch, form.zones + OLD_ZONES + form.zones, columns(7, form.buckets))
    assert matches == 20
    assert queue.state[0] == int(4 * matches * 0.8)


@pytest.mark.long
def test_unfinished_turns_go_on() -> None:
    trace, intervals = sales(60, 50), intervals_of(20)
    output = promising(trace.item, trace.seconds, intervals, Costs(1, 1, 0.1, 0.1), ITEMS)
    exact = exact_outputs(trace, intervals)
    assert len(output.query) >= 0.97 * len(exact.query), "there is time for all; several tuples wait for each turn"


@pytest.mark.parametrize("name", ["T2", "T3", "T4"])
def test_summaries_are_those_of_the_tuples_in_their_zones(name: str) -> None:
    trace, form = sales(200, 100), FORMS[name]
    records, store = records_of(trace), new_store(form, len(trace.item))
    for at in range(len(records)):
        insert(store, form, records, at, trace.seconds[at], WINDOW, True)
    zones = len(store.cells) // 2
    seen = 0
    for side in (0, 1):
        part = slice(side * zones, (side + 1) * zones)
        new, old = store.sketch[part][: form.zones], store.sketch[part][form.zones :]
        assert np.array_equal(new.sum(0), store.sketch[2 * zones + 2 * side])
        assert np.array_equal(old.sum(0), store.sketch[2 * zones + 2 * side + 1])
        assert store.state[side, 2] == (store.sketch[store.state[side, 0], 0].astype(np.int64) ** 2).sum()
        for zone in range(side * zones, (side + 1) * zones):
            items = []
            for first in store.cells[zone, :, 0]:
                place = int(first)
                while place >= 0:
                    items.append(int(records[place, 3]))
                    assert records[place, 0] == side
                    place = int(store.following[place])
            seen += len(items)
            wanted = np.zeros_like(store.sketch[zone])
            for item in items:
                slots = columns(item, form.buckets)
                wanted[np.arange(3), slots[:3]] += slots[3:]
            assert np.array_equal(store.sketch[zone], wanted)
    assert seen == len(records)


def test_an_estimate_is_near_the_count() -> None:
    trace, form = sales(50, 20), FORMS["T3"]
    records, store = records_of(trace), new_store(form, len(trace.item))
    for at in range(len(records)):
        insert(store, form, records, at, trace.seconds[at], WINDOW, False)
    top = len(store.sketch) - 4
    counts = np.bincount(trace.item[trace.store == 0], minlength=ITEMS)
    item = int(counts.argmax())
    assert estimate(store.sketch, top, columns(item, form.buckets)) == pytest.approx(counts[item], rel=0.2)


def test_costs_are_scaled_to_the_first_store() -> None:
    costs = step_costs(Size.TINY)
    assert costs.costs["T1"].insert == pytest.approx(T1_INSERT)
    assert set(costs.costs) == set(costs.hit) == set(FORMS)
    trace = sales(150, 100)
    assert _loop(trace.store, trace.item, trace.seconds, WINDOW) == len(pairs_within(trace, WINDOW))


def test_selections_with_all_time_find_what_a_recomputation_finds() -> None:
    trace, intervals = sales(60, 50), intervals_of(20)
    exact = exact_outputs(trace, intervals)
    last = len(trace.item) - 1  # the clock ends with the last arrival
    wanted = sorted((int(q), int(at)) for q, at in zip(exact.query, exact.tuple, strict=True) if at < last)
    for output in (
        simple(trace.item, trace.seconds, intervals, NO_COSTS),
        promising(trace.item, trace.seconds, intervals, NO_COSTS, ITEMS),
    ):
        assert sorted(zip(output.query.tolist(), output.tuple.tolist(), strict=True)) == wanted
    assert product_outputs(trace, intervals) == len(exact.query)


def test_selections_under_a_budget_find_true_outputs_once() -> None:
    trace, intervals = sales(60, 20), intervals_of(50)
    exact = exact_outputs(trace, intervals)
    true = set(zip(exact.query.tolist(), exact.tuple.tolist(), strict=True))
    for output in (
        simple(trace.item, trace.seconds, intervals, PUBLISHED),
        promising(trace.item, trace.seconds, intervals, PUBLISHED, ITEMS),
    ):
        pairs = list(zip(output.query.tolist(), output.tuple.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs) < len(true)
        assert set(pairs) <= true
        assert (output.times >= 1e3 * trace.seconds[output.tuple]).all(), "nothing is found before it arrives"


def test_intervals_have_the_published_selectivity() -> None:
    chances = np.empty(ITEMS)
    chances[np.random.default_rng(1).permutation(ITEMS)] = popularity()
    shares = [chances[low : high + 1].sum() for low, high in intervals_of(200)]
    assert min(shares) >= SHARES[0] - 1e-9 and max(shares) <= SHARES[1] + 1e-9
    assert np.mean(shares) == pytest.approx(0.075, rel=0.1)


def test_figures_of_merit_by_hand() -> None:
    trace = sold([0, 1, 0, 1, 0, 1], [1, 1, 9_999, 9_999, 1, 1], [0, 1, 2, 3, 4, 5])
    exact = np.array([[0, 1], [0, 5], [1, 4], [2, 3]])
    assert hist_mse(trace, exact, exact) == 0
    assert hist_mse(trace, exact, exact[:1]) == pytest.approx(2 * 0.25**2)
    assert outliers(trace, exact, exact) == 0.25
    assert outliers(trace, exact, exact[:1]) == 0


def test_errors_of_aggregates_by_hand() -> None:
    trace = sold([0, 0, 0], [10, 20, 30], [1.0, 2.0, 61.5])
    exact = exact_outputs(trace, np.array([[0, 100]]))
    assert errors_of(trace, 1, exact, exact) == (0, 0)
    lost = type(exact)(exact.query[1:], exact.tuple[1:], exact.times[1:])
    average, total = errors_of(trace, 1, exact, lost)
    assert average == pytest.approx((20 - 15) ** 2)
    assert total == pytest.approx(1e3 * (1 - 20 / 30) ** 2)

"""The rules of AUTO on made-up observations: half the cost, three rounds in a row, ten minutes, the work of a round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from psoup.answer.automatic.cost_model import (
    COMPLETE,
    MESSAGES,
    NEVER_S,
    NONE,
    NOT_KEPT,
    PAIRS,
    PARTIAL,
    ROWS,
    UNKNOWN,
    Observed,
    estimates,
    switch_work,
)
from psoup.answer.automatic.decisions import ROUNDS, Streaks, chosen, next_streaks
from psoup.answer.automatic.rates import Rates, next_rates

COSTS = {"half": (1.0, 0.5, 9.0), "less": (1.0, 0.49, 9.0), "more": (1.0, 2.1, 9.0), "complete": (1.0, 2.0, 0.1)}
"""Seconds in a second of PARTIAL, NONE and COMPLETE."""


def after(rounds: Sequence[str], work: float = 0.001, credit: float = 1.0, present: int = PARTIAL) -> int | None:
    """The amount that a query changes to after some rounds, or None."""
    streaks, places = Streaks(np.zeros(1, np.uint8), np.zeros(1, np.uint8)), np.array([present])
    moves = np.zeros(0, np.int64)
    for name in rounds:
        costs = np.array([COSTS[name]]).T
        streaks = next_streaks(streaks, costs, places)
        moves = chosen(streaks, costs, places, np.array([work]), credit)
    return int(streaks.wanted[0]) if len(moves) else None


def test_a_query_changes_after_three_rounds_in_which_another_amount_costs_less_than_half() -> None:
    assert ROUNDS == 3
    assert [after(["less"] * count) for count in range(1, 6)] == [None, None, NONE, NONE, NONE]
    assert after(["half"] * 9) is None
    assert after(["more"] * 9) is None
    assert after(["complete"] * 3) == COMPLETE
    assert after(["more"] * 3, present=NONE) == PARTIAL


def test_a_round_that_disagrees_begins_the_count_anew() -> None:
    assert after(["less", "less", "half", "less"]) is None
    assert after(["less", "less", "half", "less", "less"]) is None
    assert after(["less", "less", "half", "less", "less", "less"]) == NONE
    assert after(["less", "less", "complete"]) is None, "another amount was better"
    assert after(["less", "less", "complete", "complete", "complete"]) == COMPLETE


def test_a_change_pays_for_itself_within_ten_minutes() -> None:
    saving = 1.0 - 0.49
    assert after(["less"] * 3, work=600 * saving, credit=1e9) == NONE
    assert after(["less"] * 9, work=601 * saving, credit=1e9) is None


def test_the_work_of_a_round_is_bounded_and_what_saves_most_comes_first() -> None:
    count = 10
    costs = np.stack([np.linspace(1, 2, count), np.zeros(count), np.full(count, 9.0)])
    present, streaks = np.zeros(count, np.int64), Streaks(np.full(count, NONE), np.full(count, ROUNDS))
    work = np.full(count, 0.01)
    assert chosen(streaks, costs, present, work, 0.035).tolist() == [7, 8, 9]
    assert chosen(streaks, costs, present, work, 1.0).tolist() == [*range(count)]
    assert chosen(streaks, costs, present, work, -1.0).tolist() == []
    work[9] = 0.5
    assert chosen(streaks, costs, present, work, 0.025).tolist() == [7, 8], "smaller changes go first"


def seen(**facts: object) -> Observed:
    """A query that is invoked once a second. 1,000 of 65,536 tuples match, and 100 come in a second."""
    usual = {
        "places": PARTIAL,
        "rate": 1.0,
        "window": 65_536.0,
        "matches": 1_000.0,
        "arrivals": 100.0,
        "events": 1.0,
        "work": 20e-9,
        "form": ROWS,
        "in_memory": 65_536.0,
        "may_idle": True,
        "dear": False,
        "pairs": np.nan,
        "may_pair": False,
        "has_pairs": False,
        "pairing": 0.0,
        "to_pair": 0.0,
    }
    return Observed(**{name: np.array([value]) for name, value in (usual | facts).items()})


PAIRED = {"matches": 50_000.0, "form": MESSAGES, "events": 99.0, "pairs": 500.0, "may_pair": True, "pairing": 1_000.0}
"""A join that is invoked once a second, and has few pairs."""


@pytest.mark.parametrize(
    ("facts", "best"),
    [
        ({"rate": 0.0}, NONE),
        ({"rate": 0.0, "arrivals": 0.0}, PARTIAL),
        ({"rate": 0.001, "arrivals": 100_000.0}, NONE),
        ({"rate": 20.0}, COMPLETE),
        ({"rate": 20.0, "form": NOT_KEPT}, PARTIAL),
        ({"rate": 20.0, "form": UNKNOWN}, PARTIAL),
        ({"rate": 20.0, "form": MESSAGES, "arrivals": 0.0}, COMPLETE),
        ({"rate": 1.0, "form": MESSAGES, "events": 99.0}, PARTIAL),
        ({"rate": 0.0, "may_idle": False}, PARTIAL),
        ({"rate": 20.0, "dear": True}, NONE),
        (PAIRED, PAIRS),
        (PAIRED | {"may_pair": False}, PARTIAL),
        (PAIRED | {"form": NOT_KEPT}, PAIRS),
        (PAIRED | {"pairs": np.nan}, PARTIAL),
        (PAIRED | {"pairs": 60_000.0}, PARTIAL),
        (PAIRED | {"pairing": 1e7}, PARTIAL),
        (PAIRED | {"rate": 0.0}, NONE),
        (PAIRED | {"events": 0.0, "rate": 100.0}, COMPLETE),
        (PAIRED | {"dear": True}, NONE),
    ],
)
def test_the_model_prefers_an_amount(facts: dict[str, object], best: int) -> None:
    assert int(estimates(seen(**facts)).argmin(axis=0)[0]) == best


def test_a_kept_answer_stays_without_work() -> None:
    costs = estimates(seen(rate=0.0, arrivals=0.0, places=COMPLETE))
    streaks = Streaks(np.zeros(1, np.uint8), np.zeros(1, np.uint8))
    assert next_streaks(streaks, costs, np.array([COMPLETE])).rounds.tolist() == [0]


def test_an_answer_that_changes_too_much_is_not_kept() -> None:
    for rate in (0.0, 0.001, 1.0):
        assert estimates(seen(rate=rate, arrivals=60_000.0))[COMPLETE, 0] == NEVER_S
    assert estimates(seen(matches=10_000.0), most_rows=9_999)[COMPLETE, 0] >= NEVER_S


def test_a_clause_that_enters_the_index_meets_the_tuples_in_memory() -> None:
    small, large = seen(places=NONE, in_memory=1_000.0), seen(places=NONE, in_memory=1e8)
    assert switch_work(large, np.array([PARTIAL]))[0] > 100 * switch_work(small, np.array([PARTIAL]))[0]
    assert switch_work(seen(in_memory=1e8), np.array([NONE]))[0] < 0.001


def test_pairs_that_are_kept_anyway_make_an_invocation_cheaper() -> None:
    fast, usual = (estimates(seen(**PAIRED | {"may_pair": False, "has_pairs": has})) for has in (True, False))
    assert fast[PARTIAL, 0] < usual[PARTIAL, 0] / 2 and fast[PAIRS, 0] == usual[PAIRS, 0] == NEVER_S


def test_a_choice_of_pairs_makes_all_of_them() -> None:
    less, more = (switch_work(seen(**PAIRED, to_pair=tuples), np.array([PAIRS]))[0] for tuples in (1e6, 1e9))
    assert more > 100 * less
    assert switch_work(seen(**PAIRED, to_pair=1e9), np.array([PARTIAL]))[0] < 0.001


def rate_after(counts: Sequence[int], rate: float = 0.0) -> float:
    rates = Rates(np.array([rate]), np.full((1, 2), 10 * rate))
    for count in counts:
        rates = next_rates(rates, np.array([float(count)]), 10.0)
    return float(rates.rates[0])


def test_a_rate_follows_a_shift_at_once_and_is_steady_otherwise() -> None:
    assert rate_after([200]) == 20 and rate_after([200, 200]) == 20
    assert rate_after([0], rate=20) == 0
    assert rate_after([1, 1, 1]) == pytest.approx(0.1)
    assert rate_after([0, 0, 0, 0, 0, 1] * 100) == pytest.approx(1 / 60, rel=0.1)
    assert rate_after([195, 205, 199], rate=20) == pytest.approx(20, rel=0.01)

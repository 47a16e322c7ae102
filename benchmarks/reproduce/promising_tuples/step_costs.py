"""The costs of Nile's steps on the virtual clock: measured on the emulated stores, and scaled.

The scale is such that an insertion into T1 takes 3.5 ms, as in the paper's Figure 9a. (The axis says usec. Only msec
fits the paper's equation 1, outputs a tuple = (inter-arrival - t_ins) / t_hit.) A look at a tuple and an output are the
same code in all forms of store. Two forms give their costs: T1 looks at many tuples for an output, SHJ at few.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.reproduce.emulators.compiler import compiled
from benchmarks.reproduce.emulators.promising_tuples.join import ALL, INSERT, PROMISE, Costs, Joined, join
from benchmarks.reproduce.emulators.promising_tuples.store import FORMS
from benchmarks.reproduce.processor_time import milliseconds
from benchmarks.reproduce.promising_tuples.sales import WINDOW, Sales, sales
from benchmarks.tool.run import Size

T1_INSERT = 3.5
"""Milliseconds of virtual time."""
INTERARRIVAL = 100.0
"""Milliseconds, as in the paper."""


class StepCosts(NamedTuple):
    """The costs of each form of store, and the mean time of an output (t_hit), in virtual milliseconds.

    `scale`: virtual milliseconds for a nanosecond of processor time. `rates`: tuples a second that each form joins, and
    that a loop by hand joins.
    """

    costs: dict[str, Costs]
    hit: dict[str, float]
    scale: float
    rates: dict[str, float]


def records_of(trace: Sales) -> npt.NDArray[Any]:
    """The sales as (StoreID, TransactionID, TimeStamp in ms, ItemID, Price): int64[n, 5]."""
    numbers = np.arange(len(trace.item))
    return np.column_stack((trace.store, numbers, (1e3 * trace.seconds).astype(np.int64), trace.item, trace.price))


@cache
def step_costs(size: Size) -> StepCosts:
    """The costs, from runs of each form over the same sales with all time they need."""
    trace = sales(60 if size is Size.TINY else 1_000, INTERARRIVAL)
    records, repeats = records_of(trace), 1 if size is Size.TINY else 21
    best: dict[tuple[str, int], Joined] = {}
    loop = float("inf")
    for _ in range(repeats):
        loop = min(loop, milliseconds(lambda: _loop(trace.store, trace.item, trace.seconds, WINDOW)))
        for name in FORMS:
            for stage in (INSERT, PROMISE, ALL):
                ran = join(records, trace.seconds, name, stage=stage, room=0)
                before = best.get((name, stage))
                best[name, stage] = ran if before is None or ran.spent < before.spent else before
    return _scaled(best, len(records), len(records) / (1e-3 * loop))


def _scaled(best: dict[tuple[str, int], Joined], tuples: int, by_hand: float) -> StepCosts:
    scale = T1_INSERT / (best["T1", INSERT].spent / tuples)
    looks = [(best[name, ALL].visits, best[name, ALL].outputs) for name in ("T1", "SHJ")]
    spent = [best[name, ALL].spent - best[name, PROMISE].spent for name in ("T1", "SHJ")]
    visit, emit = (max(float(number), 0.0) * scale for number in np.linalg.solve(np.array(looks), np.array(spent)))
    costs, hit = dict[str, Costs](), dict[str, float]()
    for name in FORMS:
        insert, promise, whole = (best[name, stage] for stage in (INSERT, PROMISE, ALL))
        estimating = max(promise.spent - insert.spent, 0.0) / max(whole.promises, 1)
        costs[name] = Costs(scale * insert.spent / tuples, scale * estimating, visit, emit)
        hit[name] = scale * (whole.spent - insert.spent) / max(whole.outputs, 1)
    rates = {name: tuples / best[name, ALL].spent for name in FORMS} | {"by hand": by_hand}
    return StepCosts(costs, hit, scale * 1e-9, rates)


@compiled
def _loop(stores, items, seconds, window):  # type: ignore[no-untyped-def]
    """The number of pairs: a plain loop over the window of each tuple."""
    pairs, first = 0, 0
    for at in range(len(items)):
        while seconds[first] < seconds[at] - window:
            first += 1
        for before in range(first, at):
            pairs += (items[before] == items[at]) & (stores[before] != stores[at])
    return pairs

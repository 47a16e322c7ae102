"""STREAM (CIDR 2003), the table of scheduling: the tuples in queues, by the scheduler that chooses the next step.

    q1 ─> O1 ─> q2 ─> O2 ─> result        each step takes a unit of time for as many tuples as it takes at once

    FIFO          the step that has the oldest tuples: they are processed to completion in the order of arrival
    Chain         the step on the steepest segment of the lower envelope of the progress chart
    round robin   one step after the other that has tuples

Sizes are multiples of n, the tuples that arrive at once. A unit of time has one step. The product has no queues between
steps, so these are formulas.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import Series, Shape, order, value
from benchmarks.tool.run import Run

_NOTHING = 1e-12


class Step(NamedTuple):
    """A step takes `takes` tuples from its queue in a unit of time. The share `passes` of them goes on."""

    takes: float
    passes: float


STEPS = (Step(1, 0.2), Step(0.2, 0))
ARRIVALS = (1.0,) * 7 + (0.0,) * 8
FIFO = (1, 1.2, 2, 2.2, 3, 3.2, 4, 3.2, 3, 2.2, 2, 1.2, 1, 0.2, 0)
CHAIN = (1, 1.2, 1.4, 1.6, 1.8, 2, 2.2, 1.4, 1.2, 1, 0.8, 0.6, 0.4, 0.2, 0)
"""The published rows, from time 1 on; after time 7 from the text."""
CASCADE = (Step(1, 0.9), Step(0.9, 0.2), Step(0.18, 0))
"""Three steps: the first one drops little, but it feeds one that drops most."""
TUPLES, ROW_BYTES = 1_000, 100
"""n of the bursty trace, and the bytes of a tuple."""


@dataclass
class Queues:
    """The queue of each step: pairs of arrival time and size, oldest first."""

    steps: Sequence[Step]
    waiting: list[deque[tuple[int, float]]]

    def ready(self) -> list[int]:
        """The steps that have tuples."""
        return [place for place, queue in enumerate(self.waiting) if queue]

    def oldest(self, places: Sequence[int]) -> int:
        """Of some steps with tuples, the one whose first tuples arrived first; of several, the last step."""
        return min(places, key=lambda place: (self.waiting[place][0][0], -place))

    def run(self, place: int) -> None:
        """A unit of time for one step."""
        step, queue, left = self.steps[place], self.waiting[place], self.steps[place].takes
        while queue and left > _NOTHING:
            arrived, size = queue.popleft()
            taken = min(size, left)
            left -= taken
            if size - taken > _NOTHING:
                queue.appendleft((arrived, size - taken))
            if step.passes and place + 1 < len(self.steps):
                self.waiting[place + 1].append((arrived, taken * step.passes))

    @property
    def size(self) -> float:
        """The tuples in all queues."""
        return sum(size for queue in self.waiting for _, size in queue)


Scheduler = Callable[[Queues], int]
"""Chooses one of the steps that have tuples."""


def fifo(queues: Queues) -> int:
    """The step that has the oldest tuples."""
    return queues.oldest(queues.ready())


def chain(queues: Queues) -> int:
    """The step on the steepest segment; of several, the one with the oldest tuples."""
    slopes = envelope(queues.steps)
    steepest = max(slopes[place] for place in queues.ready())
    return queues.oldest([place for place in queues.ready() if slopes[place] > steepest - _NOTHING])


def round_robin() -> Scheduler:
    """A scheduler that takes the steps in turn."""
    last = -1

    def next_step(queues: Queues) -> int:
        nonlocal last
        last = min(queues.ready(), key=lambda place: (place <= last, place))
        return last

    return next_step


def envelope(steps: Sequence[Step]) -> list[float]:
    """The slope of the lower envelope over each step: how many tuples its segment removes in a unit of time.

    The progress chart of a tuple has its size after each step, over the time that it has taken. From a point, the
    envelope goes to that later point to which the line falls most steeply.
    """
    times, sizes = [0.0], [1.0]
    for step in steps:
        times.append(times[-1] + sizes[-1] / step.takes)
        sizes.append(sizes[-1] * step.passes)
    slopes = list[float]()
    while len(slopes) < len(steps):
        at = len(slopes)
        falls = [(sizes[at] - sizes[to]) / (times[to] - times[at]) for to in range(at + 1, len(times))]
        steepest = max(falls)
        slopes += [steepest] * (falls.index(steepest) + 1)
    return slopes


def sizes_of(steps: Sequence[Step], arrivals: Sequence[float], scheduler: Scheduler) -> list[float]:
    """The tuples in queues at each time, after what arrives then."""
    queues = Queues(steps, [deque() for _ in steps])
    sizes = []
    for time, arriving in enumerate(arrivals):
        if arriving:
            queues.waiting[0].append((time, arriving))
        sizes.append(queues.size)
        if queues.ready():
            queues.run(scheduler(queues))
    return sizes


def chain_table(run: Run) -> Experiment:
    """R26: the table, and the peak of three cascaded steps under bursts."""
    rows = {"FIFO": sizes_of(STEPS, ARRIVALS, fifo), "Chain": sizes_of(STEPS, ARRIVALS, chain)}
    shapes = []
    for name, published in (("FIFO", FIFO), ("Chain", CHAIN)):
        off = {name: float(np.abs(np.array(rows[name]) - published).max())}
        shapes.append(Shape(f"the row of {name} is as published", value(off, name, 0)))
    schedulers = {"Chain": chain, "FIFO": fifo, "round robin": round_robin()}
    trace = bursts(run.of(4_000, 4_000, 1_000))
    peaks = {name: {"peak": max(sizes_of(CASCADE, trace, scheduler))} for name, scheduler in schedulers.items()}
    shapes += [
        Shape(f"under bursts Chain has a lower peak than {name}", order("peak", peaks["Chain"], peaks[name]))
        for name in ("FIFO", "round robin")
    ]
    series: dict[str, Series] = {name: _row(row) for name, row in rows.items()}
    series[_PEAK] = {name: peak["peak"] * TUPLES * ROW_BYTES for name, peak in peaks.items()}
    text = "both rows, in multiples of n; Chain has the least peak that a scheduler without foresight can have, nearly"
    kinds, points = dict.fromkeys(series, "formula"), {"FIFO": _row(FIFO), "Chain": _row(CHAIN)}
    parameters = f"bursts: {len(trace):,} units of time, n = {TUPLES:,} tuples of {ROW_BYTES} bytes"
    source = "STREAM (CIDR 2003), scheduling"
    place = ("R26", "chain", source, text)
    return Experiment(*place, "time", "n", series, shapes, kinds, points, parameters, units={_PEAK: "bytes"})


_PEAK = "peak of three steps"


def _row(sizes: Sequence[float]) -> dict[int, float]:
    """A row of the table by time."""
    return dict(enumerate(sizes, 1))


def bursts(units: int) -> list[float]:
    """A trace with bursts of up to 20 units, with n tuples in each unit. A quarter of all units has tuples."""
    random = np.random.default_rng(7)
    trace = list[float]()
    while len(trace) < units:
        burst = int(random.integers(1, 21))
        trace += [1.0] * burst + [0.0] * int(random.integers(2 * burst, 4 * burst + 1))
    return trace[:units]

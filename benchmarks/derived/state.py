"""Rows `derived.distinct` and `derived.absent`: operators of derived streams with a state of a million values or keys.

    derived.distinct    DISTINCT of a window of 2^22 tuples with a million values, in steps of 8,192 tuples
    derived.absent      NOT EXISTS with a band of times, a million keys, half of the tuples in each stream

The operators of `psoup.delta` get arrays and give arrays: neither the pump nor a push is measured. Pathway gets tuples
by a connector and counts the result. It has no window, so no tuple leaves. The sizes of the results are compared with
NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.peers import Missing, pathway
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.delta import BandSemiJoin, Distinct, Operator, Spans
from psoup.model import BIGINT
from psoup.values.columns import Column

Integers = npt.NDArray[np.int64]
NAMES = "derived.distinct", "derived.absent"
STEP = 8_192
PEER_BATCH = 65_536


class Work(NamedTuple):
    """`values`: the value, or the key, of each tuple. A tuple comes each instant, and stays for `window` instants."""

    values: Integers
    window: int
    measured: int

    @property
    def steps(self) -> list[tuple[int, int]]:
        """The first tuple of each step, and the one after its last."""
        return [(start, start + STEP) for start in range(0, len(self.values), STEP)]


def rows(run: Run) -> Iterator[Row]:
    """The rows."""
    values, window, measured = run.of((1_000_000, 1 << 22, 1 << 20), (1_000_000, 1 << 22, 1 << 18), (1_000, STEP, STEP))
    draw = np.random.default_rng(48)
    work = Work(draw.integers(0, values, window + measured), window, measured)
    yield from run.part(partial(_row, NAMES[0], work, Distinct([BIGINT]), _distinct, 3e6), NAMES[0])
    absent = BandSemiJoin([BIGINT] * 3, [0], (1, 2), negated=True, shown=[0])
    yield from run.part(partial(_row, NAMES[1], work, absent, _absent, 1e6), NAMES[1])


def _distinct(work: Work, start: int, stop: int) -> list[Spans]:
    return [_spans(work, np.arange(start, stop), work.values[start:stop])]


def _absent(work: Work, start: int, stop: int) -> list[Spans]:
    """Even tuples are on the left side. They have no partner among the odd ones up to half a window before them."""
    left, right = np.arange(start, stop, 2), np.arange(start + 1, stop, 2)
    bounds = left - work.window // 2, left
    return [_spans(work, left, work.values[left], *bounds), _spans(work, right, work.values[right], right)]


def _spans(work: Work, at: Integers, *columns: Integers) -> Spans:
    return Spans(tuple([Column(BIGINT, values) for values in columns]), at, at + work.window - 1)


def _row(
    name: str,
    work: Work,
    operator: Operator,
    inputs: Callable[[Work, int, int], Sequence[Spans]],
    wanted: float,
) -> Iterator[Row]:
    rates, size = list[float](), 0
    for start, stop in work.steps:
        spans, changes = inputs(work, start, stop), list[int]()
        taken = seconds(lambda: changes.append(int(operator.step(spans, stop - 1).sign.sum())))  # noqa: B023
        size += changes[0]
        if start >= work.window:
            rates.append(STEP / taken)
    expected = len(np.unique(work.values[-work.window :])) if name == NAMES[0] else _without_partner(work)
    if size != expected:
        raise AssertionError(f"{name}: {size:,} rows, NumPy has {expected:,}")
    ours, note = Sample.of(rates), f"{name}: a state of {operator.rows:,} rows and {operator.nbytes / 2**20:,.0f} MiB"
    yield Row(name, ours, "tuples/s", "wanted", Sample.of([wanted]), Target(value_at_least=wanted), note)
    yield _beside_pathway(name, work, ours)


def _without_partner(work: Work) -> int:
    """The left tuples of the last window without a partner: a right one with the key, up to half a window before."""
    last = np.full(int(work.values.max()) + 1, -len(work.values))
    absent = 0
    begin = len(work.values) - work.window
    for at, key in enumerate(work.values.tolist()):
        if at % 2:
            last[key] = at
        elif at >= begin:
            absent += last[key] < max(at - work.window // 2, begin)
    return absent


def _beside_pathway(name: str, work: Work, ours: Sample) -> Row:
    """The row beside Pathway, with the first tuples alone."""
    values = work.values[: 4 * PEER_BATCH]
    if name == NAMES[0]:
        sizes = [len(np.unique(values[:stop])) for stop in range(PEER_BATCH, len(values) + 1, PEER_BATCH)]
        measured = partial(pathway.distinct, values, PEER_BATCH, sizes)
    else:
        stops = range(PEER_BATCH, len(values) + 1, PEER_BATCH)
        sizes = [_without_partner(work._replace(values=values[:stop], window=stop)) for stop in stops]
        measured = partial(pathway.absent, values, PEER_BATCH, len(values), sizes)
    try:
        theirs = measured()
    except Missing as absent:
        return Row(name, ours, "tuples/s", absent.name, None, None, f"{absent.name} is not here: {absent.why}")
    return Row(name, ours, "tuples/s", "Pathway, no window, counts alone", theirs, Target(at_least=3))

"""STREAM (CIDR 2003), the table of scheduling: which step runs at each time, and the tuples that wait.

    q1 ─> O1, takes n tuples and passes 0.2 n ─> q2 ─> O2, takes 0.2 n ─> result

    time    1     2     3     4     5     6     7     8     …
    FIFO    1     1.2   2     2.2   3     3.2   4     3.2     O1 and O2 in turn
    Chain   1     1.2   1.4   1.6   1.8   2     2.2   1.4     O1 while tuples come, then O2

The product has no queues between steps, so the schedulers are formulas.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.reproduce.stream_2003.chain import (
    ARRIVALS,
    CHAIN,
    FIFO,
    STEPS,
    Queues,
    Scheduler,
    chain,
    envelope,
    fifo,
    sizes_of,
)


def steps_of(scheduler: Scheduler) -> Iterator[int]:
    """The steps that a scheduler runs over the trace, 1 for O1."""
    chosen = list[int]()

    def noted(queues: Queues) -> int:
        chosen.append(scheduler(queues) + 1)
        return chosen[-1] - 1

    sizes_of(STEPS, ARRIVALS, noted)
    yield from chosen


@pytest.mark.parametrize(("scheduler", "row"), [(fifo, FIFO), (chain, CHAIN)])
def test_the_table_of_scheduling(scheduler: Scheduler, row: tuple[float, ...]) -> None:
    assert sizes_of(STEPS, ARRIVALS, scheduler) == pytest.approx(row)


def test_fifo_completes_each_tuple_and_chain_runs_the_step_that_drops_most() -> None:
    assert envelope(STEPS) == pytest.approx([0.8, 0.2])
    assert [*steps_of(fifo)] == [1, 2] * 7
    assert [*steps_of(chain)] == [1] * 7 + [2] * 7

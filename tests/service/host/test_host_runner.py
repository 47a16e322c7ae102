"""The pool that the engine's kernels run on, and the machine's clock."""

from __future__ import annotations

import threading

import pytest

from psoup_service.host.runner import TaskPool
from psoup_service.process.clock import wall_time
from psoup_testing.services.host_rig import PATIENCE


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_all_tasks_are_done_when_it_returns(threads: int, count: int) -> None:
    pool, done = TaskPool(threads), list[int]()
    pool([lambda i=i: done.append(i) for i in range(count)])  # type: ignore[misc]
    assert sorted(done) == list(range(count))
    pool.close()
    pool.close()


def test_tasks_run_beside_each_other_and_one_with_the_caller() -> None:
    pool, meeting, names = TaskPool(2), threading.Barrier(2), set[str]()

    def task() -> None:
        meeting.wait(PATIENCE)
        names.add(threading.current_thread().name.rsplit("_", 1)[0])

    pool([task, task])
    pool.close()
    assert names == {"psoup-task", threading.current_thread().name}


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_failure_is_raised_after_all_have_ended(bad: int) -> None:
    pool, done = TaskPool(2), list[int]()

    def task(i: int) -> None:
        if i == bad:
            raise ValueError(str(i))
        done.append(i)

    with pytest.raises(ValueError, match=str(bad)):
        pool([lambda i=i: task(i) for i in range(3)])  # type: ignore[misc]
    assert sorted(done) == [i for i in range(3) if i != bad]
    pool.close()


def test_no_threads_cannot_be() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        TaskPool(0)


def test_the_clock_is_in_microseconds_of_this_century() -> None:
    first, second = wall_time(), wall_time()
    assert 1_700_000_000_000_000 < first <= second < 4_102_444_800_000_000

"""Wake-ups of threads: counted by name, and never less than at an earlier look."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from psoup_service.figures.metrics import Metrics
from psoup_service.figures.thread_wake_ups import ThreadWakeUps


def write(tasks: Path, number: int, comm: str, count: int) -> None:
    task = tasks / str(number)
    task.mkdir(exist_ok=True)
    (task / "comm").write_text(f"{comm}\n")
    (task / "status").write_text(f"Name:\t{comm}\nvoluntary_ctxt_switches:\t{count}\nnonvoluntary_ctxt_switches:\t7\n")


def drop(tasks: Path, number: int) -> None:
    for part in ("comm", "status"):
        (tasks / str(number) / part).unlink()
    (tasks / str(number)).rmdir()


def test_threads_of_a_pool_share_a_name(tmp_path: Path) -> None:
    write(tmp_path, 1, "lifeguard", 4)
    write(tmp_path, 2, "event_engine_1", 10)
    write(tmp_path, 3, "event_engine_2", 5)
    assert ThreadWakeUps(tmp_path).counts() == {"lifeguard": 4, "event_engine": 15}


def test_a_count_keeps_the_wake_ups_of_threads_that_have_ended(tmp_path: Path) -> None:
    wake_ups = ThreadWakeUps(tmp_path)
    write(tmp_path, 1, "a", 4)
    assert wake_ups.counts() == {"a": 4}
    drop(tmp_path, 1)
    assert wake_ups.counts() == {"a": 4}
    write(tmp_path, 1, "a", 3)  # the system gives the number of a thread that has ended to another
    assert wake_ups.counts() == {"a": 7}
    write(tmp_path, 1, "a", 2)
    assert wake_ups.counts() == {"a": 9}
    write(tmp_path, 1, "b", 8)
    assert wake_ups.counts() == {"a": 9, "b": 8}


def test_a_system_without_the_folder_has_no_counts(tmp_path: Path) -> None:
    assert ThreadWakeUps(tmp_path / "nowhere").counts() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the counts come from Linux")
def test_a_thread_that_waits_is_counted_by_its_name() -> None:
    come, go = threading.Event(), threading.Event()

    def wait() -> None:
        come.set()
        go.wait(30)

    thread = threading.Thread(target=wait, name="psoup-sleeper_3")
    thread.start()
    try:
        assert come.wait(30)
        assert "psoup-sleeper" in ThreadWakeUps().counts()
    finally:
        go.set()
        thread.join()


def test_the_metric_is_shown() -> None:
    metrics = Metrics()
    assert isinstance(metrics.registry, CollectorRegistry)
    assert "psoup_thread_wake_ups" in {family.name for family in metrics.registry.collect()}

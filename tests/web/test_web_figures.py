"""The figures of the page: each is measured once, and what the machine has no part in is as little as it may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.copies import page
from psoup_testing.browser.browser import SKIPPED, executable
from psoup_testing.suite.bench import failures, names, run_bench


def event(name: str, ts: int, dur: int, cpu: int, tid: int = 1) -> dict[str, object]:
    """An event of a trace."""
    return {"name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur, "tdur": cpu}


def test_a_trace_tells_the_longest_task_and_the_work_of_each_frame() -> None:
    begun = [{"name": "BeginMainThreadFrame", "pid": 7, "tid": 1, "ts": at} for at in (1_000, 20_000)]
    other = [event("RunTask", 0, 90_000, 90_000, tid=2)]
    tasks = [event("RunTask", 900, 9_000, 4_000), event("RunTask", 19_000, 3_000, 3_000)]
    script = [event("FunctionCall", 1_100, 2_000, 1_500)]
    layout = [event("Layout", 1_500, 900, 900), event("Layout", 21_000, 500, 400)]
    assert page.read(begun + other + tasks + script + layout) == page.Trace(4.0, 9.0, [1.5, 0.4])


@pytest.mark.long
@pytest.mark.skipif(executable() is None, reason=SKIPPED)
def test_each_figure_is_measured_and_those_of_any_machine_are_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, rows = run_bench(monkeypatch, tmp_path / "figures.json", "--only", "web.page", "--tiny")
    assert failures(rows) == {}
    assert code == 0
    places = ("script", "paint", "rows", "frame", "task", "recharge")
    assert names(rows) == tuple(f"web.page.{place}" for place in places)
    assert all(row["met"] for row in rows if row["name"].endswith((".script", ".rows", ".recharge")))

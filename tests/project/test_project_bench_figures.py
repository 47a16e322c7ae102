"""Figures from rows: a curve for each series, dots for the ratios, and a message where there is nothing to draw."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.arrival import growth
from benchmarks.tool.machine import machine
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.report import json_line, write_json


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    """Matplotlib takes half a second to be imported: only where figures are drawn."""
    pytest.importorskip("matplotlib")
    return importlib.import_module("benchmarks.figures")


def series(name: str, points: dict[int, float]) -> list[Row]:
    rows: list[Row] = []
    before = None
    for x, cost in points.items():
        ours = Sample.of([cost, cost * 1.1])
        rows += growth.point(name, x, ours, [("DuckDB", ours.scaled(7))], before, "ns")
        before = (x, ours)
    return rows


def test_growth_beyond_the_proportional_misses_its_target() -> None:
    rows = [row for row in series("growth.factors", {1: 100, 2: 190, 3: 600}) if row.peer.endswith("scaled")]
    assert [(row.name, row.peer, row.met) for row in rows] == [
        ("growth.factors.2", "1, scaled", True),
        ("growth.factors.3", "2, scaled", False),
    ]


@pytest.mark.long
def test_figures_are_drawn_of_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: ModuleType
) -> None:
    rows = series("growth.queries.eq", {100: 50, 1_000: 200})
    rows.append(Row("arrival", Sample.of([100]), "tuples/s", "DuckDB", Sample.of([10]), Target(at_least=2)))
    rows.append(Row("invoke", Sample.of([5]), "us", "empty call", Sample.of([10]), Target(at_most=2)))
    here = machine()
    write_json(tmp_path / "bench.json", [json_line(row, here) for row in rows])
    command = ["figures", "--json", str(tmp_path / "bench.json"), "--folder", str(tmp_path / "figures")]
    monkeypatch.setattr(sys, "argv", command)
    assert figures.main() == 0
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == ["growth.queries.eq.png", "growth.queries.eq.svg", "ratios.png", "ratios.svg"]
    assert all(path.stat().st_size > 5_000 for path in (tmp_path / "figures").iterdir())
    taken = json.loads((tmp_path / "bench.json").read_text())
    assert [figures._times_better(row) for row in taken if "series" not in row["details"]] == [10, 2]


def test_without_rows_it_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], figures: ModuleType
) -> None:
    monkeypatch.setattr(sys, "argv", ["figures", "--json", str(tmp_path / "none.json")])
    assert figures.main() == 1
    assert "make bench" in capsys.readouterr().err

"""The papers' experiments run, tiny; what can be computed beforehand comes out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.reproduce.__main__ import EXPERIMENTS, main
from benchmarks.reproduce.cacq_filters import Filters
from benchmarks.reproduce.cacq_routing import OPTIMAL, QUERIES, cacq_routing
from benchmarks.tool.run import Run, Size
from psoup.joins.policies import Fixed


def test_every_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "reproduce.md"
    monkeypatch.setattr(sys, "argv", ["reproduce", "--tiny", "--out", str(out)])
    assert main() == 0
    found = json.loads(out.with_suffix(".json").read_text())
    assert [experiment["name"] for experiment in found] == list(EXPERIMENTS)
    for experiment in found:
        assert all(value >= 0 for series in experiment["series"].values() for value in series.values())
        assert experiment["source"] in out.read_text()


def test_routing_takes_as_many_filters_as_can_be_computed() -> None:
    visits = cacq_routing(Run(Size.QUICK)).series["filters a tuple"]
    assert visits["worst"] == 5.0
    assert visits["optimal"] == pytest.approx(OPTIMAL, abs=0.03)
    assert (
        visits["optimal"] <= visits["greedy"] <= visits["ticket"] <= visits["random"] == pytest.approx(2.627, abs=0.15)
    )


def test_a_filter_that_no_living_query_is_about_is_not_visited() -> None:
    filters = Filters(QUERIES[:2], Fixed((0, 1)))
    filters.route(np.array([[95, 95, 10], [80, 60, 99]]))
    assert filters.visits == 5

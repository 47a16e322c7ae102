"""The papers' experiments run, tiny; what can be computed beforehand comes out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce.__main__ import EXPERIMENTS, Entry, main
from benchmarks.reproduce.cacq_2002.index_work import looks
from benchmarks.reproduce.cacq_2002.routes import OPTIMAL, QUERIES, cacq_routing
from benchmarks.reproduce.emulators.cacq.filters import Filters
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import State
from benchmarks.tool.run import Run, Size
from psoup.joins.policies import Fixed

MARKS = ("product", "emulator", "by hand", "formula", "waits for ")
"""The beginnings of the kinds of series."""


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of `make reproduce` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["reproduce", *arguments])
    return main()


def experiments_of(out: Path) -> list[dict[str, Any]]:
    """The rows of the file beside a page of results."""
    rows: list[dict[str, Any]] = json.loads(out.with_suffix(".json").read_text())["experiments"]
    return rows


@pytest.mark.long
def test_every_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "reproduce.md"
    assert ran(monkeypatch, "--tiny", "--out", str(out)) == 0
    experiments = experiments_of(out)
    assert [(experiment["number"], experiment["name"]) for experiment in experiments] == [
        (entry.number, entry.name) for entry in EXPERIMENTS
    ]
    for experiment in experiments:
        assert not experiment["failure"]
        for series in experiment["series"].values():
            assert series["kind"].startswith(MARKS)
            assert series["points"] or series["kind"].startswith("waits")
            assert all(value >= 0 for _, value in series["points"])
        assert experiment["source"] in out.read_text()


def test_an_experiment_is_named_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "reproduce.md"
    assert ran(monkeypatch, "--tiny", "--only", "R10", "--out", str(out)) == 0
    assert [experiment["name"] for experiment in experiments_of(out)] == ["cacq_routing"]
    capsys.readouterr()
    assert ran(monkeypatch, "--list") == 0
    assert "R10 cacq_routing" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--only", "figur7a"), "did you mean figure7a?"), (("--out", "/dev/null/reproduce.md"), "--out /dev/null")],
)
def test_a_wrong_argument_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        ran(monkeypatch, "--tiny", *arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_an_experiment_that_raises_stays_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(_: Run) -> Experiment:
        raise ValueError("no tuples")

    entries = (Entry("R98", "none", raises), next(entry for entry in EXPERIMENTS if entry.number == "R10"))
    monkeypatch.setattr(command, "EXPERIMENTS", entries)
    out = tmp_path / "reproduce.md"
    assert ran(monkeypatch, "--tiny", "--out", str(out)) == 1
    experiments = experiments_of(out)
    assert [(experiment["number"], experiment["state"]) for experiment in experiments] == [
        ("R98", "failed"),
        ("R10", "agrees"),
    ]
    assert "ValueError: no tuples" in out.read_text()


@pytest.mark.long
def test_routing_takes_as_many_filters_as_can_be_computed() -> None:
    experiment = cacq_routing(Run(Size.WHOLE))
    assert experiment.state is State.AGREES
    visits = experiment.series["filters a tuple"]
    assert visits["worst"] == 5.0
    assert visits["optimal"] == pytest.approx(OPTIMAL, abs=0.03)
    assert (
        visits["optimal"] <= visits["greedy"] <= visits["ticket"] <= visits["random"] == pytest.approx(2.627, abs=0.15)
    )


@pytest.mark.parametrize("piece", [1, 16, 500])
def test_the_index_looks_at_each_match_and_at_most_at_each_tuple_for_each_query(piece: int) -> None:
    tuples = np.random.default_rng(9).integers(1, 101, (5, 500))
    matched = sum(np.logical_and.reduce([tuples[at] > bound for at, bound in query.items()]).sum() for query in QUERIES)
    counts = looks(QUERIES, tuples, piece)
    assert counts.matched == matched / 500
    assert counts.matched <= counts.looked <= len(QUERIES)
    assert counts.work > 0


def test_a_filter_that_no_living_query_is_about_is_not_visited() -> None:
    filters = Filters(QUERIES[:2], Fixed((0, 1)))
    filters.route(np.array([[95, 95, 10], [80, 60, 99]]))
    assert filters.visits == 5

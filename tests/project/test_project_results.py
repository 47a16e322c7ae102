"""A run of the papers' experiments: its lines, its files and its pictures. They are kept as the run goes."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path

import pytest

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce.__main__ import EXPERIMENTS, Entry, main
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.results import Results
from benchmarks.reproduce.shapes import Differs, Measured, Shape, State
from benchmarks.tool.machine import machine
from benchmarks.tool.run import Run

AGREES = Shape("a is twice b", Measured(2.04, holds=True))
DIFFERS = Shape("a crosses b", Measured(math.nan, holds=False), Differs(math.nan, "b is always below"))
FAILS = Shape("a is flat", Measured(math.inf, holds=False))


def made(number: str, *shapes: Shape) -> Experiment:
    """An experiment with series of two units, over numbers and over names, and one that waits."""
    return Experiment(
        number,
        "made_up",
        "A paper | Figure 1",
        "a is twice b",
        "window",
        "ms",
        {"a": {64: 0.5, 128: 1.0, 4_096: 32.0}, "b": {64: 0.25, 128: 0.5, 4_096: 16.0}, "peak": {"Chain": 3.0}},
        shapes,
        {"a": "product", "b": "emulator", "peak": "formula", "c": "waits for derived streams"},
        {"a": {128: 900.0}},
        "reconstructed",
        units={"peak": "bytes"},
    )


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of `make reproduce` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["reproduce", *arguments])
    return main()


def test_the_line_of_an_experiment_has_both_results_and_the_reasons() -> None:
    vain = Shape("a is twice b", Measured(2.04, holds=True), Differs(9, "of a reason"))
    assert made("R02", *[AGREES] * 5, DIFFERS).summary() == (
        "R02 A paper | Figure 1. Published: a is twice b."
        " Here: a crosses b: none; a is twice b: 2.04; a is twice b: 2.04; a is twice b: 2.04; 2 more hold."
        " differs because b is always below. waits for derived streams (c)"
    )
    assert made("R01", FAILS, DIFFERS).conclusion() == (
        "failed: a is flat: no difference is stated. differs because b is always below. waits for derived streams (c)"
    )
    assert made("R01", vain).conclusion().endswith("a is twice b, although 9 was expected, a difference from the paper")
    assert Experiment.failed("R01", "none", ValueError("no tuples")).summary() == (
        "R01 none: failed: ValueError: no tuples"
    )


def test_a_file_of_results_gives_the_same_results(tmp_path: Path) -> None:
    rows = [made("R01", AGREES), made("R02", DIFFERS), Experiment.failed("R03", "none", ValueError("no"))]
    before = Results(machine(), "quick", rows)
    before.write(tmp_path / "run.json")
    row = json.loads((tmp_path / "run.json").read_text())["experiments"][1]
    assert row["number"] == "R02"
    assert row["state"] == "differs"
    assert row["series"]["c"]["kind"] == "waits for derived streams"
    assert row["shapes"][0]["state"] == "differs"
    after = Results.read(tmp_path / "run.json")
    assert list(after.lines("pictures")) == list(before.lines("pictures"))
    assert [experiment.to_dict() for experiment in after.experiments] == [
        experiment.to_dict() for experiment in before.experiments
    ]


def test_a_picture_has_the_series_the_published_points_and_the_published_words() -> None:
    pictures = pytest.importorskip("benchmarks.reproduce.pictures", exc_type=ModuleNotFoundError)
    figure = pictures.figure(made("R01", AGREES), "a processor")
    curves, bars = figure.axes
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["a (product)", "b (emulator)", "c (waits for derived streams)", "peak (formula)", "published"]
    assert (curves.get_xscale(), curves.get_yscale(), curves.get_ylabel()) == ("log", "log", "ms")
    (star,) = (line for line in curves.lines if line.get_marker() == "*" and len(line.get_xdata()))
    assert (list(star.get_xdata()), list(star.get_ydata())) == ([128], [900.0])
    assert (bars.get_yscale(), bars.get_ylabel()) == ("linear", "bytes")
    assert [text.get_text() for text in bars.get_xticklabels()] == ["Chain"]
    assert figure.get_supxlabel().split("\n") == ["Published: a is twice b", "Run here: reconstructed", "a processor"]


def test_many_series_are_told_apart_in_a_picture() -> None:
    pictures = pytest.importorskip("benchmarks.reproduce.pictures", exc_type=ModuleNotFoundError)
    names = [f"series {at}" for at in range(20)]
    experiment = dataclasses.replace(
        made("R01", AGREES),
        series={name: {1: 1.0, 2: 2.0} for name in names},
        kinds={**dict.fromkeys(names, "emulator"), "series 0": "series 0: a loop"},
        units={},
        points={},
    )
    (curves,) = pictures.figure(experiment).axes
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in curves.lines}
    assert len(looks) == len(names)
    assert curves.get_legend_handles_labels()[1][0] == "series 0: a loop"


@pytest.mark.long
def test_a_run_draws_beside_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "reproduce.md"
    assert ran(monkeypatch, "--quick", "--only", "R26", "--out", str(out)) == 0
    assert sorted(path.name for path in tmp_path.rglob("R26.*")) == ["R26.png", "R26.svg"]
    assert "](reproduce/R26.svg)" in out.read_text()
    assert Results.read(out.with_suffix(".json")).size == "quick"


def test_a_run_that_is_ended_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(_: Run) -> Experiment:
        raise KeyboardInterrupt

    first = next(entry for entry in EXPERIMENTS if entry.number == "R26")
    monkeypatch.setattr(command, "EXPERIMENTS", (first, Entry("R98", "ended", ended), Entry("R99", "later", ended)))
    out = tmp_path / "reproduce.md"
    assert ran(monkeypatch, "--tiny", "--out", str(out)) == 130
    written = Results.read(out.with_suffix(".json"))
    assert [(experiment.number, experiment.state) for experiment in written.experiments] == [("R26", State.AGREES)]
    assert "R26" in out.read_text()
    assert f"1 of 3 experiments are in {out}" in capsys.readouterr().err


def test_without_matplotlib_a_run_says_what_to_install_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as ended:
        ran(monkeypatch, "--out", str(tmp_path / "reproduce.md"))
    assert ended.value.code == 2
    assert "matplotlib, which is not installed; install it with: make setup" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compares(_: Run) -> Experiment:
        import duckdb

        raise AssertionError(f"DuckDB {duckdb.__version__} is not missing")

    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr(command, "EXPERIMENTS", (Entry("R98", "compares", compares),))
    assert ran(monkeypatch, "--tiny", "--out", str(tmp_path / "reproduce.md")) == 1
    assert "; install duckdb: make setup" in capsys.readouterr().out

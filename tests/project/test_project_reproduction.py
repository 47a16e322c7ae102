"""The page of the papers' experiments and its pictures are what the committed run gives."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import pytest

from benchmarks.reproduce import reproduction
from benchmarks.reproduce.__main__ import EXPERIMENTS
from benchmarks.reproduce.catalogue import CATALOGUE
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.reproduction import DOCS, PICTURES, RUN, page
from benchmarks.reproduce.results import Results, has_picture
from benchmarks.reproduce.shapes import Differs, Measured, Shape
from psoup_testing.suite.sweeps import swept

MAKE_AGAIN = "run: make reproduction"


@cache
def committed() -> Results:
    """The committed run."""
    return Results.read(RUN)


def made(number: str, *shapes: Shape, kind: str = "product") -> Experiment:
    """An experiment with one series."""
    return Experiment(number, "made_up", "A paper | 1", "", "window", "ms", {"a": {1: 2.0}}, shapes, {"a": kind})


def test_the_page_is_made_of_the_committed_run() -> None:
    assert (DOCS / "reproduction.md").read_text() == "\n".join(page(committed())).rstrip() + "\n", MAKE_AGAIN


@pytest.mark.parametrize("number", swept([experiment.number for experiment in committed().experiments], fast=1))
def test_a_picture_is_made_of_the_committed_run(number: str, tmp_path: Path) -> None:
    pictures = pytest.importorskip("benchmarks.reproduce.pictures", exc_type=ModuleNotFoundError)
    experiment = next(experiment for experiment in committed().experiments if experiment.number == number)
    picture = DOCS / PICTURES / f"{number}.svg"
    assert picture.exists() == has_picture(experiment), MAKE_AGAIN
    if has_picture(experiment):
        (again,) = pictures.draw(experiment, tmp_path, committed().note, ["svg"])
        assert again.read_bytes() == picture.read_bytes(), MAKE_AGAIN


def test_the_page_has_no_picture_of_another_run() -> None:
    drawn = {experiment.number for experiment in committed().experiments if has_picture(experiment)}
    assert {path.stem for path in (DOCS / PICTURES).glob("R*.svg")} == drawn
    named = re.findall(rf"\]\({PICTURES}/(\w+)\.svg\)", (DOCS / "reproduction.md").read_text())
    assert named == sorted(drawn)


def test_pictures_have_no_date_and_no_font_of_the_system() -> None:
    for path in (DOCS / PICTURES).glob("R*.svg"):
        svg = path.read_text()
        assert "<dc:date>" not in svg
        assert "font-family" not in svg
        assert "<text" not in svg


def test_every_experiment_of_the_papers_has_a_number() -> None:
    assert list(CATALOGUE) == [f"R{number:02}" for number in range(1, 30)]
    assert {entry.number for entry in EXPERIMENTS} <= set(CATALOGUE)


def test_the_table_begins_with_what_fails_and_differs_and_ends_with_what_is_left_out() -> None:
    agrees = Shape("a is twice b", Measured(2.04, holds=True))
    fails = Shape("a is flat", Measured(7, holds=False))
    differs = Shape("a crosses b", Measured(3, holds=False), Differs(3, "b is always below"))
    rows = [made("R01", agrees), made("R02", agrees, kind="waits for derived streams")]
    rows += [made("R03", agrees, differs), made("R04", fails, differs)]
    lines = list(page(Results(committed().machine, "quick", rows)))
    shown = [line for line in lines if re.match(r"\| \[?R\d\d", line)]
    assert [re.findall(r"R\d\d", row)[0] for row in shown] == ["R04", "R03", "R02", "R01", *list(CATALOGUE)[4:]]
    assert all(row.endswith("| left out |") for row in shown[4:])
    assert all(row.count("|") == 6 for row in shown)
    assert "| R29 | Promising tuples (Nile), Figures 15 and 16: selections and aggregates |" in shown[-1]
    assert "Of the 29 experiments: agrees 1, differs 1, failed 1, left out 25, waits 1." in lines


def test_links_of_the_table_lead_to_the_sections() -> None:
    text = (DOCS / "reproduction.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    anchors = [
        "".join(c for c in heading.lower() if c.isalnum() or c in "-_ ").replace(" ", "-") for heading in headings
    ]
    assert sorted(re.findall(r"^\| \[R\d\d\]\(#(.*?)\)", text, re.MULTILINE)) == sorted(anchors)


@pytest.mark.parametrize("content", [None, "no JSON", "[]", '{"machine": {}}'])
def test_a_file_that_is_not_a_run_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    pytest.importorskip("matplotlib")
    before, path = RUN.read_bytes(), tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr(sys, "argv", ["reproduction", "--run", str(path)])
    with pytest.raises(SystemExit) as ended:
        reproduction.main()
    assert ended.value.code == 2
    assert f"{path} is not the file of a run" in capsys.readouterr().err
    assert RUN.read_bytes() == before


def test_without_matplotlib_the_page_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(sys, "argv", ["reproduction"])
    with pytest.raises(SystemExit) as ended:
        reproduction.main()
    assert ended.value.code == 2
    assert "matplotlib, which is not installed; install it with: make setup" in capsys.readouterr().err

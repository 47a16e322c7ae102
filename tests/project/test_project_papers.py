"""docs/papers.md is true: what it names exists, and it names every experiment of `make reproduce`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.reproduce.__main__ import EXPERIMENTS
from psoup_testing.suite.documents import named_files

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text()
HELP = (ROOT / "docs" / "reference" / "cli.md").read_text()
"""The help of each command under its name; another test holds it against the commands."""
NUMBERS = {f"R{number:02}" for number in range(1, 30)}
"""The papers' experiments."""
LEFT_OUT = re.search(r"^Left out so far: (.*)\.$", PAGE, re.MULTILINE)
HEADS = (("§", "mechanism"), ("part", "mechanism"))


def tables() -> dict[str, list[list[str]]]:
    """Paper -> the rows of its table: section, mechanism, form, file, and a way to see it."""
    rows: dict[str, list[list[str]]] = {}
    for section in PAGE.split("\n## ")[1:]:
        cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
        if cells and tuple(cells[0][:2]) in HEADS:
            rows[section.splitlines()[0]] = cells[1:]
    return rows


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\bR\d\d\b", text))


def commands(text: str) -> set[tuple[str, tuple[str, ...]]]:
    """The commands that a text names, each with its options."""
    named = re.findall(r"`(psoup(?: [a-z][a-z-]*)+)((?: --[a-z-]+)*)`", text)
    return {(name, tuple(options.split())) for name, options in named}


def is_command(name: str, options: tuple[str, ...]) -> bool:
    """Whether the page of the command line has the command and its options."""
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", HELP, re.DOTALL | re.MULTILINE)
    return section is not None and all(re.search(rf"{option}\b", section[1]) for option in options)


def test_each_of_the_six_papers_has_a_table() -> None:
    rows = tables()
    assert len(rows) == 6
    assert sum(map(len, rows.values())) >= 110


@pytest.mark.parametrize("paper", tables())
def test_each_row_has_a_form_a_file_and_a_way_to_see_it(paper: str) -> None:
    forms = set(re.findall(r"^\| ([a-z]+) \| ", PAGE.split("\n## ", 1)[0], re.MULTILINE)) - {"form"}
    assert len(forms) == 5
    for row in tables()[paper]:
        assert len(row) == 5, row
        _, mechanism, form, files, seen = row
        assert re.match(r"\w+", form)[0] in forms, mechanism  # type: ignore[index]
        assert named_files(files), mechanism
        tests = {name for name in named_files(seen) if name.startswith("tests/")}
        assert tests or commands(seen) or numbers(seen), mechanism


def test_commands_with_options_exist() -> None:
    named = commands(PAGE)
    assert len(named) > 20
    assert [command for command in sorted(named) if not is_command(*command)] == []
    assert not is_command("psoup reply", ())
    assert not is_command("psoup invoke", ("--backwards",))


def test_files_are_files_and_tests_are_tests() -> None:
    """The test of all documents finds paths that do not exist."""
    for table in tables().values():
        for *_, files, seen in table:
            assert [name for name in named_files(files) if name.startswith("tests/")] == []
            assert [name for name in named_files(seen) if not Path(name).name.startswith("test_")] == []


def test_all_experiments_are_named_and_exist_unless_they_are_left_out() -> None:
    listed = {entry.number for entry in EXPERIMENTS}
    left_out = numbers(LEFT_OUT[1]) if LEFT_OUT else set()
    rows = numbers("\n".join(line for line in PAGE.splitlines() if line.startswith("| ")))
    assert rows == NUMBERS
    assert listed | left_out == NUMBERS, "an experiment is missing, and the page does not say so"
    assert listed & left_out == set(), "these exist: take them from the sentence about what is left out"


@pytest.mark.parametrize(
    "statement",
    [
        "One Query SteM for each stream",
        "The engine finds no pairs on arrival",
        "The index of the Data SteM is made when probes repeat",
        "Routing works on pieces",
        "A registered SELECT is a relation",
        "The product has no queues between operators",
        "Random drop boxes exist nowhere",
    ],
)
def test_the_page_states_what_psoup_does_otherwise(statement: str) -> None:
    assert f"- **{statement}" in PAGE

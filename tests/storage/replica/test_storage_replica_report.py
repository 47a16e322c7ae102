"""The report about a copy: the events that it can restore, and everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.errors import Internal
from psoup_cli.app import app
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.objects import EVENTS, object_name
from psoup_storage.replica.report import spans, verify
from psoup_storage.replica.restore import Wanted, restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import BEFORE, FailingTarget, copied, wait_for_copy
from psoup_testing.engines.format_fixture import Soup


def push(soup: Soup, count: int) -> None:
    for value in range(count):
        soup.push("s", pa.table({"x": [value]}))


@pytest.fixture
def target(tmp_path: Path) -> FailingTarget:
    """A copy without the events from 5 to some event before 60, for which the storage was away."""
    away = [False]
    made = FailingTarget(tmp_path / "copy", lambda operation, name: BEFORE if away[0] else "")
    with copied(tmp_path / "data", made) as soup:
        soup.execute("CREATE STREAM s (x BIGINT)")
        wait_for_copy(soup)
        push(soup, 3)
    with copied(tmp_path / "data", made, queue_bytes=2_000) as soup:  # no base image is due until events are dropped
        away[0] = True
        push(soup, 56)
        away[0] = False
        wait_for_copy(soup)
        push(soup, 2)
    return made


def test_spans_are_the_events_that_a_restore_reaches(target: FailingTarget, tmp_path: Path) -> None:
    parts = spans(target)
    assert len(parts) == 2 and parts[0].first <= 1 and parts[1].last == 62
    assert 4 <= parts[0].last < parts[1].first <= 60
    for span in parts:
        for sequence in {span.first, span.last}:
            path = tmp_path / f"at {sequence}"
            assert restore_copy(target, path, Wanted(sequence=sequence)).sequence == sequence
    result = CliRunner().invoke(app, ["replica", "list", target.place, "--json"])
    assert result.exit_code == 0 and '"first": ' in result.output.splitlines()[0]


def test_a_sound_copy_is_sound(target: FailingTarget) -> None:
    result = verify(target)
    assert result.problems == [] and result.objects == last_number(target) and result.files >= 2
    shown = CliRunner().invoke(app, ["replica", "verify", target.place])
    assert shown.exit_code == 0 and "is sound" in shown.output


def test_everything_that_is_missing_or_changed_is_named(target: FailingTarget) -> None:
    numbers, place = range(1, last_number(target) + 1), Path(target.place)
    last = max(number for number in numbers if read_object(target, number).kind == EVENTS)
    base = read_object(target, last).base
    name, digest, *_ = read_object(target, base).facts["files"][0]
    (place / "files" / digest).write_bytes(b"other")
    expected = [f"{object_name(base)}: its file {name}"]
    flipped = bytearray((place / object_name(last)).read_bytes())
    flipped[-1] ^= 1
    (place / object_name(last)).write_bytes(flipped)
    (place / object_name(2)).unlink()
    expected = [f"{place}/{object_name(2)} is damaged", *expected, f"{place}/{object_name(last)} is damaged"]
    problems = verify(target).problems
    assert len(problems) == len(expected)
    assert all(problem.startswith(text) for problem, text in zip(problems, expected, strict=True)), problems
    shown = CliRunner().invoke(app, ["replica", "verify", target.place])
    assert shown.exit_code == 1 and "3 objects of" in shown.output
    for command in ("list", "verify"):
        shown = CliRunner().invoke(app, ["replica", command, str(place / "files")])
        assert shown.exit_code == 2 and "has no copy of a service" in shown.output


def test_an_object_that_comes_during_the_search_is_no_damage(tmp_path: Path) -> None:
    """A service goes on writing while the last number is looked for."""

    class Growing(DirectoryTarget):
        def names_after(self, name: str) -> Iterator[str]:
            for number in (3, 4):
                self.create(object_name(number), b"")
            return super().names_after(name)

    target = Growing(tmp_path)
    for number in (1, 2):
        target.create(object_name(number), b"")
    assert last_number(target) == 4
    target.create(object_name(9), b"")
    with pytest.raises(Internal, match="it is missing"):
        last_number(target)

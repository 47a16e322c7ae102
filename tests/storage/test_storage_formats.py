"""T31: the directories of every release open with this one, and say what they said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup.events.acknowledgements import ProducerAcknowledgement
from psoup.events.commands import Locate
from psoup_storage.durable.sqlite.schema import FORMAT
from psoup_testing.format_fixture import END, QUESTIONS, Soup, ask, readings

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
FORMATS = sorted((path.name for path in FIXTURES.glob("format-*")), key=lambda name: int(name.partition("-")[2]))


@pytest.fixture(params=FORMATS)
def soup(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Soup]:
    shutil.copytree(FIXTURES / request.param / "data", tmp_path / request.param)
    opened = Soup(tmp_path / request.param, END)
    yield opened
    opened.store.close()


def said(soup: Soup) -> object:
    """What was said then, and that there is no query of which that release knew nothing."""
    recorded = json.loads((FIXTURES / soup.store.path.name / "answers.json").read_text(encoding="utf-8"))
    return [*recorded, *["NotFound"] * (len(QUESTIONS) + 11 - len(recorded))]


def test_there_is_a_fixture_of_every_format() -> None:
    assert [f"format-{number}" for number in range(1, FORMAT + 1)] == FORMATS


def test_a_directory_of_an_older_release_says_what_it_said(soup: Soup) -> None:
    assert ask(soup) == said(soup)


def test_a_directory_of_an_older_release_lives_on(soup: Soup) -> None:
    """It takes tuples, stores chunks, and opens again, now in this format."""
    expected = said(soup)
    before = soup.admission.state()
    soup.maintain()
    assert ask(soup) == expected
    soup.store.close()
    again = Soup(soup.store.path, END)
    assert {**again.admission.state(), "reserved": 0} == {**before, "reserved": 0}
    assert ask(again) == expected
    done = again.push("readings", readings(44), "meter 0", 3, 22)
    assert (done.duplicate, done.accepted) == (False, 5)
    at = again.admission.prepare(Locate("readings", "meter 0"), END).acknowledgement
    assert isinstance(at, ProducerAcknowledgement)
    counted = None if int(soup.store.path.name.removeprefix("format-")) < 10 else 115
    assert (at.epoch, at.number, at.rows) == (3, 23, counted), "the formats up to 9 did not count a producer's rows"
    again.maintain()
    again.engine.check()
    again.store.close()

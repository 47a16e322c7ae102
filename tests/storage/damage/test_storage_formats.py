"""T31: the directory of the present format, and of the one before, opens, and gives the answers that it gave."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from psoup.errors import Internal
from psoup.events.acknowledgements import ProducerAcknowledgement
from psoup.events.commands import Locate
from psoup_storage import DurableStore
from psoup_storage.durable.read_only_store import LookingStore
from psoup_storage.durable.sqlite.schema import FORMAT
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.format_fixture import END, Soup, ask, readings
from psoup_testing.suite.sweeps import swept

FIXTURES = sorted((Path(__file__).resolve().parents[2] / "fixtures").glob("format-*.tar.xz"))


@pytest.fixture(params=swept(FIXTURES, fast=1), ids=lambda path: path.name.partition(".")[0])
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unpacked folder: `data` and `answers.json`."""
    with tarfile.open(request.param) as packed:
        packed.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    return folder


@pytest.fixture
def soup(left: Path) -> Iterator[Soup]:
    opened = Soup(left / "data", END)
    yield opened
    opened.store.close()


def said(left: Path) -> object:
    return json.loads((left / "answers.json").read_text(encoding="utf-8"))


def test_there_are_fixtures_of_this_format_and_of_at_most_one_before() -> None:
    numbers = {int(path.name.partition(".")[0].removeprefix("format-")) for path in FIXTURES}
    assert {FORMAT} <= numbers <= {FORMAT - 1, FORMAT}, "make fixture writes that of the present format"
    assert all(path.stat().st_size < 100_000 for path in FIXTURES)


def test_the_doctor_finds_the_directory_sound(left: Path) -> None:
    """The doctor notes that the next start upgrades a directory of the format before."""
    report, version = examine(left / "data"), int(left.name.removeprefix("format-"))
    note = f"has format {version}; the next start of the service brings it to format {FORMAT}"
    assert report.well and [f.what for f in report.findings] == ([] if version == FORMAT else [note])
    figures = {18: (8, 28, 21), 19: (13, 28, 21)}
    assert tuple(report.figures[name] for name in ("streams", "queries", "chunks")) == figures[version]


def test_a_row_that_was_damaged_before_an_upgrade_stays_damaged(left: Path) -> None:
    database = apsw.Connection(str(left / "data" / "psoup.db"))
    database.execute("UPDATE chunks SET checksum = checksum + 1 WHERE stream = 2")
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    database.close()
    for _ in range(2):
        with pytest.raises(Internal, match="the row of chunks with stream 2, number 0 has changed"):
            DurableStore(left / "data")
        assert not examine(left / "data").well


def test_a_start_upgrades_the_directory_or_a_copy_of_it(left: Path) -> None:
    restore(left / "data", left / "copy")
    for path in (left / "data", left / "copy"):
        DurableStore(path).close()
        assert examine(path).findings == []


def test_a_directory_of_the_format_before_can_be_read_without_an_upgrade(left: Path) -> None:
    before = (left / "data" / "psoup.db").read_bytes()
    store = LookingStore(left / "data")
    assert sum(1 for _ in store.read()) > 100
    store.close()
    assert (left / "data" / "psoup.db").read_bytes() == before


def test_the_directory_gives_the_answers_that_it_gave(left: Path, soup: Soup) -> None:
    assert ask(soup) == said(left)


def test_the_directory_lives_on(left: Path, soup: Soup) -> None:
    """It takes tuples, stores chunks, and opens again, in the present format."""
    expected = said(left)
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
    assert (at.epoch, at.number, at.rows) == (3, 23, 115)
    again.maintain()
    again.engine.check()
    again.store.close()

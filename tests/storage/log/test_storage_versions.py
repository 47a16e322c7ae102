"""Tables on disk: upserts and deletions survive a restart, from the log and from chunks, and so do their versions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.errors import FailedPrecondition
from psoup.model import BIGINT, BOOLEAN, SECOND
from psoup.values.columns import Column
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SCALE, SEED

SMALL = EngineConfig(chunk_rows=64, piece_rows=16, ahead=86_400 * SECOND)
CREATE = "CREATE TABLE t (k BIGINT, name TEXT, x BIGINT NOT NULL, PRIMARY KEY (k, name))"
KEYS = [(number, name) for number in range(6) for name in ("a", "Grüße")]
CASES = max(2, round(10 * SCALE))

Key = tuple[int, str]


class Versions:
    """A naive list of the entries of each key: its time, and the value of x; None for a deletion."""

    def __init__(self) -> None:
        self.entries: dict[Key, list[tuple[int, int | None]]] = {}

    def put(self, key: Key, time: int, value: int | None) -> None:
        """Add an entry."""
        self.entries.setdefault(key, []).append((time, value))

    def at(self, time: int) -> list[tuple[int, str, int]]:
        """The rows that hold at a time; the first version of a key holds from the beginning."""
        open_rows = []
        for key, entries in self.entries.items():
            values = [value for begin, value in entries if begin <= time] or [entries[0][1]]
            if values[-1] is not None:
                open_rows.append((*key, values[-1]))
        return sorted(open_rows)


def made(path: Path) -> RestartingPSoup:
    """An engine on a directory, with the clock at a time of our days."""
    return RestartingPSoup(SMALL, VirtualClock(1_700_000_000 * SECOND), path)


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    opened = made(tmp_path / "data")
    opened.execute(CREATE)
    yield opened
    opened.store.close()


def push(soup: RestartingPSoup, versions: Versions, rows: list[tuple[Key, int | None]]) -> None:
    """Upsert rows, and delete those whose value is None, at the time of the clock."""
    table = pa.table(
        {
            "k": [key[0] for key, _ in rows],
            "name": [key[1] for key, _ in rows],
            "x": pa.array([value for _, value in rows], pa.int64()),
            "_deleted": [value is None for _, value in rows],
        }
    )
    soup.push("t", table)
    for key, value in rows:
        versions.put(key, soup.clock.now(), value)


def shown(soup: RestartingPSoup, query: int, as_of: int | None = None) -> list[tuple[Any, ...]]:
    """The rows of the query, sorted."""
    return sorted(tuple(row.values()) for row in again(soup.invoke, query, as_of).to_table().to_pylist())


@pytest.mark.seeded("a delete forgotten at a restart")
def test_restarts_change_no_version(tmp_path: Path) -> None:
    """Entries come from the log, from chunks, and from both; readers ask for now and for the past."""
    chance, restarts, chunks = random.Random(SEED), 0, 0
    for case in range(CASES):
        soup, versions, times = made(tmp_path / str(case)), Versions(), list[int]()
        soup.execute(CREATE)
        query = soup.register("SELECT k, name, x FROM t")
        for step in range(30):
            soup.clock.advance(seconds=chance.choice([0, 1, 5]))  # type: ignore[attr-defined]
            keys = chance.sample(KEYS, chance.randrange(1, len(KEYS)))
            push(soup, versions, [(key, None if chance.random() < 0.3 else step) for key in keys])
            times.append(soup.clock.now())
            if chance.random() < 0.3:
                soup.maintain()
            if chance.random() < 0.1:
                soup.restart()
                restarts += 1
                for time in [*chance.sample(times, min(4, len(times))), times[0] - 1]:
                    assert shown(soup, query, time) == versions.at(time)
            assert shown(soup, query) == versions.at(times[-1])
        chunks += len(list((soup.path / "chunks").iterdir()))
        soup.engine.check()
        soup.store.close()
        assert examine(soup.path).findings == []
    assert min(restarts, chunks) > CASES


def test_a_deletion_is_in_no_answer_after_a_restart(soup: RestartingPSoup) -> None:
    """Its version is in one chunk, and the deletion in the next one. Nothing of both is in the log any more."""
    versions, query = Versions(), soup.register("SELECT k, name, x FROM t WHERE x IS NULL OR x >= 0 OR k = 3")
    count = soup.register("SELECT count(*) AS n FROM t")
    push(soup, versions, [((number, "a"), number) for number in range(70)])
    soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
    push(soup, versions, [((number, "a"), None) for number in range(0, 70, 2)])
    soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
    push(soup, versions, [((number, "b"), 7) for number in range(100)])
    soup.maintain()
    for _ in range(2):
        soup.restart()
        assert shown(soup, query) == versions.at(soup.clock.now())
        assert shown(soup, count) == [(135,)]


def test_columns_that_a_table_gets_later_are_there_after_a_restart(soup: RestartingPSoup) -> None:
    versions = Versions()
    push(soup, versions, [((number, "a"), number) for number in range(70)])
    soup.maintain()
    soup.execute("ALTER TABLE t ADD COLUMN note TEXT")
    query = soup.register("SELECT k, note FROM t WHERE k < 2")
    soup.push("t", pa.table({"k": [1], "name": ["a"], "x": [7], "note": ["new"]}))
    for _ in range(2):
        assert shown(soup, query) == [(0, None), (1, "new")]
        soup.restart()


def test_a_backup_and_a_dropped_table(soup: RestartingPSoup, tmp_path: Path) -> None:
    versions = Versions()
    push(soup, versions, [((number, "a"), number) for number in range(70)])
    query = soup.register("SELECT k, name, x FROM t", key="all")
    soup.maintain()
    with closing(soup.store.freeze()) as frozen:
        restore(frozen.path, tmp_path / "copy")
    copy = made(tmp_path / "copy")
    assert shown(copy, copy.query("all")) == versions.at(soup.clock.now()) == shown(soup, query)
    copy.store.close()
    soup.unregister(query)
    soup.execute("DROP TABLE t")
    soup.restart()
    assert list((soup.path / "chunks").iterdir()) == []


def bools(*values: bool | None) -> Column:
    """A BOOLEAN column."""
    valid = np.array([value is not None for value in values])
    return Column(BOOLEAN, np.array([bool(value) for value in values]), None if valid.all() else valid)


def numbers(*values: int | None) -> Column:
    """A BIGINT column."""
    valid = np.array([value is not None for value in values])
    return Column(BIGINT, np.array([value or 0 for value in values], np.int64), None if valid.all() else valid)


SOUND = (
    bools(False, True, False),
    bools(True, False, False),
    numbers(1, 1, 2),
    numbers(7, None, 8),
    numbers(None, None, 9),
)
WRONG = {
    "its row 2 has no _deleted": (0, bools(False, True, None)),
    "its row 2 has no x, which is NOT NULL": (3, numbers(7, None, None)),
    "its row 1 deletes a key, and has a value of y": (4, numbers(None, 5, None)),
}


@pytest.mark.parametrize("said", ["", *WRONG])
def test_the_doctor_checks_the_entries_of_a_table(tmp_path: Path, said: str) -> None:
    gate = Gate()
    gate.create("CREATE TABLE t (k BIGINT, x BIGINT NOT NULL, y BIGINT, PRIMARY KEY (k))")
    columns, spec = list(SOUND), gate.events[0].spec
    if said:
        place, column = WRONG[said]
        columns[place] = column
    with closing(DurableStore(tmp_path)) as store:
        store.append(gate.events)
        store.keep(1, spec, ChunkView(0, Places(0, 3), np.zeros(3, np.int64), tuple(columns), 100), 0)
    findings = [finding.what for finding in examine(tmp_path).findings]
    assert findings == ([said] if said else [])


def test_history_cannot_be_attached_to_a_table(soup: RestartingPSoup, tmp_path: Path) -> None:
    spec, times = soup.engine.snapshot().stream("t", "default").spec, [SECOND, 2 * SECOND]
    rows = pa.table({"k": [1, 2], "name": ["a", "a"], "x": [1, 2]})
    write(tmp_path / "job", spec, rows, times, [1])
    for batch in (None, 0):
        with pytest.raises(
            FailedPrecondition, match="'t' is a table, and history is attached to streams only"
        ) as refused:
            attach(soup, "t", "job", tmp_path / "job", batch)
        assert refused.value.reason == "IS_TABLE"

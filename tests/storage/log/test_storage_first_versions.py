"""First versions of keys that come late, on disk: a restart gives the same tuple IDs, times and versions again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup.config import EngineConfig
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SCALE, SEED

SMALL = EngineConfig(chunk_rows=64, piece_rows=16, ahead=86_400 * SECOND)
CREATE = "CREATE TABLE t (k BIGINT, at TIMESTAMP, x BIGINT, PRIMARY KEY (k)) TIMESTAMP BY at"
START = 1_700_000_000
CASES = max(2, round(6 * SCALE))


class History:
    """Pushes to a table, and a naive list of the entries of each key: its time, and the value of x."""

    def __init__(self, chance: random.Random, path: Path) -> None:
        self.chance, self.now, self.keys = chance, START, 0
        self.entries: dict[int, list[tuple[int, int]]] = {}
        self.soup = RestartingPSoup(SMALL, VirtualClock((START + 3_600) * SECOND), path)
        self.soup.execute(CREATE)

    def push(self) -> None:
        """Push versions of known keys from the watermark on, and of new keys from any time on."""
        chance, rows = self.chance, list[tuple[int, int, int]]()
        watermark, self.now = self.now, self.now + chance.choice([0, 0, 1, 3])
        for _ in range(chance.choice([1, 5, 40])):
            new = not self.entries or chance.random() < 0.6
            key = self.keys if new else chance.choice([*self.entries])
            self.keys += new
            lowest = START - 50 if new else watermark
            rows += [(key, chance.randint(lowest, self.now), chance.randrange(9)) for _ in range(chance.choice([1, 2]))]
        rows.append((-1, self.now, 0))  # the watermark is this time
        chance.shuffle(rows)
        times = pa.array([time * SECOND for _, time, _ in rows], pa.timestamp("us"))
        done = self.soup.push("t", pa.table({"k": [k for k, *_ in rows], "at": times, "x": [x for *_, x in rows]}))
        assert (done.accepted, done.late) == (len(rows), 0)
        for key, time, value in sorted(rows, key=lambda row: row[1]):
            self.entries.setdefault(key, []).append((time, value))

    def at(self, time: int | None) -> list[tuple[int, int, int]]:
        """The rows that hold at a time, or at present: key, value and time."""
        open_rows = []
        for key, entries in self.entries.items():
            past = [entry for entry in entries if time is None or entry[0] <= time]
            open_rows += [(key, past[-1][1], past[-1][0])] if past else []
        return sorted(open_rows)

    def shown(self, time: int | None) -> list[tuple[Any, ...]]:
        """The rows that the table shows at a time, or at present."""
        as_of = None if time is None else time * SECOND
        columns = again(self.soup.ask, "SELECT k, x, _time AS at FROM t", as_of).to_table().to_pydict()
        seconds = [round(at.timestamp()) for at in columns["at"]]
        return sorted(zip(columns["k"], columns["x"], seconds, strict=True))

    def ids(self) -> dict[tuple[int, ...], int]:
        """The ID of each row that holds now."""
        rows = again(self.soup.ask, "SELECT _id, k, x FROM t").to_table().to_pylist()
        return {(row["k"], row["x"]): row["_id"] for row in rows}


def test_restarts_repeat_late_first_versions(tmp_path: Path) -> None:
    """Entries come from the log, from chunks, and from both. Chunks end between late rows of one push."""
    chance, restarts, chunks = random.Random(SEED), 0, 0
    for case in range(CASES):
        history = History(chance, tmp_path / str(case))
        for _ in range(12):
            history.push()
            if chance.random() < 0.1:
                history.now += 5
                history.soup.heartbeat("t", history.now * SECOND)
            if chance.random() < 0.4:
                history.soup.maintain()
            if chance.random() < 0.25:
                ids = history.ids()
                history.soup.restart()
                restarts += 1
                assert history.ids() == ids
                for time in (None, history.now - 2, START - 20):
                    assert history.shown(time) == history.at(time), (case, time)
        assert history.shown(None) == history.at(None)
        history.soup.maintain()
        chunks += len(list((history.soup.path / "chunks").iterdir()))
        history.soup.engine.check()
        history.soup.store.close()
        assert examine(history.soup.path).findings == []
    assert restarts >= CASES
    assert chunks >= 2 * CASES

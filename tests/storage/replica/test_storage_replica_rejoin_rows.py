"""Each acknowledged row of a random history is either in the copy or among the rows that a rejoin keeps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_storage.replica.rejoin import rejoin
from psoup_storage.replica.report import verify
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import copied, wait_for_copy
from psoup_testing.engines.diverged_rows import copied_values, kept_values
from psoup_testing.engines.format_fixture import START, Soup
from psoup_testing.engines.format_fixture import tell as fill
from psoup_testing.suite.budget import Budget

HISTORIES = Budget("rejoined directories", 8)
STREAMS = {
    "plain": "CREATE STREAM plain (x BIGINT)",
    "timed": "CREATE STREAM timed (at TIMESTAMP, x BIGINT) TIMESTAMP BY at LATENESS 5 SECONDS AHEAD 5 MINUTES",
    "old": "CREATE STREAM old (x BIGINT) RETENTION 2 DAYS ARCHIVE 1 DAY",
    "late": "CREATE STREAM late (x BIGINT, s TEXT)",
}
PENDING = 5


class History:
    """Random pushes. `acknowledged`: the values of all rows so far, each with its stream."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._value, self._now = 0, START
        self.acknowledged = Counter[tuple[str, int]]()

    def go_on(self, soup: Soup, steps: int) -> None:
        """Push batches, let time pass now and then, and store chunks."""
        random = self._random
        assert isinstance(soup.clock, VirtualClock)
        soup.clock.set(self._now)
        for _ in range(steps):
            if random.random() < 0.3:
                soup.clock.advance(seconds=1)
            if random.random() < 0.1:
                soup.maintain()
            stream = random.choice([*STREAMS])
            if ("default", stream) not in soup.engine.snapshot().streams:
                soup.execute(STREAMS[stream])
            self._push(soup, stream, random.choice((1, 2, 7, 40)))
        self._now = soup.clock.now()

    def _push(self, soup: Soup, stream: str, rows: int) -> None:
        values = range(self._value, self._value + rows)
        self._value += rows
        columns = {"x": pa.array(values)}
        if stream == "timed":
            second = soup.clock.now() // SECOND
            times = [(second - self._random.randrange(PENDING)) * SECOND for _ in values]
            columns["at"] = pa.array(times, pa.timestamp("us"))
        if stream == "late":
            columns["s"] = pa.array([f"row {value}" for value in values])
        soup.push(stream, pa.table(columns))
        self.acknowledged.update((stream, value) for value in values)


def tell(path: Path, random: Random) -> tuple[int, int]:
    """A history in which a directory goes on after its copy was taken over.

    Returns the number of rows that were kept, and of those without an event.
    """
    target, history = DirectoryTarget(path / "copy"), History(random)
    for part in range(random.randint(1, 3)):
        if part:
            _serve(path / "data", history, random)  # so the next start makes a base image
        with copied(path / "data", target) as soup:
            history.go_on(soup, random.randrange(60))
            wait_for_copy(soup)
    restore_copy(target, path / "heir", takes_over=True)
    for _ in range(random.randint(1, 2)):
        _serve(path / "data", history, random)
    result = rejoin(target, path / "data")
    rows = Counter((stream, value) for stream in STREAMS for value in kept_values(path / "data", stream))
    assert copied_values(target, path / "early", *STREAMS) + rows == history.acknowledged
    assert rows.total() == sum(file.rows for file in result.diverged.streams) if result.diverged else not rows
    assert verify(target).problems == []
    unknown = [event for stream in STREAMS for event in kept_values(path / "data", stream, "_sequence")].count(None)
    return rows.total(), unknown


def _serve(path: Path, history: History, random: Random) -> None:
    """Go on without a copy."""
    soup = Soup(path, START)
    history.go_on(soup, random.randrange(120))
    soup.store.close()


@pytest.mark.seeded("rows of stored chunks that a rejoin leaves out")
@pytest.mark.seeded("a row of one time that a rejoin takes for the copy's")
@pytest.mark.long
def test_each_row_is_in_the_copy_or_was_kept(tmp_path: Path) -> None:
    total = from_chunks = 0
    for seed in HISTORIES.rounds():
        rows, unknown = tell(tmp_path / str(seed), Random(seed))
        total, from_chunks = total + rows, from_chunks + unknown
        HISTORIES.count()
    assert total > 500 and from_chunks > 100


@pytest.mark.long
def test_events_of_all_kinds_are_kept_in_words(tmp_path: Path) -> None:
    """The whole content of `format_fixture` is a tail."""
    target, data = DirectoryTarget(tmp_path / "copy"), tmp_path / "data"
    with copied(data, target) as soup:
        soup.execute("CREATE STREAM early (x BIGINT)")
    restore_copy(target, tmp_path / "heir", takes_over=True)
    soup = Soup(data, START)
    fill(soup)
    sizes = {
        stream: soup.invoke(soup.register(f"SELECT count(*) AS n FROM {stream} BEGIN (START)"))
        .to_table()["n"][0]
        .as_py()
        for stream in ("clicks", "spooled", "visits", "dear", "named")
    }
    soup.store.close()
    diverged = rejoin(target, data).diverged
    assert diverged is not None
    files = {file.stream: file.rows for file in diverged.streams}
    assert {stream: files[stream] for stream in sizes} == sizes and sizes["spooled"] == 1_000
    assert not {"gone", "brief", "briefer"} & {*files}, "they were dropped"
    text = (Path(diverged.folder) / "events.txt").read_text()
    assert [words for words in WORDS if words not in text] == []
    assert not any(word in text for word in ("secret", "whsec", "digest"))


WORDS = (
    "clicks (stream 3) was created: CREATE STREAM clicks",
    "kept (stream 6) was altered: ALTER STREAM kept ADD COLUMN note TEXT",
    "brief (stream 7) was dropped",
    "2 rows were pushed to clicks (stream 3)",
    "1 row was pushed to titles (table 9)",
    "a heartbeat moved the watermark of recent (stream 4) to 2023-11-14 22:20:45Z",
    "query 294 was registered, key moved, in place of query 293: SELECT n, word FROM readings",
    "were registered by the template SELECT at, n FROM readings",
    "    query 292, key row 2, user = u2: SELECT at, n FROM readings WHERE n >= 7",
    "269 queries were unregistered\n",
    "it was changed how the queries 303, 304 are kept",
    "the access token token00000 of holder 0 was issued, tenant default: operator",
    "the access token token00002 was revoked",
    "the tenant corner was created",
    "the quotas of the tenant acme were changed",
    "the tenant brief was dropped",
    "the group mailer of followers of clicks (stream 3) was formed",
    "the group brief of followers of readings (stream 2) was removed",
    "webhook 239 was removed",
    "was added or changed: https://example.com/0",
)
"""Parts of lines about events of the fixture."""

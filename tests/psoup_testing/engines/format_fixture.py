"""A data directory of the present format with everything in it, as a killed service leaves it.

    make fixture                            writes tests/fixtures/format-N.tar.xz
    format-N/data/          the directory: a database, its write-ahead log, chunks
    format-N/answers.json   the answers to the questions below

Contents: every type, NULLs, both time domains, sealed, expired, passed and thinned chunks, folds of chunks on disk.
Tuples that wait for the watermark, late and far ones, and tuples without a push. Producers with epochs, a push whose
tuples were there before it. Queries one by one and in blocks, one unregistered and many at once, one replaced twice.
A stream dropped alone and with its queries, joins alone and in a block, a table. Access tokens, tenants, groups of
followers, webhooks. Queries that are not kept as usual. Derived streams.

After a change of the format the fixture of the format before stays, and those before that one go.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from psoup.admission import Admission
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.errors import NotFound, PSoupError
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command, Push, RegisterMany
from psoup.events.tags import TagColumns, coded
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_storage.durable.log import log, ready
from psoup_storage.durable.sqlite import database
from psoup_storage.durable.sqlite.schema import FORMAT
from psoup_testing.engines.fixture_amounts import keep_otherwise, shown_amounts
from psoup_testing.engines.fixture_derivations import derive, shown_derived
from psoup_testing.engines.fixture_table import fill_table, shown_table, thin_chunks
from psoup_testing.engines.fixture_tenants import let_in, part, shown_tenants, shown_tokens
from psoup_testing.histories.follower_groups import share_matches, shown_groups
from psoup_testing.histories.webhooks import shown_webhooks, tell_receivers

CONFIG = EngineConfig(chunk_rows=64, piece_rows=16, unstored_chunks=2)
START = 1_700_000_000 * SECOND
END = START + 2_000 * SECOND
"""The clock when the directory was left, and when it is asked."""

WORDS = (None, "", "a", "Grüße 🌍", "it's", "zebra\x01")
TIMED = "(at TIMESTAMP, x BIGINT) TIMESTAMP BY at AHEAD 5 MINUTES"
CREATE = (
    "CREATE STREAM readings (at TIMESTAMP NOT NULL, ok BOOLEAN, n BIGINT, d DOUBLE, m DECIMAL(9,2), word TEXT,"
    " day DATE, seen TIMESTAMP) TIMESTAMP BY at LATENESS 30 SECONDS AHEAD 5 MINUTES",
    "CREATE STREAM clicks (page TEXT NOT NULL, ms BIGINT)",
    f"CREATE STREAM recent {TIMED} RETENTION 50 SECONDS ARCHIVE 150 SECONDS",
    "CREATE STREAM gone (x BIGINT)",
)
LATER = f"CREATE STREAM kept {TIMED} RETENTION 100 SECONDS ARCHIVE 10 MINUTES"
QUERIES = (
    "SELECT *, _id, _time FROM readings BEGIN (START)",
    "SELECT n, word FROM readings WHERE n > 40 AND (word LIKE 'Gr%' OR word IS NULL) BEGIN (NOW - 10 MINUTES)",
    "select d * 2 AS e, m from readings where d < 3 and m between -2.5 and 7.25 begin (now - 90 rows)",
    "SELECT page, ms, _id, _time FROM clicks WHERE page <> 'home' BEGIN (START) END (NOW - 1 SECOND)",
    "SELECT x, _id FROM recent BEGIN (START)",
)
BLOCK = "SELECT at, n FROM readings WHERE n >= $low AND ok = $ok AND day < $day BEGIN (START)"
JOINS = (
    "SELECT r.n, c.x FROM readings AS r, kept AS c WHERE r.n = c.x AND r.n > 3 AND c.x <> 7 BEGIN (START)",
    "SELECT a.x FROM recent AS a JOIN recent AS b USING (x) WHERE a.x > 7 BEGIN (START)",
    "SELECT k.x, r.word FROM kept AS k [RANGE 300 SECONDS], readings AS r [ROWS 20] WHERE k.x <= r.n AND r.ok",
)
COUNTED = "SELECT count(*) AS n, sum(x) AS s FROM kept BEGIN (START)"
"""A statement of which folds lie beside chunks."""
WINDOWS = ("BEGIN (START)", "BEGIN (NOW - 300 SECONDS)")
TAGS = TagColumns(
    3,
    pa.array(["row 0", "row 1", "row 2"]),
    (("kind", coded(pa.array(["row", "row", None]))), ("user", coded(pa.array(["u0", "u1", "u2"])))),
)
PARAMETERS = [[3, True, date(2024, 1, 5)], [100, False, date(2030, 1, 1)], [7, None, date(2024, 1, 3)]]


class Soup(LocalPSoup):
    """The embedded engine on a directory."""

    def __init__(self, path: Path, now: int) -> None:
        super().__init__(CONFIG, VirtualClock(now))
        self.store = DurableStore(path)
        self.engine = Engine(CONFIG, keep=self.store.keep, thin=self.store.thin)
        self.admission = Admission(CONFIG, archive=True)
        for event in self.store.read():
            self.admission.replay(event)
            self.admission.give_back(self.engine.apply([event]).freed_bytes)

    def _submit(self, command: Command) -> Acknowledgement:
        prepared = self.admission.prepare(command, self.clock.now())
        if prepared.events:
            self.store.append([*prepared.events])
            self.admission.give_back(self.engine.apply(prepared.events).freed_bytes)
        return prepared.acknowledgement


def readings(step: int, rows: int = 5) -> pa.Table:
    """The batch of a step: a late and a far row now and then."""
    numbers = [step * rows + row for row in range(rows)]
    times = [START + (3 * n - (n % 7) * 4) * SECOND for n in numbers]
    if step % 9 == 4:
        times[0], times[1] = START - SECOND, END + 3 * 86_400 * SECOND
    return pa.table(
        {
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "ok": [None if n % 5 == 0 else n % 2 == 0 for n in numbers],
            "n": [None if n % 11 == 3 else n * (-1) ** n for n in numbers],
            "d": [(float("nan"), float("inf"), -0.0, 0.1 * n, None)[n % 5] for n in numbers],
            "m": pa.array([Decimal(n % 40 - 10) / 4 for n in numbers], pa.decimal128(9, 2)),
            "word": [WORDS[n % len(WORDS)] for n in numbers],
            "day": [None if n % 6 == 1 else date(2024, 1, 1 + n % 9) for n in numbers],
            "seen": pa.array([START + n * 1_234_567 for n in numbers], pa.timestamp("us", "UTC")),
        }
    )


def recent(step: int, dense_from: int = 1_000) -> pa.Table:
    """Ten rows, ten seconds; from a step on, ten milliseconds."""
    numbers = range(10 * step, 10 * step + 10)
    dense = START + 10 * dense_from * SECOND
    times = [START + n * SECOND if step < dense_from else dense + n * SECOND // 1_000 for n in numbers]
    return pa.table({"at": pa.array(times, pa.timestamp("us")), "x": [10 * step + row for row in range(10)]})


def tell(soup: Soup) -> None:
    """Fill the directory, step by step."""
    for statement in CREATE:
        soup.execute(statement)
    ids = [soup.register(text, f"request {number}") for number, text in enumerate(QUERIES)]
    soup.unregister(soup.register("SELECT x FROM gone"))
    soup.push("gone", pa.table({"x": [1, 2]}))
    soup.execute("DROP STREAM gone")
    for step in range(44):
        soup.clock.advance(seconds=10)  # type: ignore[attr-defined]
        soup.push("readings", readings(step), f"meter {step % 2}", 3, step // 2)
        soup.push("clicks", pa.table({"page": ["home", f"page {step % 4}"], "ms": [step, None]}))
        soup.push("recent", recent(step))
        if step == 20:
            soup.register_many(BLOCK, PARAMETERS, "block")
            soup.register_many([QUERIES[1].replace("40", "41"), "SELECT page FROM clicks WHERE ms > 7"])
        if step in (18, 30, 40):
            soup.maintain()
    soup.unregister(ids[-1] + 3)
    soup.heartbeat("recent", START + 445 * SECOND)
    soup.execute(LATER)
    soup.register("SELECT *, _id FROM kept WHERE x % 3 = 0 BEGIN (NOW - 400 SECONDS)")
    for step in range(44):
        soup.push("kept", recent(step))
        if step in (20, 40):
            soup.maintain()
        if step == 25:
            soup.execute("ALTER STREAM kept ADD COLUMN note TEXT")
    come_and_go(soup)
    for number, text in enumerate(QUERIES[:3]):
        soup.register(text, key=f"search {number}", labels={"user": f"u{number % 2}", "kind": "Grüße"})
    soup.submit(RegisterMany([BLOCK], PARAMETERS, tags=TAGS))
    soup.unregister(soup.query("search 2"))
    soup.unregister(soup.query("row 1"))
    for text in QUERIES[:3]:
        soup.register(text, key="moved", replace=True)
    join_and_count(soup)
    let_in(soup, END)
    part(soup)
    tell_programs(soup)
    fill_table(soup, START)
    push_ahead(soup)


def tell_programs(soup: Soup) -> None:
    """Groups of followers, and webhooks; queries that are not kept as usual; derived streams."""
    share_matches(soup)
    tell_receivers(soup)
    keep_otherwise(soup)
    derive(soup)


def come_and_go(soup: Soup) -> None:
    """Queries leave at once, and with their stream."""
    block = soup.register_many(BLOCK, PARAMETERS * 90)
    soup.unregister_many([soup.register(QUERIES[0]), *block[2:]], request_id="at once")
    soup.execute("CREATE STREAM brief (x BIGINT)")
    soup.register_many("SELECT x FROM brief WHERE x > ?", [[1], [2], [3]])
    soup.drop_stream("brief", cascade=True)
    for query_id in block[:2]:
        soup.unregister(query_id)


def join_and_count(soup: Soup) -> None:
    """Joins, and an aggregate that is asked while chunks are on disk."""
    joined = soup.register_many(JOINS)
    soup.unregister(joined[1])
    soup.register(JOINS[0], key="joined")
    soup.register(COUNTED, key="counted")
    _counted(soup)


def push_ahead(soup: Soup) -> None:
    """A push that is spooled, and one that never came, after chunks were passed."""
    pass_by(soup)
    soup.execute("CREATE STREAM spooled (x BIGINT)")
    soup.register("SELECT sum(x) AS s, count(*) AS n FROM spooled BEGIN (START)", key="spooled")
    now, push = soup.clock.now(), Push("spooled", pa.table({"x": range(1_000)}))
    foreseen = soup.admission.foresee(push, now)
    assert foreseen is not None
    with patch.object(log, "SLICE_BYTES", 1_024), patch.object(ready, "SMALL_PUSH", 1_024):
        spooled = soup.store.spool(foreseen.event.batch, lambda: 1)
        make_ready = partial(soup.store.make_ready, spooled=spooled)
        prepared = soup.admission.prepare(push, now, make_ready, foreseen)
        assert prepared.event is not None
        soup.store.append([prepared.event])
        soup.admission.give_back(soup.engine.apply([prepared.event]).freed_bytes)
        soup.store.spool(foreseen.event.batch, lambda: 1)


def pass_by(soup: Soup) -> None:
    """Chunks that are passed, the last of one stream and of another those before one that is stored."""
    soup.execute("CREATE STREAM passed (x BIGINT) RETENTION 128 ROWS")
    soup.execute("CREATE STREAM followed (at TIMESTAMP, x BIGINT) TIMESTAMP BY at RETENTION 100 SECONDS")
    for stream in ("passed", "followed"):
        soup.register(f"SELECT x, _id, _time FROM {stream} BEGIN (START)", key=stream)
    for step in range(42):
        soup.push("passed", pa.table({"x": recent(step)["x"]}))
        soup.push("followed", recent(step, dense_from=22))
        soup.maintain()


QUESTIONS: tuple[tuple[int, int | None, str | None], ...] = (
    *((query_id, None, None) for query_id in (1, 2, 3, 4, 5, 7, 9, 10, 11)),
    (2, START + 300 * SECOND, None),
    (4, None, "BEGIN (NOW - 20 ROWS)"),
    (8, None, None),  # unregistered
    (6, None, None),
)
"""The questions: query, time or None, window or None."""


def ask(soup: Soup) -> list[Any]:
    """The answers to the questions, as JSON."""
    said: list[Any] = []
    said += [_answer(soup, *question) for question in QUESTIONS]
    said.append([soup.matches("readings", tuple_id) for tuple_id in (0, 63, 64, 150)])
    again = soup.submit(Push("readings", readings(42), "meter 0", 3, 21))
    said.append([again.duplicate, again.sequence])
    said += [_answer(soup, 12, None, None), _tagged(soup), _replaced(soup), _joined(soup), _counted(soup)]
    said += [shown_tokens(soup), shown_tenants(soup), _spooled(soup), _passed(soup), shown_groups(soup)]
    return [*said, *shown_table(soup, START), *shown_webhooks(soup), *shown_amounts(soup), *shown_derived(soup)]


def _joined(soup: Soup) -> Any:
    """The joins, each with its sides (what stands on which stream) and its answer."""
    snapshot = soup.engine.snapshot()
    joins = [record for _, record in snapshot.queries.items(0) if not record.sqc_id]
    sides = [[[side.query_id, side.stream_id, side.query.text] for side in snapshot.sides_of(join)] for join in joins]
    answers = [soup.invoke(join.query_id, accept_truncation=True).to_table().to_pylist() for join in joins]
    rows = [[[str(value) for value in row.values()] for row in answer] for answer in answers]
    return [[*parts, shown] for parts, shown in zip(sides, rows, strict=True)]


def _counted(soup: Soup) -> Any:
    """The folds of chunks on disk, and the remaining aggregates."""
    return [str(soup.invoke(soup.query("counted"), window=window).to_table().to_pylist()) for window in WINDOWS]


def _spooled(soup: Soup) -> Any:
    """The answer over a push that was spooled."""
    return str(soup.invoke(soup.query("spooled")).to_table().to_pylist())


def _passed(soup: Soup) -> Any:
    """The answers of streams of which chunks were passed, with IDs and times."""
    return [str(soup.invoke(soup.query(key)).to_table().to_pylist()) for key in ("passed", "followed")]


def _tagged(soup: Soup) -> Any:
    """The queries with keys and labels, and the answer of one of them."""
    by_key = [soup.query(key) for key in ("search 0", "search 1", "row 0", "row 2")]
    labels = ({"user": "u0"}, {"user": "u1", "kind": "Grüße"}, {"user": "u2"}, {"kind": "row"})
    lists = [soup.queries(labels=label) for label in labels]
    return {"keys": by_key, "labels": lists, "answer": _answer(soup, by_key[-1], None, None)}


def _replaced(soup: Soup) -> Any:
    """The query to which the ID of a twice replaced query leads."""
    try:
        now = soup.query("moved")
        return soup.invoke(now - 2)
    except NotFound as problem:
        return problem.facts.get("replaced_by", "NotFound")


def _answer(soup: Soup, query_id: int, as_of: int | None, window: str | None) -> Any:
    try:
        answer = soup.invoke(query_id, as_of, window, accept_truncation=True)
    except PSoupError as problem:
        return type(problem).__name__
    (source,) = answer.completeness.sources
    complete = [
        answer.completeness.now,
        source.begin,
        source.end,
        source.final,
        source.late,
        source.ahead,
        source.pending,
    ]
    rows = [[str(value) for value in row.values()] for row in answer.to_table().to_pylist()]
    return {"query": query_id, "complete": complete, "rows": rows}


def leave(path: Path, target: Path) -> None:
    """The files of a directory that is in use, as a killed service would leave them."""
    shutil.copytree(path, target, ignore=shutil.ignore_patterns("lock"))


def after_a_checkpoint(soup: Soup, path: Path) -> None:
    """Go on until the last transactions are only in the log, for tests of a truncated log."""
    log = path / "psoup.db-wal"
    salt = log.read_bytes()[16:24]  # another one once the log begins anew, after a checkpoint
    while log.read_bytes()[16:24] == salt:
        soup.unregister(soup.register("SELECT x FROM kept"))
    while _commits(log.read_bytes()) < 2:  # and no more: the next checkpoint is eight frames away
        soup.register("SELECT x FROM kept")


def _commits(log: bytes) -> int:
    """The transactions in a write-ahead log since it began anew."""
    frames = [log[place : place + 24] for place in range(32, len(log), 24 + 4_096)]
    return sum(frame[4:8] != bytes(4) for frame in frames if frame[8:16] == log[16:24])


def make(folder: Path) -> None:
    """Write a data directory, as a killed service leaves it, and its answers into a folder."""
    path = folder / "living"
    with patch.multiple(database, PAGE_BYTES=4_096, CHECKPOINT_BYTES=32 * 1024):
        soup = Soup(path, START)
        tell(soup)
        thin_chunks(soup, START)
        after_a_checkpoint(soup, path)
        soup.clock.advance(seconds=(END - soup.clock.now()) / SECOND)  # type: ignore[attr-defined]
        leave(path, folder / "data")
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in ask(soup))
        (folder / "answers.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        soup.store.close()
    shutil.rmtree(path)


def pack(fixtures: Path) -> None:
    """Write the fixture of the present format into the folder `fixtures`."""
    name = f"format-{FORMAT}"
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / name)
        with tarfile.open(fixtures / f"{name}.tar.xz", "w:xz") as packed:
            packed.add(Path(folder) / name, name, filter=_of_nobody)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry without the time and the user of its making."""
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    pack(Path(sys.argv[1]))

"""Rows `sync.*`: a client that comes back and asks what has changed in an answer of 10,000 flights, 13 columns.

    sync.first, sync.back.1, .10    bytes of a reply: all rows, then what has come in the window after 1 % and 10 %
    sync.idle50                     bytes of a reply about fifty copies of which nothing has changed
    sync.delta.10, .100, .1000      the time that a service takes for so many new rows, from the token to the reply
    sync.delta.10.w2^18             the same for ten rows of a window of 262,144
    sync.delta.10.w2^20             the same for ten rows of a window of 2^20, beside one of 2^14
    sync.top100, sync.groups        bytes of a reply after 1 %, the mean of ten: the 100 latest flights, their groups

Beside each is a poll: the whole answer again, as Arrow in one Zstandard frame; beside some also what many build by
hand, a table in SQLite that is asked for rows above a number (which tells nothing of rows that leave), and the same in
databases (`sync_peers`). The copy is checked against the answer.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.copies.sync_peers import Databases
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_cli.flights.dataset import create_statement, load
from psoup_client.copies.json_columns import from_json
from psoup_client.copies.places import placed
from psoup_proto.v1 import sync_pb2
from psoup_service.host.ids import Ids
from psoup_service.sync.changes import Copies, packed
from psoup_service.sync.tokens import Tokens
from psoup_storage import MemoryStore

WINDOW, IDLE = 10_000, 50
WINDOWS = 2**14, 2**20
PUSHED = 2**19
APART = 400 * 24 * 3_600 * SECOND
"""Between two times of the data set, which has a year."""
NOW = 1_400_000_000 * SECOND
"""In May 2014, after all flights."""
ROOM = 3 * 1024 * 1024
CODEC = pa.Codec("zstd")
POLL = "the whole answer again, Arrow in Zstandard"
NUMBERED = "rows above a number, SQLite, JSON in gzip"
ALONE = "PyArrow takes, writes and compresses rows that are known"
GZIP = "the whole answer again, SQLite, JSON in gzip"
BYTES = {"1": Target(value_at_most=4_000), "10": Target(value_at_most=30_000)}
TIMES = {10: Target(value_at_most=150), 100: Target(value_at_most=800), 1_000: Target(value_at_most=4_000)}

AGAIN = {
    "sync.top100": "SELECT * FROM flights ORDER BY arr_delay DESC, _id LIMIT 100 BEGIN (NOW - {w} ROWS)",
    "sync.groups": "SELECT dest, air_time, count(*), avg(dep_delay), max(arr_delay) FROM flights"
    " GROUP BY dest, air_time BEGIN (NOW - {w} ROWS)",
}
"""Answers whose rows are told by their positions."""


def rows(run: Run) -> Iterator[Row]:
    """Rows of bytes, and of times."""
    names = ["sync.first", "sync.back.1", "sync.back.10", "sync.idle50"]
    yield from run.part(partial(_bytes, run.of(WINDOW, WINDOW, 1_000)), *names)
    for name, statement in AGAIN.items():
        yield from run.part(partial(_again, name, statement, run.of(WINDOW, WINDOW, 1_000)), name)
    for window, name in run.of(((WINDOW, ""), (262_144, ".w2^18")), ((WINDOW, ""),), ((1_000, ""), (2_000, ".w2^18"))):
        wanted = {f"sync.delta.{count}{name}": count for count in (TIMES if not name else (10,))}
        yield from run.part(partial(_times, wanted, window, run.of(51, 21, 1)), *wanted)
    for windows in run.of((WINDOWS,), (), ((500, 1_000),)):
        yield from run.part(partial(_windows, windows, run.of(201, 201, 1)), "sync.delta.10.w2^20")


class Side:
    """The service's side, in this process: flights in a window, and replies to wants."""

    def __init__(self, window: int, select: str = "SELECT * FROM flights") -> None:
        self.soup, self.at = LocalPSoup(clock=VirtualClock(NOW)), 0
        self.ids = Ids("00000001")
        self.tokens = Tokens(MemoryStore(), self.ids.incarnation)
        self.soup.execute(create_statement("flights"))
        self.flights = flights_of(window + 20_000)
        self.query = self.soup.register(f"{select} BEGIN (NOW - {window} ROWS)")
        self.push(window + 5_000)

    def push(self, count: int) -> None:
        """Let so many flights depart."""
        end = self.at + count
        while self.at < end:
            part = self.flights.slice(self.at, min(PUSHED, end - self.at))
            self.soup.push("flights", part)
            self.at += part.num_rows

    def reply(self, token: bytes, encoding: sync_pb2.Encoding.ValueType, wants: int = 1) -> sync_pb2.SyncResponse:
        """The reply to a client with a token, compressed."""
        soup = self.soup
        now = soup.clock.now()
        copies = Copies(soup.engine.snapshot(), self.tokens, self.ids, soup.tenant, now, ReadBudget(), encoding)
        want = sync_pb2.Want(token=token)
        changes = [copies.change(None if token else self.query, want, None, ROOM, ROOM) for _ in range(wants)]
        outcomes = [sync_pb2.SyncOutcome(change=change) for change in changes]
        return packed(copies, outcomes, sync_pb2.COMPRESSION_ZSTD)

    def token(self) -> bytes:
        """The token of a client that holds the whole answer."""
        token, complete = b"", False
        while not complete:
            change = change_in(self.reply(token, sync_pb2.ENCODING_ARROW))
            token, complete = change.token, change.complete
        return token

    def poll(self) -> bytes:
        """The whole answer, compressed."""
        sink = pa.BufferOutputStream()
        table = self.soup.invoke(self.query).to_table()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return CODEC.compress(sink.getvalue(), asbytes=True)


def flights_of(count: int) -> pa.Table:
    """So many flights: those of the data set, after the same of years before, where it has fewer."""
    flights = load()
    parts = [flights]
    while sum(part.num_rows for part in parts) < count:
        earlier = parts[0]
        for name in ("departure", "scheduled"):
            place = earlier.schema.get_field_index(name)
            moved = pc.subtract(earlier.column(name).cast(pa.int64()), APART).cast(earlier.schema.field(name).type)
            earlier = earlier.set_column(place, earlier.schema.field(name), moved)
        parts.insert(0, earlier)
    return pa.concat_tables(parts).slice(0, count)


class Numbered:
    """The peer that is built by hand: a table in SQLite whose rows have numbers, asked for those above the last one.

    It tells nothing of rows that leave, and of none that comes with a smaller number.
    """

    def __init__(self, flights: pa.Table) -> None:
        columns = [
            column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column for column in flights.columns
        ]
        self._database = sqlite3.connect(":memory:")
        self._database.execute(f"CREATE TABLE flights (id INTEGER PRIMARY KEY, {', '.join(flights.column_names)})")
        rows = zip(range(flights.num_rows), *[column.to_pylist() for column in columns], strict=True)
        self._database.executemany(f"INSERT INTO flights VALUES ({', '.join('?' * (len(columns) + 1))})", rows)

    def poll(self, number: int) -> bytes:
        """The rows from a number on."""
        rows = self._database.execute("SELECT * FROM flights WHERE id >= ?", (number,)).fetchall()
        return gzip.compress(json.dumps(rows, separators=(",", ":")).encode(), 6)


def change_in(reply: sync_pb2.SyncResponse) -> sync_pb2.Change:
    """The first change of a reply."""
    raw = CODEC.decompress(reply.body, reply.size, asbytes=True) if reply.compression else reply.body
    return sync_pb2.SyncBody.FromString(raw).outcomes[0].change


def _bytes(window: int) -> Iterator[Row]:
    side = Side(window)
    first = side.reply(b"", sync_pb2.ENCODING_UNSPECIFIED)
    change = change_in(first)
    schema = pa.ipc.read_schema(pa.py_buffer(change.form.schema_ipc))
    rows = from_json(change.columns_json, schema, 2)
    plain = side.soup.invoke(side.query).to_table().nbytes
    poll = [(POLL, _one(len(side.poll()))), ("an invocation, Arrow", _one(plain))]
    for peer, target in zip(poll, (Target(at_least=1.11), Target(at_least=4)), strict=True):
        yield Row("sync.first", _one(first.ByteSize()), "bytes", *peer, target)
    for share, target in BYTES.items():
        side.push(window * int(share) // 100)
        reply = side.reply(change.token, sync_pb2.ENCODING_UNSPECIFIED)
        change = change_in(reply)
        new = from_json(change.columns_json, schema, 2)
        rows = pa.concat_tables([rows.slice(new.num_rows), new])
        assert rows.drop_columns(["_id", "_time"]).equals(side.soup.invoke(side.query).to_table()), "the copy differs"
        ours, name = _one(reply.ByteSize()), f"sync.back.{share}"
        yield Row(name, ours, "bytes", POLL, _one(len(side.poll())), target)
        numbered = Numbered(side.flights.slice(0, side.at))
        yield Row(name, ours, "bytes", NUMBERED, _one(len(numbered.poll(side.at - new.num_rows))))
        yield Row(name, ours, "bytes", GZIP, _one(len(numbered.poll(side.at - window))))
    idle = side.reply(change.token, sync_pb2.ENCODING_UNSPECIFIED, IDLE)
    assert not change_in(idle).token
    up = sync_pb2.SyncRequest(wants=[sync_pb2.Want(token=change.token)] * IDLE).ByteSize()
    polls = _one(IDLE * len(side.poll()))
    yield Row(
        "sync.idle50", _one(idle.ByteSize()), "bytes", POLL, polls, Target(value_at_most=1_500), details={"up": up}
    )


def _again(name: str, statement: str, window: int) -> Iterator[Row]:
    side = Side(window)
    side.query = side.soup.register(statement.format(w=window))
    first = side.reply(b"", sync_pb2.ENCODING_UNSPECIFIED)
    change, rows, sizes = change_in(first), None, list[int]()
    schema = pa.ipc.read_schema(pa.py_buffer(change.form.schema_ipc))
    for _ in range(10):
        new = from_json(change.columns_json, schema, 0)
        rows = new if rows is None else placed(rows, new, change)
        assert rows.equals(side.soup.invoke(side.query).to_table()), "the copy differs"
        side.push(window // 100)
        reply = side.reply(change.token, sync_pb2.ENCODING_UNSPECIFIED)
        change = change_in(reply) if change_in(reply).token else sync_pb2.Change(token=change.token)
        sizes.append(reply.ByteSize())
    whole = _one(side.reply(b"", sync_pb2.ENCODING_UNSPECIFIED).ByteSize())
    ours = _one(sum(sizes) / len(sizes))
    yield Row(name, ours, "bytes", "the first sync", whole, Target(at_least=2))
    yield Row(name, ours, "bytes", POLL, _one(len(side.poll())))


def _times(wanted: dict[str, int], window: int, repeats: int) -> Iterator[Row]:
    side, databases = Side(window), Databases(window)
    try:
        for name, count in wanted.items():
            token = side.token()
            side.push(count)
            yield from _timed(name, count, side, token, databases, repeats)
    finally:
        databases.close()


def _timed(name: str, count: int, side: Side, token: bytes, databases: Databases, repeats: int) -> Iterator[Row]:
    here, first = side.flights.slice(0, side.at), side.at - count
    turns: dict[str, Callable[[], Any]] = {
        "": partial(side.reply, token, sync_pb2.ENCODING_UNSPECIFIED),
        "the same change as Arrow": partial(side.reply, token, sync_pb2.ENCODING_ARROW),
        POLL: side.poll,
        NUMBERED: partial(Numbered(here).poll, first),
        ALONE: partial(_alone, here.combine_chunks().to_batches()[0], pa.array(range(first, side.at))),
    }
    assert change_in(turns[""]()).rows == count
    samples = _in_turns(turns, repeats)
    polls = {peer: partial(poll, first) for peer, poll in databases.load(here).items()}
    assert all(poll().num_rows == count for poll in polls.values())
    samples |= _in_turns(polls, repeats)  # by themselves: a database leaves the caches cold for all others
    ours = samples.pop("")
    yield Row(name, ours, "us", POLL, samples.pop(POLL), TIMES[count], databases.note)
    for peer, sample in samples.items():
        yield Row(name, ours, "us", peer, sample)


def _alone(flights: pa.RecordBatch, places: pa.Array) -> bytes:
    """The least that a reply of these rows as Arrow takes, by PyArrow: they are known, taken, written, compressed."""
    return CODEC.compress(flights.take(places).serialize(), asbytes=True)


def _windows(windows: tuple[int, int], repeats: int) -> Iterator[Row]:
    """The change of ten rows of a large window, beside that of a small one."""
    turns = dict[str, Callable[[], Any]]()
    for name, window in zip(("small", "large"), windows, strict=True):
        side = Side(window)
        token = side.token()
        side.push(10)
        turns[name] = partial(side.reply, token, sync_pb2.ENCODING_UNSPECIFIED)
        assert change_in(turns[name]()).rows == 10
    samples = _in_turns(turns, repeats)
    peer = f"a window of {windows[0]:,}"
    yield Row("sync.delta.10.w2^20", samples["large"], "us", peer, samples["small"], Target(at_least=0.67))


def _in_turns(turns: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Sample]:
    """Microseconds of each call; the first of each is not counted."""
    times: dict[str, list[float]] = {turn: [] for turn in turns}
    for _ in range(repeats + 1):
        for turn, call in turns.items():
            times[turn].append(1e6 * seconds(call))
    return {turn: Sample.of(values[1:]) for turn, values in times.items()}


def _one(value: float) -> Sample:
    return Sample.of([value])

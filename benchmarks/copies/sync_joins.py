"""Rows `sync.join*`: a client that comes back and asks what has changed in a join of two windows of 10,000 flights.

    sync.join.bytes    bytes of a reply after 1 % new flights on both sides: where an aircraft flew on to
    sync.join          the time that a service takes for it, from the token to the reply

Beside each is a poll: the whole answer again, as Arrow in one Zstandard frame. The copy is checked against the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.copies.sync import POLL, WINDOW, Side, change_in
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup_client.copies.json_columns import from_json
from psoup_proto.v1 import sync_pb2

SELECT = (
    "SELECT a.carrier, a.flight, a.origin, b.origin AS via, b.dest, a.departure, b.departure AS flew_on, b.dep_delay"
    " FROM flights AS a, flights AS b WHERE a.tailnum = b.tailnum AND b.departure > a.departure"
)
SHARE = 100
"""Fraction of new flights: one in this many."""
IDS = 2
ENCODING = sync_pb2.ENCODING_UNSPECIFIED


def rows(run: Run) -> Iterator[Row]:
    """Rows of bytes and of times."""
    repeats = run.of(51, 21, 1)
    yield from run.part(partial(_measured, run.of(WINDOW, WINDOW, 1_000), repeats), "sync.join.bytes", "sync.join")


def _measured(window: int, repeats: int) -> Iterator[Row]:
    side = Side(window, SELECT)
    copy = _Copy(side)
    side.push(window // SHARE)
    token, reply = copy.token, side.reply(copy.token, ENCODING)
    copy.apply(change_in(reply))
    assert copy.complete and copy.rows().equals(side.soup.invoke(side.query).to_table()), "the copy differs"
    poll = _one(len(side.poll()))
    yield Row("sync.join.bytes", _one(reply.ByteSize()), "bytes", POLL, poll, Target(at_least=20))
    turns: dict[str, Callable[[], Any]] = {
        "": partial(side.reply, token, ENCODING),
        "the same change as Arrow": partial(side.reply, token, sync_pb2.ENCODING_ARROW),
        POLL: side.poll,
    }
    times: dict[str, list[float]] = {turn: [] for turn in turns}
    for _ in range(repeats + 1):
        for turn, call in turns.items():
            times[turn].append(1e6 * seconds(call))
    samples = {turn: Sample.of(values[1:]) for turn, values in times.items()}
    ours = samples.pop("")
    details = {"rows": change_in(reply).rows, "all_rows": copy.rows().num_rows}
    yield Row("sync.join", ours, "us", POLL, samples.pop(POLL), Target(at_least=3), details=details)
    yield Row("sync.join", ours, "us", *samples.popitem())


class _Copy:
    """A client's copy, all of it: rows by the tuple IDs of both sources, in their order."""

    def __init__(self, side: Side) -> None:
        self.token, self.complete = b"", False
        self._table: pa.Table | None = None
        self._schema = pa.schema([])
        while not self.complete:
            self.apply(change_in(side.reply(self.token, ENCODING)))

    def apply(self, change: sync_pb2.Change) -> None:
        """Do what a client does with a change."""
        if change.reset:
            self._schema, self._table = pa.ipc.read_schema(pa.py_buffer(change.form.schema_ipc)), None
        table = from_json(change.columns_json, self._schema, IDS)
        if self._table is not None:
            ends = list(accumulate(change.keep))
            columns = zip(self._table.columns, ends[::2], ends[1::2], strict=False)
            inside = [pc.and_(pc.greater_equal(ids, low), pc.less(ids, high)) for ids, low, high in columns]
            table = pa.concat_tables([self._table.filter(pc.and_(*inside)), table])
        self._table = table.sort_by([(name, "ascending") for name in self._schema.names[:IDS]])
        self.token, self.complete = change.token, change.complete

    def rows(self) -> pa.Table:
        """The answer that it shows."""
        assert self._table is not None
        return self._table.select(range(IDS, self._table.num_columns)).combine_chunks()


def _one(value: float) -> Sample:
    return Sample.of([value])

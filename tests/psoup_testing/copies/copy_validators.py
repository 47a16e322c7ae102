"""What must hold of every reply to a client that keeps copies: one function for each property.

    Told: want, copy of before ── change ──> copy of now; what an invocation of the same snapshot says

`check` runs all of them over one outcome; each raises AssertionError with the name of what it looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from psoup_client.answer import rows_of
from psoup_client.json_columns import from_json
from psoup_proto.v1 import sync_pb2
from psoup_service.sync.tokens import Held

Rows = list[tuple[Any, ...]]

FEW_BYTES = 64
"""The most that a change may have which says that nothing has changed."""


@dataclass(frozen=True, slots=True)
class Told:
    """One outcome: rows as the copy shows them before and after, and those of an invocation.

    `held`: what the service reads in the copy's token of now; `ranged`: the rows of the copy are those of some ranges,
    and their first column is the tuple ID; `numbers`: the tuple IDs that were held before. `meant`: the reset that
    there ought to be. `room`: bytes of rows that it may have. `schema`: of the rows on the wire.
    """

    want: sync_pb2.Want
    change: sync_pb2.Change
    sequence: tuple[int, int]
    before: Rows
    after: Rows
    truth: Rows
    schema: pa.Schema
    held: Held | None
    ranged: bool
    volatile: bool
    numbers: frozenset[int]
    meant: sync_pb2.Reset.ValueType
    room: int


def check(told: Told) -> None:
    """All properties of one outcome."""
    for validator in VALIDATORS:
        validator(told)


def right(told: Told) -> None:
    """A complete copy is the answer; another has rows of it, in its order, and no row beside it."""
    if told.change.complete:
        assert repr(told.after) == repr(told.truth), "right: the copy differs from the answer"
        return
    rows = iter(map(repr, told.truth))
    assert all(row in rows for row in map(repr, told.after)), "right: a part has rows that the answer has not"


def ordered(told: Told) -> None:
    """The reply is of no event before that of the token, unless the client begins anew."""
    assert told.change.reset or told.sequence[0] <= told.sequence[1], "ordered: the sequence went back"


def explicit_reset(told: Told) -> None:
    """A client begins anew if, and only if, what it has means something else; or the answer comes whole."""
    allowed = {told.meant}
    if not told.ranged and not told.meant:
        allowed.add(sync_pb2.RESET_WHOLE)
    assert told.change.reset in allowed, f"explicit reset: {told.change.reset} instead of {told.meant}"
    assert bool(told.change.reset) == told.change.HasField("form"), (
        "explicit reset: the form comes with a reset, always"
    )


def unique(told: Told) -> None:
    """No row comes that the client keeps, and none comes twice."""
    came = _came(told)
    assert len(set(came)) == len(came), "unique: a row comes twice"
    assert not set(came) & _kept(told), "unique: a row comes that is kept"


def gap_free(told: Told) -> None:
    """The rows of a copy are those of the answer in the intervals of its token: all of them."""
    if not told.ranged or told.held is None:
        return
    inside = [row for row in told.truth if any(low <= row[0] < end for low, end in told.held.intervals)]
    assert repr(inside) == repr(told.after), "gap-free: the token tells of other rows"


def bookmarked(told: Told) -> None:
    """A token tells of the rows that came with it: what is kept, and ranges that cover what came."""
    if not told.ranged or told.held is None or not told.change.token:
        return
    covered = told.held.intervals
    kept = [] if told.change.reset else _intervals(told.change.keep)
    assert all(any(low <= first and last <= end for low, end in covered) for first, last in kept), "bookmarked: keep"
    assert all(any(low <= n < end for low, end in covered) for n in _came(told)), "bookmarked: rows that came"


def bounded(told: Told) -> None:
    """Bytes and rows are within what was asked; a reply has one row at least."""
    size = len(told.change.columns_json) + sum(map(len, told.change.batches))
    assert size <= told.room or told.change.rows <= 1, "bounded: bytes"
    assert not told.want.max_rows or not told.ranged or told.change.rows <= told.want.max_rows, "bounded: rows"


def minimal(told: Told) -> None:
    """Only what is in the answer comes, and as many rows as are said."""
    if told.ranged:
        assert told.change.rows == _table(told).num_rows, "minimal: the number of rows"
        truth = {row[0] for row in told.truth}
        assert truth.issuperset(_came(told)), "minimal: a row comes that is not in the answer"


def quiet(told: Told) -> None:
    """Where nothing changes nothing is said: no rows, no token, few bytes."""
    if told.meant or told.volatile or told.before != told.after or not told.change.complete:
        return
    if told.change.token or told.change.rows:
        return  # the first time after rows have left, or an end has moved far
    assert told.change.ByteSize() <= FEW_BYTES, "quiet: bytes about nothing"


VALIDATORS: tuple[Callable[[Told], None], ...] = (
    right,
    ordered,
    explicit_reset,
    unique,
    gap_free,
    bookmarked,
    bounded,
    minimal,
    quiet,
)


def same_again(first: sync_pb2.SyncResponse, second: sync_pb2.SyncResponse) -> None:
    """Repeatable: a request changes nothing, so the same one has the same reply."""
    assert first.body == second.body, "repeatable: another reply to the same request"


def same_rows(told: Told, arrow: sync_pb2.Change) -> None:
    """The two encodings tell of the same rows."""
    batches = [pa.ipc.read_record_batch(pa.py_buffer(batch), told.schema) for batch in arrow.batches]
    rows = list(rows_of(pa.Table.from_batches(batches, told.schema)))
    assert repr(rows) == repr(list(rows_of(_table(told)))), "encodings: Arrow has other rows than JSON"
    assert arrow.token == told.change.token, "encodings: another token"


def nothing_new(change: sync_pb2.Change) -> None:
    """Quiet: a client that is told twice of one snapshot is told nothing the second time."""
    said = change.token, change.rows, change.columns_json, change.reset
    assert said == (b"", 0, b"", 0), "quiet: something is said where nothing has changed"
    assert change.complete, "quiet: a copy that was complete is not"


def unchanged(before: object, after: object) -> None:
    """Atomic: a reply that did not arrive, or an error, leaves rows and token as they were."""
    assert before is after, "atomic: the copy has changed without a reply"


def _table(told: Told) -> pa.Table:
    return from_json(told.change.columns_json, told.schema, 2)


def _came(told: Told) -> list[int]:
    numbers: list[int] = _table(told).column(0).to_pylist() if told.ranged else []
    return numbers


def _kept(told: Told) -> set[int]:
    if told.change.reset or not told.ranged:
        return set()
    if not told.change.token:
        return set(told.numbers)
    return {n for n in told.numbers if any(low <= n < end for low, end in _intervals(told.change.keep))}


def _intervals(differences: Any) -> list[tuple[int, int]]:
    ends = list(accumulate(differences))
    return list(zip(ends[::2], ends[1::2], strict=True))

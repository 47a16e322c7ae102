"""Properties of every reply to a client that keeps copies: a function for each.

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
from psoup_client.copies.json_columns import from_json
from psoup_proto.v1 import sync_pb2
from psoup_service.sync.tokens import ClientRows

Rows = list[tuple[Any, ...]]

FEW_BYTES = 64
"""The most that a change may have which says that nothing has changed."""


@dataclass(frozen=True, slots=True)
class Told:
    """An outcome: rows of the copy before and after it, and the rows of an invocation.

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
    held: ClientRows | None
    ranged: bool
    volatile: bool
    numbers: frozenset[int]
    meant: sync_pb2.Reset.ValueType
    room: int


def check(evidence: Told) -> None:
    """All properties of one outcome."""
    for validator in VALIDATORS:
        validator(evidence)


def right(evidence: Told) -> None:
    """A complete copy is the answer; another has rows of it, in its order, and no row beside it."""
    if evidence.change.complete:
        assert repr(evidence.after) == repr(evidence.truth), "right: the copy differs from the answer"
        return
    rows = iter(map(repr, evidence.truth))
    assert all(row in rows for row in map(repr, evidence.after)), "right: a part has rows that the answer has not"


def ordered(evidence: Told) -> None:
    """The reply is of no event before that of the token, unless the client begins anew."""
    assert evidence.change.reset or evidence.sequence[0] <= evidence.sequence[1], "ordered: the sequence went back"


def explicit_reset(evidence: Told) -> None:
    """A client begins anew if, and only if, what it has means something else; or the answer comes whole."""
    allowed = {evidence.meant}
    if not evidence.ranged and not evidence.meant:
        allowed.add(sync_pb2.RESET_WHOLE)
    assert evidence.change.reset in allowed, f"explicit reset: {evidence.change.reset} instead of {evidence.meant}"
    assert bool(evidence.change.reset) == evidence.change.HasField("form"), (
        "explicit reset: the form comes with a reset, always"
    )


def unique(evidence: Told) -> None:
    """No row comes that the client keeps, and none comes twice."""
    came = _came(evidence)
    assert len(set(came)) == len(came), "unique: a row comes twice"
    assert not set(came) & _kept(evidence), "unique: a row comes that is kept"


def gap_free(evidence: Told) -> None:
    """The rows of a copy are those of the answer in the intervals of its token: all of them."""
    if not evidence.ranged or evidence.held is None:
        return
    inside = [row for row in evidence.truth if any(low <= row[0] < end for low, end in evidence.held.intervals)]
    assert repr(inside) == repr(evidence.after), "gap-free: the token tells of other rows"


def bookmarked(evidence: Told) -> None:
    """A token tells of the rows that came with it: what is kept, and ranges that cover what came."""
    if not evidence.ranged or evidence.held is None or not evidence.change.token:
        return
    covered = evidence.held.intervals
    intervals = [] if evidence.change.reset else _intervals(evidence.change.keep)
    assert all(any(low <= first and last <= end for low, end in covered) for first, last in intervals), (
        "bookmarked: keep"
    )
    assert all(any(low <= n < end for low, end in covered) for n in _came(evidence)), "bookmarked: rows that came"


def bounded(evidence: Told) -> None:
    """Bytes and rows are within what was asked; a reply has one row at least."""
    size = len(evidence.change.columns_json) + sum(map(len, evidence.change.batches))
    assert size <= evidence.room or evidence.change.rows <= 1, "bounded: bytes"
    assert not evidence.want.max_rows or not evidence.ranged or evidence.change.rows <= evidence.want.max_rows, (
        "bounded: rows"
    )


def minimal(evidence: Told) -> None:
    """Only what is in the answer comes, and as many rows as are said."""
    if evidence.ranged:
        assert evidence.change.rows == _table(evidence).num_rows, "minimal: the number of rows"
        truth = {row[0] for row in evidence.truth}
        assert truth.issuperset(_came(evidence)), "minimal: a row comes that is not in the answer"


def quiet(evidence: Told) -> None:
    """Without a change a reply is empty: no rows, no token, few bytes."""
    if evidence.meant or evidence.volatile or evidence.before != evidence.after or not evidence.change.complete:
        return
    if evidence.change.token or evidence.change.rows:
        return  # the first time after rows have left, or an end has moved far
    assert evidence.change.ByteSize() <= FEW_BYTES, "quiet: bytes about nothing"


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


def same_rows(evidence: Told, arrow: sync_pb2.Change) -> None:
    """The two encodings tell of the same rows."""
    batches = [pa.ipc.read_record_batch(pa.py_buffer(batch), evidence.schema) for batch in arrow.batches]
    rows = list(rows_of(pa.Table.from_batches(batches, evidence.schema)))
    assert repr(rows) == repr(list(rows_of(_table(evidence)))), "encodings: Arrow has other rows than JSON"
    assert arrow.token == evidence.change.token, "encodings: another token"


def nothing_new(change: sync_pb2.Change) -> None:
    """Quiet: a client that is told twice of one snapshot is told nothing the second time."""
    said = change.token, change.rows, change.columns_json, change.reset
    assert said == (b"", 0, b"", 0), "quiet: something is said where nothing has changed"
    assert change.complete, "quiet: a copy that was complete is not"


def unchanged(before: object, after: object) -> None:
    """Atomic: a reply that did not arrive, or an error, leaves rows and token as they were."""
    assert before is after, "atomic: the copy has changed without a reply"


def _table(evidence: Told) -> pa.Table:
    return from_json(evidence.change.columns_json, evidence.schema, 2)


def _came(evidence: Told) -> list[int]:
    numbers: list[int] = _table(evidence).column(0).to_pylist() if evidence.ranged else []
    return numbers


def _kept(evidence: Told) -> set[int]:
    if evidence.change.reset or not evidence.ranged:
        return set()
    if not evidence.change.token:
        return set(evidence.numbers)
    return {n for n in evidence.numbers if any(low <= n < end for low, end in _intervals(evidence.change.keep))}


def _intervals(differences: Any) -> list[tuple[int, int]]:
    ends = list(accumulate(differences))
    return list(zip(ends[::2], ends[1::2], strict=True))

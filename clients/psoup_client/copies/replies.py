"""Replies with changes of copies. Each is checked, because the service may be broken, or be another program.

body, compressed ── declared size, at most 64 MiB ──> SyncBody ── declared number of rows ──> a table
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from psoup_client.channel.connection import MAX_RECEIVE_BYTES
from psoup_client.copies.held_rows import hidden_columns
from psoup_client.copies.json_columns import from_json
from psoup_client.errors import ServerFault
from psoup_proto.v1 import sync_pb2

T = TypeVar("T")
_WRONG = (
    ArithmeticError,
    AssertionError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    pa.ArrowException,
)
"""The exceptions that an invalid reply may raise while it is read."""


@contextmanager
def suspicious() -> Iterator[None]:
    """Convert exceptions from an invalid reply inside the block to ServerFault, reason BAD_REPLY."""
    try:
        yield
    except (*_WRONG, DecodeError) as problem:
        raise ServerFault(
            f"what the service sent is not a valid change of a copy ({str(problem)[:200]}); nothing was changed: is it"
            " PSoup, and of this version?",
            reason="BAD_REPLY",
        ) from problem


def body_of(reply: sync_pb2.SyncResponse | sync_pb2.WatchResponse) -> sync_pb2.SyncBody:
    """Decompress and parse a reply, after a check of its declared size. Raises ServerFault."""
    with suspicious():
        raw = reply.body
        if reply.compression != sync_pb2.COMPRESSION_UNSPECIFIED:
            if not 0 <= reply.size <= MAX_RECEIVE_BYTES:
                raise ValueError(f"{reply.size:,} bytes, and at most {MAX_RECEIVE_BYTES:,} are read")
            raw = pa.decompress(raw, reply.size, "zstd", asbytes=True)
        return sync_pb2.SyncBody.FromString(raw)


def placed_among(wanted: Sequence[T], body: sync_pb2.SyncBody) -> list[tuple[T, sync_pb2.SyncOutcome]]:
    """Pair each outcome of a message with its want. Raises ServerFault for an outcome without a want."""
    with suspicious():
        if any(place < 0 for place in body.places):
            raise ValueError("an outcome at a place below 0")
        return [(wanted[place], outcome) for place, outcome in zip(body.places, body.outcomes, strict=True)]


def new_rows(change: sync_pb2.Change, form: sync_pb2.CopyForm, schema: pa.Schema) -> pa.Table:
    """Build a table of a change's new rows. Checks their number and the intervals.

    Raises ValueError and similar errors for an invalid change; see `suspicious`.
    """
    _check_intervals("keep", change.keep, form.id_columns if form.id_columns > 1 else 1)
    _check_intervals("removed", change.removed, 1, bound=0)
    _check_intervals("places", change.places, 1, bound=0)
    hidden = hidden_columns(form)
    if not 0 <= hidden <= len(schema) - len(form.sort_keys):
        raise ValueError(f"{len(schema)} columns, and {hidden} + {len(form.sort_keys)} of them hidden")
    table = from_json(change.columns_json, schema, hidden)
    if table.num_rows != change.rows:
        raise ValueError(f"{table.num_rows:,} rows, not {change.rows:,}")
    return table


def _check_intervals(name: str, differences: Sequence[int], sources: int, bound: int = -(2**63)) -> None:
    """Raise ValueError unless the differences give ascending intervals that are not empty.

    Joined rows need one interval for each source.
    """
    steps = np.fromiter(differences, np.int64, len(differences))
    grows = steps[1:] if sources == 1 else steps[1::2]
    if len(steps) % (2 if sources == 1 else 2 * sources) or bool((grows <= 0).any()):
        raise ValueError(f"the ends of {name} are not intervals")
    if len(steps) and int(steps[0]) < bound:
        raise ValueError(f"{name} begins before the first row")

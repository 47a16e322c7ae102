"""The bits of queries over tuples, held against `matches`; the tuple IDs of pushes, held against the model."""

from __future__ import annotations

from collections.abc import Iterable

from psoup.errors import OutOfRange
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.local import LocalPSoup
from psoup_testing.oracles.model import ModelStream

_TOGETHER = 80
"""Tuples whose matches are compared together."""

_PUSHES = 4
"""The latest pushes, whose rows may still wait."""


def compare_bits(psoup: LocalPSoup, stream: str, first: int, standing: Iterable[int]) -> None:
    """Check that the bits of all standing queries say of some tuples from `first` on what `matches` says of them.

    `matches` leaves inactive queries out.
    """
    end = psoup.engine.snapshot().stream(stream, psoup.tenant).next_id
    ids = range(first, min(end, first + _TOGETHER))
    found, together = psoup.results(stream, ids=ids), psoup.matches_between(stream, ids.start, len(ids))
    bits = {record.query_id: found.of(record.query_id) for record in found.queries}
    assert list(bits) == sorted(standing)
    bits = {record.query_id: bits[record.query_id] for record in found.queries if record.keeping.active}
    for at, tuple_id in enumerate(ids):
        of_tuple = [query_id for query_id in bits if bits[query_id][at]]
        assert of_tuple == together.of(at), f"tuple {tuple_id}: bits {of_tuple}, matches {together.of(at)}"


def compare_tuple_ids(
    psoup: LocalPSoup, model: ModelStream, pushed: PushAcknowledgement, history: int, *, forgets: bool
) -> None:
    """Check that the rows of the latest pushes have the IDs that they have in the model, or wait there.

    `forgets`: events are forgotten once their tuples are stored, and IDs with them when it starts anew.
    """
    model.acknowledged = [*model.acknowledged, (model.pushes, pushed)][-_PUSHES:]
    placed = {entry[1:3]: place - history for place, entry in enumerate(model.released())}
    for number, acknowledgement in model.acknowledged:
        mine = sorted(entry[1:3] for entry in model.accepted if entry[1] == number)
        try:
            ids = psoup.tuple_ids(model.declaration.name, acknowledgement)
        except OutOfRange as problem:
            hot = psoup.engine.snapshot().stream(model.declaration.name, psoup.tenant).hot_id
            gone = any(placed.get(row, hot) < hot for row in mine)  # from memory
            assert problem.reason == "UNKNOWN_PUSH", problem
            assert gone or (forgets and acknowledgement is not pushed), problem
            continue
        assert list(ids) == [placed.get(row) for row in mine], f"push {number}: {ids}"

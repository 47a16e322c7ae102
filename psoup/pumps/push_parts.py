"""The parts of a push of derived rows: each has whole instants, so that the stream is complete up to the last one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from psoup.events.commands import PushDerived


def parted(command: PushDerived, limit: int) -> list[PushDerived]:
    """Divide a push into parts of whole instants. A part has at most `limit` bytes, or one instant."""
    if command.batch.nbytes <= limit or len(parts := halves(command)) < 2:
        return [command]
    return [part for half in parts for part in parted(half, limit)]


def halves(command: PushDerived) -> list[PushDerived]:
    """Divide a push into two parts of whole instants. Returns the push alone if all rows have one instant."""
    times = command.batch.times
    middle = int(np.searchsorted(times, times[len(times) // 2])) if len(times) else 0
    middle = middle or int(np.searchsorted(times, times[:1], "right").sum())
    if middle == len(times):
        return [command]
    at = int(times[middle - 1])
    positions = json.dumps({"at": at}).encode()
    first = replace(command, batch=command.batch.slice(0, middle), at=at, positions=positions)
    return [first, replace(command, batch=command.batch.slice(middle, len(times)), before=at)]

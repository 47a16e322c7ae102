"""Streams that have waited for room in memory for longer than LAG AT MOST: the commands that release their pins."""

from __future__ import annotations

from dataclasses import replace

from psoup.derivation import Halt
from psoup.events.commands import ReleasePins
from psoup.plan.canonical import describe_duration
from psoup.published.snapshot import Snapshot


def expired_waits(snapshot: Snapshot, now: int) -> list[ReleasePins]:
    """The commands for the streams that have waited for too long at the time `now`. O(waiting streams).

    Ends the waits of streams that were dropped, suspended or stopped.
    """
    commands = []
    for stream_id, wait in snapshot.waits.items():
        view = snapshot.by_id.get(stream_id)
        derived = None if view is None else view.spec.derived
        if view is None or derived is None or derived.halt is not None:
            snapshot.waits.end(stream_id)
            continue
        limit = describe_duration(derived.most_lag)
        halt = Halt(wait.since, f"it waited for room in memory for longer than its LAG AT MOST {limit}: {wait.why}")
        if replace(derived, halt=halt).pins_may_go(now):
            commands.append(ReleasePins(stream_id, now, view.tenant, halt))
    return commands

"""A service with a copy, and a standby that follows it, both in the test's process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from psoup_client import Client
from psoup_service.chores import standby as standby_chore
from psoup_service.chores.standby import StandbyClock
from psoup_service.process.clock import wall_time
from psoup_service.process.settings import Settings
from psoup_storage import ReplicatedStore, Replication, StandbyStore
from psoup_storage.replica import event_queue, standby_store, uploader
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import BEFORE, FailingTarget
from psoup_testing.services.ports import KeptPort
from psoup_testing.services.threaded_service import Serving, serving


class Pair(NamedTuple):
    """A service and a standby of it. `away`: whether the standby cannot reach the storage."""

    writer: Serving
    standby: Serving
    away: list[bool]

    def leave(self) -> None:
        """Let the standby not reach the storage any more. No request is under way then."""
        self.away[0] = True
        self.standby.wait_until(lambda: "says so" in self.standby.service._notices())

    def reach(self) -> None:
        """Wait until the standby has the writer's last event."""
        last = self.writer.service.store.sequence
        self.standby.wait_until(lambda: self.standby.service.host.applied >= last)


def last_reach(copy: Path) -> int:
    """The event that a restore of the copy reaches."""
    number = last_number(DirectoryTarget(copy))
    return int(read_object(DirectoryTarget(copy), number).facts["reach"]) if number else -1


@contextmanager
def standby_pair(folder: Path) -> Iterator[Pair]:
    """A pair with a stream `s` of three rows and a query on it. The copy is in `folder / "copy"`.

    The port of the writer stays its own after its end: a client may go on to ask there.
    """
    away = [False]
    target = FailingTarget(folder / "copy", lambda operation, name: BEFORE if away[0] else "")
    with ExitStack() as opened:
        for patched in (
            patch.multiple(uploader, FIRST_PAUSE_S=0.001, MOST_PAUSE_S=0.002, LOOK_S=0.01),
            patch.object(event_queue, "SEGMENT_S", 0.001),
            patch.multiple(standby_chore, EVERY_S=0.01, MOST_PAUSE_S=0.02),
            patch.object(standby_store, "open_target", lambda place: target),
        ):
            opened.enter_context(patched)
        replication = Replication(str(folder / "copy"), 2**20, 3_600, wall_time)
        store = ReplicatedStore(folder / "data", replication)
        kept_port = opened.enter_context(KeptPort())
        writer = opened.enter_context(serving(Settings(port=kept_port.number), store=store))
        with Client(writer.address) as client:
            client.create_stream("CREATE STREAM s (x BIGINT)")
            client.register("SELECT x FROM s WHERE x > 1", key="many")
            client.push("s", {"x": [1, 2, 3]})
        writer.wait_until(lambda: last_reach(folder / "copy") == store.sequence)
        followed = StandbyStore(folder / "standby", replication)
        reader = opened.enter_context(serving(clock=StandbyClock(followed), store=followed))
        yield Pair(writer, reader, away)

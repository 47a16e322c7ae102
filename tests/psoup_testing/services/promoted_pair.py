"""A service that writes, and a standby of it, in the test's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from psoup.errors import Internal
from psoup_client import Client, ClientOptions, RetryOptions
from psoup_service.chores import promotion
from psoup_service.chores import standby as standby_chore
from psoup_service.chores.standby import StandbyClock
from psoup_service.host import standby_host
from psoup_service.process.clock import wall_time
from psoup_service.process.settings import Settings
from psoup_storage import ReplicatedStore, Replication, StandbyStore
from psoup_storage.replica import event_queue, replicated_store, standby_store, uploader
from psoup_storage.replica.fences import read_fences
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import BEFORE, FailingTarget
from psoup_testing.services.threaded_service import serving

ONCE = ClientOptions(retry=RetryOptions(attempts=1, restart_seconds=0))


class Pair:
    """A service that writes, and a standby of it.

    `away`: whether the writer cannot reach the storage. `standby_away`: the same of the standby.
    """

    def __init__(
        self, path: Path, opened: ExitStack, settings: Settings, begin: Callable[[Client], object], remote: bool
    ) -> None:
        self.away = self.standby_away = False
        self.path, self.copy = path, path / "copy"
        target = FailingTarget(self.copy, lambda operation, name: BEFORE if self.away else "")
        with patch.object(replicated_store, "open_target", lambda place: target):
            place = "s3://bucket" if remote else str(self.copy)
            self.replication = Replication(place, 2**20, 3_600, wall_time, remote=remote)
            self.store = ReplicatedStore(path / "data", self.replication)
        self.writer = opened.enter_context(serving(settings, store=self.store))
        self.client = opened.enter_context(Client(self.writer.address, timeout=300, options=ONCE))
        self.client.create_stream("CREATE STREAM s (x BIGINT)")
        self.client.register("SELECT x FROM s WHERE x > 1", key="many")
        self.client.push("s", {"x": [1, 2, 3]})
        begin(self.client)
        self.writer.wait_until(lambda: self.store.uploader.reach == self.store.sequence)
        target = FailingTarget(self.copy, lambda operation, name: BEFORE if self.standby_away else "")
        with patch.object(standby_store, "open_target", lambda place: target):
            self.followed = StandbyStore(path / "standby", self.replication)
        clock = StandbyClock(self.followed)
        self.standby = opened.enter_context(serving(settings, clock=clock, store=self.followed))
        self.reader = opened.enter_context(Client(self.standby.address, timeout=300, options=ONCE))
        self.reach()

    def reach(self) -> None:
        """Wait until the standby has the writer's last event."""
        last = self.store.sequence
        self.standby.wait_until(lambda: self.standby.service.host.applied >= last)

    def push_lost(self, *values: int) -> None:
        """Push, at the writer, what no standby will get."""
        self.away = True
        self.client.push("s", {"x": [*values]})

    def end_writer(self) -> None:
        """Let the writer find the fence, and end."""
        self.away = False
        self.writer.wait_until(lambda: self.writer.service.host.state == "failed")
        with pytest.raises(Internal, match="took over the copy"):
            self.writer.stop()
        self.writer._problem = None


@contextmanager
def running_pair(
    path: Path,
    settings: Settings | None = None,
    begin: Callable[[Client], object] = lambda _: None,
    *,
    remote: bool = False,
) -> Iterator[Pair]:
    """A pair. `begin`: what the writer gets before the standby starts. `remote`: acknowledgements wait for the copy."""
    with ExitStack() as opened:
        for patched in (
            patch.multiple(uploader, FIRST_PAUSE_S=0.001, MOST_PAUSE_S=0.002, LOOK_S=0.01, FENCE_LOOK_S=0.01),
            patch.object(event_queue, "SEGMENT_S", 0.001),
            patch.multiple(standby_chore, EVERY_S=0.01, MOST_PAUSE_S=0.02),
            patch.multiple(promotion, TELL_S=0.01, PAUSE_S=0.01),
            patch.object(standby_host, "WAIT_S", 0.2),
        ):
            opened.enter_context(patched)
        pair = Pair(path, opened, settings or Settings(port=0), begin, remote)
        yield pair
        if read_fences(DirectoryTarget(pair.copy)).last is not None:
            pair.end_writer()

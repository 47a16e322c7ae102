"""A takeover that loses events: a service whose copy falls behind, and the next one, which has only what was copied."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from psoup_client import ClientOptions, RetryOptions
from psoup_service.process.clock import wall_time
from psoup_service.process.settings import Settings
from psoup_storage import ReplicatedStore, Replication
from psoup_storage.replica import event_queue, uploader
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.services.copied_service import CopiedService
from psoup_testing.services.standby_pair import last_reach
from psoup_testing.services.threaded_service import serving

UNHURRIED = (("grpc.min_reconnect_backoff_ms", 300_000), ("grpc.keepalive_time_ms", 600_000))
"""Options of channels: a machine that is slow is not taken for one that is gone."""
PATIENT = ClientOptions(channel_options=UNHURRIED, retry=RetryOptions(restart_seconds=300, patience_seconds=300))


class Takeover:
    """A service whose copy falls behind, and the next one, which has only what was copied.

    `addresses`: of both. `copied`: waits until the copy has all events. `happen`: ends the first, and starts the next.
    """

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self._folder, self._opened = folder, opened
        opened.enter_context(
            patch.multiple(uploader, FIRST_PAUSE_S=0.001, MOST_PAUSE_S=0.002, LOOK_S=0.01, CLOSE_S=0.0)
        )
        opened.enter_context(patch.object(event_queue, "SEGMENT_S", 0.001))
        self.first = CopiedService(folder)
        self.first.running = opened.enter_context(
            serving(Settings(socket=str(folder / "first")), store=self.first.store)
        )
        self.addresses = f"unix:{folder}/first,unix:{folder}/next"

    def copied(self) -> None:
        """Wait until the copy has all events. It gets no later ones."""
        store = self.first.store
        self.first.running.wait_until(lambda: last_reach(self._folder / "copy") == store.sequence)
        self.first.away = True

    def happen(self) -> None:
        """End the service, and let another directory take over."""
        self.first.running.stop()
        copy = self._folder / "copy"
        restore_copy(DirectoryTarget(copy), self._folder / "heir", takes_over=True)
        store = ReplicatedStore(self._folder / "heir", Replication(str(copy), 2**20, 3_600, wall_time))
        self._opened.enter_context(serving(Settings(socket=str(self._folder / "next")), store=store))

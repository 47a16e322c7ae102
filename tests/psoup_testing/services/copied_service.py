"""A service in the test's process whose events are copied, to a target that fails when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from psoup_client import Client, ClientOptions, RetryOptions
from psoup_service.process.clock import wall_time
from psoup_storage import ReplicatedStore, Replication
from psoup_storage.replica import event_queue, replicated_store, uploader
from psoup_testing.engines.copy_target import BEFORE, FailingTarget, copied
from psoup_testing.services.threaded_service import Serving, serving

ONCE = ClientOptions(retry=RetryOptions(attempts=1, restart_seconds=0))


class CopiedService:
    """A service with a copy in storage that fails while it is `away`.

    The copy has a base image of the empty directory. So none is due while the service runs, unless events are dropped.
    """

    def __init__(self, path: Path, *, remote: bool = False) -> None:
        self.away = False
        self.target = FailingTarget(path / "copy", lambda operation, name: BEFORE if self.away else "")
        with copied(path / "data", self.target):
            pass
        with patch.object(replicated_store, "open_target", lambda place: self.target):
            self.store = ReplicatedStore(
                path / "data", Replication("s3://bucket", 2**20, 3_600, wall_time, remote=remote)
            )
        self.running: Serving
        self.client: Client

    def wait_for_copy(self) -> None:
        self.running.wait_until(lambda: self.store.uploader.numbers > 1 and not self.store.uploader.lag()[0])


@contextmanager
def copied_service(path: Path, *, remote: bool = False) -> Iterator[CopiedService]:
    """A service that runs on `path`. `remote`: acknowledgements wait for the copy."""
    made = CopiedService(path, remote=remote)
    with (
        patch.multiple(uploader, FIRST_PAUSE_S=0.001, MOST_PAUSE_S=0.002, LOOK_S=0.01),
        patch.object(event_queue, "SEGMENT_S", 0.001),
        serving(store=made.store) as made.running,
        Client(made.running.address, timeout=300, options=ONCE) as made.client,
    ):
        yield made

"""Copies of answers in one process: the service's side on an engine whose directory lives through everything.

    clients: AnswerCopy ── SyncRequest ──> the servicer itself ── changes ──> applied by the SDK, one reply at a time
                                                 │
    soup: RestartingPSoup      restart, kill, put back, restore, rotate: a new servicer, on what the directory holds

No socket and no thread: the machine decides which bytes arrive. Each start knows the events that it shares with earlier
starts. So the test knows without the service whether a token is still valid.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from psoup.work.read_budget import ReadBudget
from psoup_client.copies.answer_copy import AnswerCopy, Synced, sync_copies
from psoup_client.errors import Unavailable
from psoup_proto.v1 import sync_pb2
from psoup_service.figures.metrics import Metrics
from psoup_service.host.ids import Ids
from psoup_service.servicers.sync import SyncServicer
from psoup_service.sync.keys import rotate
from psoup_service.wire.limits import Limits
from psoup_storage.durable.tools.backup import restore
from psoup_testing.engines.restarts import RestartingPSoup

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Start:
    """A start of a service: it follows `parent`, and has its events up to `fork`. Its key is that of the `key`th
    rotation.
    """

    number: int
    incarnation: str
    parent: int | None
    fork: int
    key: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A copy of the directory, and as of which event of which start."""

    path: Path
    start: Start
    sequence: int


class Desk:
    """The service's side: `serve` answers a request as the present start does."""

    def __init__(self, soup: RestartingPSoup, folder: Path) -> None:
        self.soup, self._folder, self._copies = soup, folder, 0
        self.hops = 0
        """Reads that a service would do on a reader thread."""
        self._metrics = Metrics()
        self._published: Callable[[], None] | None = None
        self.starts = [Start(0, soup.store.incarnation, None, 0, 0)]
        self.servicer = self._begin()

    @property
    def start(self) -> Start:
        """The present one."""
        return self.starts[-1]

    @property
    def sequence(self) -> int:
        """The last event."""
        return self.soup.engine.snapshot().sequence

    def serve(self, request: sync_pb2.SyncRequest) -> sync_pb2.SyncResponse:
        """The reply, through bytes on both ways. Raises what the servicer raises."""
        running = self.servicer.Sync(sync_pb2.SyncRequest.FromString(request.SerializeToString()), None)  # type: ignore[arg-type]
        try:
            running.send(None)
        except StopIteration as done:
            return sync_pb2.SyncResponse.FromString(done.value.SerializeToString())
        raise AssertionError("the servicer waits for something")

    def publish(self) -> None:
        """Say that there may be news, as the writer does."""
        if self._published is not None:
            self._published()

    def _listen(self, published: Callable[[], None]) -> Callable[[], None]:
        self._published = published

        def end() -> None:
            self._published = None

        return end

    # What happens to the directory ----------------------------------------------------------------------------

    def restart(self) -> None:
        """Stop and start."""
        last = self.sequence
        self.soup.restart()
        self._started(self.start, last)

    def kill(self) -> None:
        """End without a word, and start on what the disk has."""
        last, path = self.sequence, self._copied()
        self._open(path)
        self._started(self.start, last)

    def save(self) -> Saved:
        """A snapshot of the file system."""
        return Saved(self._copied(), self.start, self.sequence)

    def put_back(self, saved: Saved) -> None:
        """Start on a snapshot of before."""
        path = self._named()
        shutil.copytree(saved.path, path)
        self._open(path)
        self._started(saved.start, saved.sequence)

    def restore(self) -> None:
        """Make a backup and start on it: other IDs, and no token means anything."""
        self.soup.store.close()
        path = self._named()
        restore(self.soup.path, path)
        self._open(path, closed=True)
        self._started(None, 0)

    def rotate(self) -> None:
        """Stop, make a new key, and start."""
        last = self.sequence
        self.soup.store.close()
        rotate(self.soup.path)
        self.soup.reopen()
        self._started(self.start, last, self.start.key + 1)

    def stopped(self, work: Callable[[Path], None]) -> None:
        """Stop, do something to the directory, and start."""
        last = self.sequence
        self.soup.store.close()
        work(self.soup.path)
        self.soup.reopen()
        self._started(self.start, last)

    def shares(self, start: Start, sequence: int) -> bool:
        """Whether the present data have what was there at an event of some start."""
        at, end = self.start, self.sequence
        while at.number != start.number:
            if at.parent is None:
                return False
            at, end = self.starts[at.parent], min(end, at.fork)
        return sequence <= end

    def _begin(self) -> SyncServicer:
        soup = self.soup

        async def reflecting(sequence: int) -> None:
            assert sequence == 0

        async def derived_of_tenant(tenant: str, sequence: int) -> None:
            assert sequence == 0

        async def evaluate(read: Callable[[Any, ReadBudget], Any], *, tenant: str = "") -> Any:
            self.hops += 1
            return read(soup.engine.snapshot(), ReadBudget())

        backend = SimpleNamespace(
            store=soup.store,
            ids=Ids(soup.store.incarnation),
            limits=Limits(),
            metrics=self._metrics,
            host=SimpleNamespace(
                evaluate=evaluate, snapshot=lambda: soup.engine.snapshot(), clock=soup.clock, listen=self._listen
            ),
            reflecting=reflecting,
            derived_of_tenant=derived_of_tenant,
            now=soup.clock.now,
            tenant=lambda context: soup.tenant,
        )
        return SyncServicer(backend)  # type: ignore[arg-type]

    def _started(self, parent: Start | None, fork: int, key: int | None = None) -> None:
        old = parent.key if parent is not None else self.start.key
        number = len(self.starts)
        parent_number = None if parent is None else parent.number
        self.starts.append(Start(number, self.soup.store.incarnation, parent_number, fork, old if key is None else key))
        self.servicer = self._begin()

    def _open(self, path: Path, closed: bool = False) -> None:
        if not closed:
            self.soup.store.close()
        shutil.rmtree(self.soup.path)
        self.soup.path = path
        self.soup.reopen()

    def _named(self) -> Path:
        self._copies += 1
        return self._folder / f"copy-{self._copies}"

    def _copied(self) -> Path:
        path = self._named()
        shutil.copytree(self.soup.path, path)
        return path


@dataclass(slots=True)
class Manner:
    """The manner of a request: most bytes and rows, their order, and whether the reply is `cut` off."""

    max_bytes: int = 0
    max_rows: int = 0
    oldest_first: bool = False
    cut: bool = False
    key: str = ""
    """Ask for the query by its key."""


@dataclass(slots=True)
class Line:
    """A client's line to the desk, in place of the SDK's session. `asked` and `body` belong to the last reply."""

    desk: Desk
    manner: Manner = field(default_factory=Manner)
    asked: sync_pb2.SyncRequest = field(default_factory=sync_pb2.SyncRequest)
    reply: sync_pb2.SyncResponse = field(default_factory=sync_pb2.SyncResponse)

    @property
    def connection(self) -> Line:
        """As of a session."""
        return self

    @property
    def routes(self) -> SimpleNamespace:
        """The addresses: a single one."""
        return SimpleNamespace(several=False)

    @property
    def sync(self) -> SimpleNamespace:
        """The stub of the service."""
        return SimpleNamespace(Sync=None)

    def reflecting(self, wait_for: int | None, attempt: Callable[[int], Any]) -> Any:
        """As of a session that has written nothing."""
        return attempt(0)

    def call(self, method: object, request: sync_pb2.SyncRequest, timeout: float | None) -> sync_pb2.SyncResponse:
        """Make a reply in the present manner."""
        self.asked = sync_pb2.SyncRequest()
        self.asked.CopyFrom(request)
        self.asked.max_bytes = self.manner.max_bytes
        for want in self.asked.wants:
            want.max_rows, want.oldest_first = self.manner.max_rows, self.manner.oldest_first
            if self.manner.key:
                want.query_id, want.key = "", self.manner.key
        self.reply = self.desk.serve(self.asked)
        if self.manner.cut:
            raise Unavailable("the line was cut")
        return self.reply

    def apart(self, is_long: bool, work: Callable[..., T], /, *arguments: Any) -> T:
        """Do the work here, as a connection of threads does."""
        return work(*arguments)

    def ask(self, copies: list[AnswerCopy]) -> list[Synced]:
        """Bring copies up to date by one reply."""
        return sync_copies(self, copies, 1, None, None)  # type: ignore[arg-type]

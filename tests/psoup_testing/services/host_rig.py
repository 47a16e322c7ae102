"""A host on an engine and a store that only record, and can be held at a gate.

engine = RecordingEngine(); engine.gate.clear()      apply waits before it publishes
engine.inside.wait()                                 the writer is in apply now
engine.gate.set()                                    it may go on
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from psoup.admission import Admission
from psoup.clauses.quarantine import LeftIndex, Precautions
from psoup.config import EngineConfig
from psoup.events.acknowledgements import Effects
from psoup.events.commands import CreateStream
from psoup.events.events import Event
from psoup.work.clock import VirtualClock
from psoup.work.runner import Runner, serial
from psoup_service.host.host import Host
from psoup_service.host.room import HostLimits
from psoup_storage import MemoryStore

PATIENCE = 60.0
"""Seconds after which a test gives up; nothing waits that long unless it is broken."""


class Gate(threading.Event):
    """A gate that is open unless cleared. Waiting at a closed gate ends with an error, not with a hanging test."""

    def __init__(self) -> None:
        super().__init__()
        self.set()

    def pass_through(self) -> None:
        """Wait until it is open."""
        assert self.wait(PATIENCE), "a gate was never opened"


class RecordingTask:
    """Maintenance that can be held, or fail."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.gate = Gate()
        self.inside = threading.Event()
        self.problem: Exception | None = None

    def compute(self, run: Runner = serial) -> str:
        """Its name."""
        self.inside.set()
        self.gate.pass_through()
        if self.problem is not None:
            raise self.problem
        return self.name


class RecordingEngine:
    """An engine whose snapshot is the tuple of all applied sequences; `runs`: the runs as they came.

    `story`: runs and what was installed, in their order.
    """

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.installed: list[str] = []
        self.story: list[list[int] | str] = []
        self.threads: set[str] = set()
        self.gate, self.inside = Gate(), threading.Event()
        self.tasks: list[RecordingTask] = []
        self.problem: Exception | None = None
        self.freed = 0
        self.is_behind = 0.0
        self._published: tuple[int, ...] = ()

    def expire(self, clock: int) -> int:
        """Do nothing: tuples do not expire here."""
        return 0

    def take_precautions(self, precautions: Precautions) -> None:
        """Do nothing: no expression is evaluated here."""

    def news(self) -> list[LeftIndex]:
        """Do nothing: no clause leaves the index here."""
        return []

    def kept_out(self) -> dict[int, list[str]]:
        """Always empty: no expression is kept out here."""
        return {}

    def apply(self, events: Sequence[Event]) -> Effects:
        """Record a run."""
        self.threads.add(threading.current_thread().name)
        self.inside.set()
        self.gate.pass_through()
        if self.problem is not None:
            raise self.problem
        self.runs.append([event.sequence for event in events])
        self.story.append(self.runs[-1])
        self._published += tuple(self.runs[-1])
        freed, self.freed = self.freed, 0
        return Effects(events[-1].sequence, freed)

    def snapshot(self) -> tuple[int, ...]:
        """All sequences applied."""
        return self._published

    def maintenance(self, choose: object) -> RecordingTask | None:
        """The next of `tasks`."""
        self.threads.add(threading.current_thread().name)
        return self.tasks.pop(0) if self.tasks else None

    def behind(self) -> float:
        """As it was told."""
        return self.is_behind

    def install(self, result: Any) -> int:
        """Record a result."""
        self.threads.add(threading.current_thread().name)
        self.installed.append(result)
        self.story.append(result)
        return 0


class RecordingStore(MemoryStore):
    """Keeps everything, and the groups as they came; can be held, or fail."""

    def __init__(self) -> None:
        super().__init__(keep_pushes=True)
        self.groups: list[list[int]] = []
        self.gate, self.inside = Gate(), threading.Event()
        self.problem: Exception | None = None
        self.closed = False

    def append(self, events: Sequence[Event]) -> None:
        """Record a group."""
        self.inside.set()
        self.gate.pass_through()
        if self.problem is not None:
            raise self.problem
        self.groups.append([event.sequence for event in events])
        super().append(events)

    def close(self) -> None:
        """Note it."""
        self.closed = True
        super().close()


class Rig:
    """A host with everything it is made of."""

    def __init__(self, store: RecordingStore | None = None, **settings: int) -> None:
        memory = settings.pop("memory_bytes", 2**30)
        self.engine, self.store = RecordingEngine(), store or RecordingStore()
        self.admission = Admission(EngineConfig(memory_bytes=memory))
        self.clock = VirtualClock(5_000_000)
        self.host: Host[tuple[int, ...]] = Host(
            self.engine, self.admission, self.store, self.clock, limits=HostLimits(**settings)
        )

    def open_all(self) -> None:
        """Open all gates, so that a failing test ends."""
        self.engine.gate.set()
        self.store.gate.set()


@asynccontextmanager
async def serving(**settings: int) -> AsyncIterator[Rig]:
    """A started host with stream s (event 1, applied)."""
    rig = Rig(**settings)
    rig.host.start()
    try:
        await rig.host.submit(CreateStream("CREATE STREAM s (x BIGINT)"))
        await rig.host.wait_for(1, PATIENCE)
        yield rig
    finally:
        rig.open_all()
        await asyncio.to_thread(rig.host.close)


@contextmanager
def held(gate: threading.Event) -> Iterator[None]:
    """A context in which `gate` is closed."""
    gate.clear()
    try:
        yield
    finally:
        gate.set()


async def happened(event: threading.Event) -> None:
    """Wait for `event` without holding up the loop."""
    assert await asyncio.to_thread(event.wait, PATIENCE)


async def come_to_pass(holds: Callable[[], object]) -> None:
    """Return once a condition holds."""
    while not holds():
        await asyncio.to_thread(int)

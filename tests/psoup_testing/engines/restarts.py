"""The embedded engine on a durable store, started anew from it whenever a test says so.

soup = RestartingPSoup(config, clock, path)     as LocalPSoup; each event is stored before it is applied
soup.maintain()                                 closed chunks are stored, the log forgets
soup.restart()                                  a new store, admission and engine; admission must know what it knew
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from psoup.admission import Admission
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command
from psoup.execution.ahead.attempts import Lent
from psoup.execution.ahead.folds_ahead import FoldingAhead
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_testing.engines.recorded import RecordingPSoup

HOT = 2**32
"""Memory in which everything has room, tuples and what is kept for later questions."""


class RestartingPSoup(RecordingPSoup):
    """`every`: restart by itself after so many events; 0 is never. `restarts` counts them; every second reads ahead.

    `hot_bytes`: memory that the engine and a start aim at for tuples; admission refuses nothing for it. `cache_bytes`
    is of archived columns.
    """

    def __init__(
        self,
        config: EngineConfig,
        clock: VirtualClock,
        path: Path,
        every: int = 0,
        hot_bytes: int = HOT,
        cache_bytes: int = 2**20,
    ) -> None:
        super().__init__(config, clock)
        self.config, self.path, self.every = config, path, every
        self.hot_bytes, self.cache_bytes = hot_bytes, cache_bytes
        self.restarts = 0
        self.ahead = FoldingAhead(Lent(1 << 30))
        self.store = self._open()
        self._replay()

    def maintain(self) -> int:
        """Do all maintenance there is, and fold ahead, as a service does."""
        tasks = super().maintain()
        while self.ahead.step(self.engine.snapshot()):
            tasks += 1
        return tasks

    def submit(self, command: Command) -> Acknowledgement:
        """Prepare, store, apply."""
        prepared = self._prepare(command)
        if prepared.events:
            self.store.append(prepared.events)
            self.admission.give_back(self.engine.apply(prepared.events).freed_bytes)
            if self.every and prepared.events[-1].sequence % self.every == 0:
                self.restart()
        return prepared.acknowledgement

    def reopen(self) -> None:
        """Read what is in the directory; the store is closed."""
        self.store = self._open()
        self._replay()
        self.ahead = FoldingAhead(Lent(1 << 30))
        self.restarts += 1

    def restart(self) -> None:
        """Forget everything but the directory, and read it."""
        before = self.admission.state()
        self.store.note("asked", self.engine.snapshot().lifetimes.save(self.clock.now()), sync=True)
        self.store.close()
        self.reopen()
        self.engine.check()
        self.admission.check()
        after = self.admission.state()
        # What has expired is dropped when the next event comes, so more may be held than before; less only of what
        # has been archived.
        reserved, once = after.pop("reserved"), before.pop("reserved")
        assert reserved[1:] == once[1:], "queries and producers are charged otherwise than they were"  # type: ignore[index]
        less = reserved < once  # type: ignore[operator]
        assert not less or any(view.archived for view in self.engine.snapshot().by_id.values())
        assert after == before

    def _open(self) -> DurableStore:
        remembered = self.config.remembered
        return DurableStore(self.path, cache_bytes=self.cache_bytes, hot_bytes=self.hot_bytes, remembered=remembered)

    def _replay(self) -> None:
        if self.restarts % 2:
            self.store.read_ahead()
        self.admission = Admission(self.config, archive=True, parks=True)
        config = replace(self.config, memory_bytes=self.hot_bytes)
        self.engine = Engine(config, keep=self.store.keep, thin=self.store.thin, log=self.store.registrations)
        self.admission.share_published(self.engine.snapshot)
        for event in self.store.read():
            self.admission.replay(event)
            self.admission.give_back(self.engine.apply([event]).freed_bytes)
        self.engine.snapshot().lifetimes.restore(self.store.noted("asked"), self.clock.now())
        self.store.note("asked", "", sync=True)


class Made:
    """Makes the one engine of a duel, on a directory of its own; closes its store at the end."""

    soup: RestartingPSoup

    def __init__(
        self, path: Path, every: int = 0, hot_bytes: int = HOT, cache_bytes: int = 2**20, unstored: int = 0
    ) -> None:
        self._path, self._options, self._unstored = path, (every, hot_bytes, cache_bytes), unstored

    def __call__(self, config: EngineConfig, clock: VirtualClock) -> RestartingPSoup:
        """The engine."""
        config = replace(config, unstored_chunks=self._unstored)
        self.soup = RestartingPSoup(config, clock, self._path, *self._options)
        return self.soup


@contextmanager
def making(
    path: Path, every: int = 0, hot_bytes: int = HOT, cache_bytes: int = 2**20, unstored: int = 0
) -> Iterator[Made]:
    """A maker of an engine whose store is closed at the end. `unstored`: chunks that wait before they are stored."""
    made = Made(path, every, hot_bytes, cache_bytes, unstored)
    try:
        yield made
    finally:
        made.soup.store.close()

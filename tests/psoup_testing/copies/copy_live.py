"""Stores that watch, in the machine of copies: each in a thread of its own, which runs while the machine waits for it.

    the machine   step ── reads ─┐         ┌─ what it holds is the answer ── step
    the thread                   └─ Live ──┘  nothing comes: the machine goes on

As `Live` is an iterator that waits, it could not go on after an exception where nothing comes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psoup_client.errors import PSoupError
from psoup_proto.v1 import sync_pb2
from psoup_recharge import Recharged, Store
from psoup_testing.copies.copy_clients import PATTERNS, Client
from psoup_testing.copies.copy_stores import KeptCopy
from psoup_testing.copies.copy_watchers import PassingLoop, Stream, WatchingMachine, WatchLine

STORES = 2
KEPT_WATCHED = ("store watches", "store stalls", "store resumes")
"""The actions of watching stores."""


@dataclass(slots=True)
class LiveLine(WatchLine):
    """The line of a store that watches: windows may be truncated."""

    def call(self, method: object, request: sync_pb2.SyncRequest, timeout: float | None) -> sync_pb2.SyncResponse:
        """Make a reply."""
        for want in request.wants:
            want.accept_truncation = True
        return self.desk.serve(request)

    def open(self, method: object, request: sync_pb2.WatchRequest, timeout: float) -> Stream:
        """Begin a call."""
        for want in request.wants:
            want.accept_truncation = True
        return WatchLine.open(self, method, request, timeout)


class LiveStore:
    """A store that watches, of some patterns."""

    def __init__(self, machine: KeptWatchingMachine, loop: PassingLoop, path: Path, which: int) -> None:
        self._go, self._rests = threading.Semaphore(0), threading.Semaphore(0)
        self.store, self._failed = Store(path), list[BaseException]()
        self.line = LiveLine(machine.desk, loop=loop, quiet=self._rest)
        self.clients, self.errors = list[Client](), list[PSoupError]()
        for pattern in [*PATTERNS][which::STORES]:
            key = machine.kept_key(pattern)
            self.store.add(key, key=key)
            copy: Any = KeptCopy(self.store, key)  # type: ignore[arg-type]
            self.clients.append(Client(copy, self.line, key, pattern))
        self._live = self.store.watch(self.line)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def reads(self) -> list[PSoupError]:
        """Let it read all that comes; returns what is wrong with queries."""
        self.errors.clear()
        self._go.release()
        self._rests.acquire()
        if self._failed:
            raise self._failed.pop()
        return [*self.errors]

    def close(self) -> None:
        """End the thread, and close the store."""
        self._live.close()
        self._go.release()
        self._thread.join()
        self.store.close()

    def _rest(self) -> None:
        """Let the machine go on; of the thread."""
        self._rests.release()
        self._go.acquire()

    def _run(self) -> None:
        self._go.acquire()
        try:
            for outcome in self._live:
                self._look(outcome)
        except BaseException as problem:
            self._failed.append(problem)
        finally:
            self._rests.release()

    def _look(self, outcome: Recharged) -> None:
        if outcome.error is not None:
            self.errors.append(outcome.error)
            self._rest()  # it would ask again and again


class KeptWatchingMachine(WatchingMachine):
    """Stores for all patterns, which watch."""

    def keep(self, steps: Sequence[str]) -> None:
        """After each step one of the stores reads, and the other one stalls; who has read holds the answers."""
        self.acting, loop, stores = False, PassingLoop(), list[LiveStore]()
        try:
            stores += [self.kept(loop, which) for which in range(STORES)]
            for place, step in enumerate(steps):
                if step == "restart":
                    self.drain([client for store in stores for client in store.clients])
                self.step(step, place)
                for which, store in enumerate(stores):
                    for client in store.clients:
                        client.since.add(step)
                    if (place + which) % STORES == 0:
                        for client in store.clients:
                            self.client_met("store stalls", client)
                    elif not self.holds(store):
                        store.close()
                        stores[which] = self.kept(loop, which)
            for store in stores:
                self.holds(store)
        finally:
            for store in stores:
                store.close()
            loop.end()

    def kept(self, loop: PassingLoop, which: int) -> LiveStore:
        """A store that begins to watch."""
        self.number += 1
        store = LiveStore(self, loop, self.folder / f"live-{self.number}.db", which)
        assert self.holds(store)
        return store

    def kept_key(self, pattern: str) -> str:
        """The key of a query that has just been registered."""
        self.number += 1
        key = f"v{self.number}"
        self.soup.register(f"{PATTERNS[pattern]} BEGIN (NOW - 20 SECONDS)", key=key)
        return key

    def holds(self, store: LiveStore) -> bool:
        """Read all that comes, and then the progress; returns whether the queries are there still."""
        for progress in (False, True):
            if progress:
                store.line.stream.watcher.mark_all()
            for error in store.reads():
                assert not all(map(self.stands, store.clients)), str(error)
                return False
        for client in store.clients:
            assert repr(client.copy.rows()) == repr(self.truth(client, client.copy, "")), (
                "right: a store that watches holds another answer"
            )
            self.client_met("store watches", client)
            client.since.clear()
        return True

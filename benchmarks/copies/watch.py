"""Rows `watch.*`: clients that watch a query each, while 10,000 tuples a second come; one tuple in 10,000 is for each.

    watch.1k, .p99        from the push of a tuple to its message, for 1,000 clients; peer: a push and then a sync
    watch.1k.arrival      tuples a second that are taken meanwhile; peer: without clients that watch
    watch.detect.10k      a round's look which of 10,000 watched queries 200 new tuples match; peer: each by itself
    watch.stalled         the 99th percentile beside 1,000 clients more that do not read; peer: without these
    watch.stalled.memory  growth of the service while these stand still, of which its tuples are some

Clients are coroutines of a separate process (`benchmarks.copies.watchers`). Service, clients and the pushing program
share the machine's cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.processes import Served, resident
from benchmarks.tool.run import Run
from psoup.answer.copies.watched_clauses import WatchedClauses, clause_of
from psoup.execution.select.clause_matches import matches_in
from psoup.local import LocalPSoup
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import StreamView
from psoup_client import AnswerCopy, Client

DOMAIN = 10_000
"""Number of values; each query has one of them."""

BATCH = 100
"""Tuples of a push."""

PACE_S = 0.01
"""Seconds from one push to the next: 10,000 tuples a second."""
PAD = 16_384
"""Bytes of the texts that clients which do not read should read."""
NEW = 200
"""Tuples of a round that is looked at."""


def rows(run: Run) -> Iterator[Row]:
    """Rows of news, and of one look for them."""
    names = "watch.1k", "watch.1k.p99", "watch.1k.arrival", "watch.stalled", "watch.stalled.memory"
    yield from run.part(partial(_news, run.of(1_000, 1_000, 20), run.of(4.0, 2.0, 0.2)), *names)
    yield from run.part(partial(_detected, run.of(10_000, 10_000, 100), run.of(201, 101, 3)), "watch.detect.10k")


class Soup:
    """A service with a stream and queries, into which tuples come at a steady pace."""

    def __init__(self, service: Served, clients: int) -> None:
        self.there, self.client = service, Client(service.address)
        self.client.create_stream("CREATE STREAM s (a BIGINT, sent BIGINT, pad TEXT) RETENTION 100000 ROWS")
        # Two seconds of tuples: a message that is late by less has all rows that came.
        sql = "SELECT sent FROM s WHERE a = ? BEGIN (NOW - 20000 ROWS)"
        self.queries = [query.id for query in self.client.register_many(sql, [(n,) for n in range(clients)])]
        self._draw = np.random.default_rng(7)

    def push(self, count: int = BATCH) -> None:
        """Push some tuples, which say when they were sent."""
        sent = np.full(count, int(1e6 * time.monotonic()))
        self.client.push("s", pa.table({"a": self._draw.integers(0, DOMAIN, count), "sent": sent}))

    def wide(self) -> str:
        """Push long texts, and register a query of them, which one tuple in 10,000 goes on to match."""
        value = DOMAIN - 1
        self.client.push("s", [{"a": value, "sent": 0, "pad": f"{n:0{PAD}}"} for n in range(40)])
        return self.client.register(f"SELECT pad FROM s WHERE a = {value} BEGIN (START)").id

    def live(self, seconds: float) -> float:
        """Push at the pace for some seconds; returns the tuples taken a second."""
        begun, pushed = time.monotonic(), 0
        while (now := time.monotonic()) < begun + seconds:
            late = now - begun - PACE_S * pushed
            if late < 0:
                time.sleep(-late)
            self.push()
            pushed += 1
        return pushed * BATCH / (time.monotonic() - begun)


class Clients:
    """A process of clients that watch."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._into: IO[str] = process.stdin
        self._out: IO[str] = process.stdout
        assert self._out.readline() == "ready\n", "the clients did not begin"

    def taken(self) -> list[float]:
        """Milliseconds from push to message, of each message since the last time."""
        self._into.write("\n")
        self._into.flush()
        seconds: list[float] = json.loads(self._out.readline())
        return seconds


@contextmanager
def watching(
    address: str, query_ids: Sequence[str], *, still: bool = False, module: str = "benchmarks.copies.watchers"
) -> Iterator[Clients]:
    """Clients that watch a query each, from when all have their first message; `module`: what they are."""
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as ids:
        ids.write("\n".join(query_ids))
        ids.flush()
        command = [sys.executable, "-m", module, address, ids.name, *["--still"] * still]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield Clients(process)
        finally:
            process.kill()
            process.communicate()


def _news(clients: int, live_s: float) -> Iterator[Row]:
    with processes.served(Path(), durable=False) as service:
        soup = Soup(service, clients)
        copy = soup.client.copy(soup.queries[0])
        polls = Sample.of([1e3 * seconds(lambda: _pushed_and_synced(soup, copy)) for _ in range(20)])
        alone = soup.live(live_s)
        with watching(service.address, soup.queries) as watchers:
            soup.live(live_s / 4)
            watchers.taken()
            beside = soup.live(live_s)
            taken = watchers.taken()
            with watching(service.address, [soup.wide()] * clients, still=True):
                soup.live(live_s)
                watchers.taken()
                before = resident(service.pid)
                soup.live(live_s)
                stalled, grown = watchers.taken(), resident(service.pid) - before
    wanted = beside * live_s * clients / DOMAIN
    assert wanted < 100 or 0.8 < len(taken) / wanted < 1.2, "messages are missing"
    peer, details, high = "a push and a sync", {"messages": len(taken)}, share_of(taken, 99)
    yield Row("watch.1k", share_of(taken, 50), "ms", peer, polls, Target(value_at_most=30), details=details)
    yield Row("watch.1k.p99", high, "ms", peer, polls, Target(value_at_most=100))
    yield Row("watch.1k.arrival", _one(beside), "tuples/s", "nobody watches", _one(alone), Target(at_least=0.9))
    yield Row("watch.stalled", share_of(stalled, 99), "ms", "nobody stands still", high, Target(at_most=2))
    yield Row("watch.stalled.memory", _one(grown / 1e6), "MB", "none", None, Target(value_at_most=16))


def _pushed_and_synced(soup: Soup, copy: AnswerCopy) -> None:
    soup.push()
    copy.sync()


def _detected(clauses: int, repeats: int) -> Iterator[Row]:
    soup, draw = LocalPSoup(), np.random.default_rng(7)
    soup.execute("CREATE STREAM s (a BIGINT, b BIGINT)")
    queries = soup.register_many("SELECT b FROM s WHERE a = ?", [(n,) for n in range(clauses)])

    def push() -> StreamView:
        soup.push("s", pa.table({"a": draw.integers(0, DOMAIN, NEW), "b": range(NEW)}))
        return soup.engine.snapshot().stream("s", soup.tenant)

    watched = WatchedClauses(push())
    snapshot = soup.engine.snapshot()
    for query in queries:
        clause = clause_of(snapshot, snapshot.query(query, soup.tenant), None)
        assert clause is not None
        watched.add(clause)
    records = [snapshot.clause(snapshot.query(query, soup.tenant).sqc_id) for query in queries]
    ours, theirs = list[float](), list[float]()
    for number in range(repeats):
        view, counts, each = push(), list[int](), list[int]()
        ours.append(1e3 * seconds(lambda: counts.extend(watched.look(view).found.tolist())))  # noqa: B023
        if number % 50 == 0:
            theirs.append(1e3 * seconds(lambda: each.extend(_each(view, records))))  # noqa: B023
            assert counts == each, "news are missing"
    peer = "asked one by one"
    yield Row("watch.detect.10k", Sample.of(ours[1:]), "ms", peer, Sample.of(theirs), Target(value_at_most=0.5))


def _each(view: StreamView, clauses: Sequence[ClauseRecord]) -> list[int]:
    """The clauses that the newest tuples match, each looked for by itself."""
    low, high = view.next_id - NEW, view.next_id
    return [clause.sqc_id for clause in clauses if matches_in(view, clause, low, high)]


def share_of(taken: Sequence[float], share: float) -> Sample:
    """A percentile of some times; a tiny run may have none."""
    return _one(float(np.percentile(taken or [1.0], share)))


def _one(value: float) -> Sample:
    return Sample.of([value])

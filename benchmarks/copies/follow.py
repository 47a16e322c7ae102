"""Rows `follow.*`: new tuples with the searches that they match, for followers of 50,000 searches.

    follow.50k        10,000 tuples followed from a stored position to the end; peer: `matches_many` of the same tuples
    follow.10k        from a push of one tuple to its acknowledgement, with 10,000 followers of a label each; peer: one
    follow.10k.told   from the same push until each follower with a match has its batch; peer: one follower
    follow.10k.page   processor time of the process for each batch of a follower, of pushes of 1,000 tuples

A label has five searches, and a tuple matches 23 labels. The followers are coroutines in the process of the service,
because 10,000 connections take a minute to open. So no row has the cost of gRPC.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import numpy as np
import pyarrow as pa

from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.admission import Admission
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import Follower, FollowPage, follow_page
from psoup.answer.follow.told import FollowWanted
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.events.commands import CreateStream, Push, RegisterMany
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT
from psoup.published.snapshot import Snapshot
from psoup.work.clock import VirtualClock
from psoup_service.following.follower import FollowClient, FollowForm
from psoup_service.following.followers import Followers
from psoup_service.following.positions import Positions
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids
from psoup_service.sync.tokens import Tokens
from psoup_storage import MemoryStore

EACH = 5
"""Searches of a label."""
MATCHES = 23
"""Searches that a tuple matches."""
PUSH = 1_000
"""Tuples of a large push."""
ROWS, BYTES = 8_192, 4 << 20
"""The most rows and bytes of a batch."""
CREATE = "CREATE STREAM s (a BIGINT, note TEXT)"
TEMPLATE = "SELECT note FROM s WHERE a = $a"
INCARNATION = "0123456789abcdef"


def rows(run: Run) -> Iterator[Row]:
    """The rows of the table."""
    searches = run.of(50_000, 50_000, 500)
    yield from run.part(lambda: _read(searches, run.of(10_000, 10_000, 100), run.of(7, 5, 1)), "follow.50k")
    if run.quick:
        return
    names = "follow.10k", "follow.10k.told", "follow.10k.page"
    yield from run.part(lambda: asyncio.run(_told(searches, run.of(50, 50, 3))), *names)


class Searches:
    """Searches, each with a value and a label, and tuples that match some of them."""

    def __init__(self, count: int) -> None:
        self.draw, self.values, self.labels = np.random.default_rng(7), count // MATCHES, count // EACH
        self.of = self.draw.integers(0, self.values, count)
        names = [f"u{number % self.labels}" for number in range(count)]
        self.table = pa.table({"a": self.of, "user": names})

    def tuples(self, count: int) -> pa.Table:
        """Tuples of random values that searches have."""
        return pa.table({"a": self.draw.integers(0, self.values, count), "note": ["new"] * count})

    def label_count(self, tuples: pa.Table) -> int:
        """The number of labels with a search that matches one of some tuples."""
        return len(np.unique(np.flatnonzero(np.isin(self.of, tuples["a"].to_numpy())) % self.labels))


# From a stored position ----------------------------------------------------------------------------------------


def _read(count: int, tuples: int, samples: int) -> Iterator[Row]:
    soup, searches = LocalPSoup(), Searches(count)
    soup.execute(CREATE)
    soup.register_many(TEMPLATE, searches.table, labels=["user"])
    for _ in range(0, tuples, PUSH):
        soup.push("s", searches.tuples(min(PUSH, tuples)))
    ours, theirs = list[float](), list[float]()
    for _ in range(samples + 1):
        pages, lists = list[FollowPage](), list[list[int]]()
        theirs.append(1e3 * seconds(lambda: lists.extend(soup.matches_many("s", range(tuples)))))  # noqa: B023
        ours.append(1e3 * seconds(lambda: pages.extend(_pages(soup.engine.snapshot()))))  # noqa: B023
    pairs = [(int(at), int(query)) for page in pages for at, query in zip(page.tuple_ids, page.queries, strict=True)]
    assert pairs == [(at, query) for at, queries in enumerate(lists) for query in queries], "matches are missing"
    details, peer = {"matches": len(pairs), "pages": len(pages)}, "matches_many of the tuples"
    sample = Sample.of(ours[1:])
    yield Row("follow.50k", sample, "ms", peer, Sample.of(theirs[1:]), Target(at_most=2), details=details)


def _pages(snapshot: Snapshot) -> Iterator[FollowPage]:
    """All pages from the first tuple on."""
    view, follower, place = snapshot.stream("s", DEFAULT_TENANT), Follower(FollowWanted()), FollowPlace(0)
    while place.next_id < view.next_id:
        yield (page := follow_page(snapshot, view, follower, place, most_rows=ROWS, most_bytes=BYTES))
        place = page.place


# At the newest tuple -------------------------------------------------------------------------------------------


class Audience:
    """The followers of a service, and the number of batches that they got. Each follower has a label."""

    def __init__(self, host: Host[Snapshot], store: MemoryStore) -> None:
        self.host, self.batches, self._wanted = host, 0, 0
        self.followers = Followers(host, Positions(Tokens(store, INCARNATION)), Ids(INCARNATION))
        self._arrived = asyncio.Event()

    async def follow(self, label: int, ready: asyncio.Semaphore) -> None:
        """Read the batches of a follower. `ready` is released as soon as it is at the newest tuple."""
        view = self.host.snapshot().stream("s", DEFAULT_TENANT)
        wanted, form = FollowWanted(labels=(("user", f"u{label}"),)), FollowForm(DEFAULT_TENANT, "", ROWS, BYTES, 300)
        client = FollowClient(view.stream_id, form, wanted, FollowPlace(view.next_id), lambda _: None)
        async for response in self.followers.messages(client, None):
            if not response.matches_ipc:
                ready.release()
                continue
            self.batches += 1
            if self.batches >= self._wanted:
                self._arrived.set()

    async def push(self, tuples: pa.Table, batches: int) -> tuple[float, float]:
        """Push tuples that `batches` followers are told. Returns seconds to the acknowledgement, and to the last batch.

        A follower with several matches may get them in several batches.
        """
        self._arrived.clear()
        self._wanted, begun = self.batches + batches, time.perf_counter()
        await self.host.submit(Push("s", tuples))
        acknowledged = time.perf_counter() - begun
        if batches:
            await self._arrived.wait()
        return acknowledged, time.perf_counter() - begun


@asynccontextmanager
async def _following(audience: Audience, labels: range) -> AsyncIterator[None]:
    """Followers of some labels, from when all are at the newest tuple."""
    ready = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(audience.follow(label, ready)) for label in labels]
    try:
        for _ in tasks:
            await ready.acquire()
        while audience.followers.figures()["follow_lag_tuples"] or not audience.followers.looks:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _told(count: int, samples: int) -> list[Row]:
    """Each sample is a push of one tuple, and then a pause as long as a few looks."""
    store, searches, config = MemoryStore(), Searches(count), EngineConfig()
    host = Host(Engine(config), Admission(config), store, VirtualClock(10**9))
    host.start()
    spans, large = dict[int, list[tuple[float, float]]](), 0.0
    try:
        await host.submit(CreateStream(CREATE))
        await host.submit(RegisterMany([TEMPLATE], searches.table, labels=("user",), names=("a", "user")))
        await host.submit(Push("s", searches.tuples(PUSH)))
        for followers in (1, searches.labels):
            audience = Audience(host, store)
            async with _following(audience, range(followers)):
                spans[followers] = [await _sample(audience, searches, followers) for _ in range(samples + 5)][5:]
                if followers > 1:
                    large = await _large(audience, searches)
    finally:
        await asyncio.to_thread(host.close)
    alone, many = (np.array(pairs) * 1e3 for pairs in spans.values())
    rows = list[Row]()
    for place, name in enumerate(("follow.10k", "follow.10k.told")):
        ours, peer = Sample.of(many[:, place].tolist()), Sample.of(alone[:, place].tolist())
        rows.append(Row(name, ours, "ms", "one follower", peer, Target(at_most=2)))
    rows.append(Row("follow.10k.page", Sample.of([large]), "us", "none", None, Target(value_at_most=200)))
    return rows


async def _sample(audience: Audience, searches: Searches, followers: int) -> tuple[float, float]:
    """The times of a push of one tuple, which the first follower is told."""
    tuples, batches = searches.tuples(1), 1
    if followers == 1:
        tuples = tuples.set_column(0, "a", pa.array([int(searches.of[0])]))
    else:
        batches = searches.label_count(tuples)
    times = await audience.push(tuples, batches)
    await asyncio.sleep(0.02)
    return times


async def _large(audience: Audience, searches: Searches) -> float:
    """Microseconds of processor time for each follower that is told of a large push."""
    spent = list[float]()
    for _ in range(2):
        tuples = searches.tuples(PUSH)
        before, batches = time.process_time(), audience.batches
        await audience.push(tuples, searches.label_count(tuples))
        spent.append(1e6 * (time.process_time() - before) / max(audience.batches - batches, 1))
        await asyncio.sleep(0.05)
    return min(spent)

"""Clients that watch, on the wire: what is told to whom, and what ends a call.

Each test follows the tokens of its watchers; what they hold is checked against an invocation in
`tests/clients/copies/test_client_watch.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pyarrow as pa
import pytest

from psoup.model import DEFAULT_TENANT
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import sync_pb2 as sync
from psoup_proto.v1 import sync_pb2_grpc
from psoup_service.process.settings import Settings
from psoup_service.servicers.sync import SyncServicer
from psoup_service.watching import rounds as module
from psoup_service.watching.pages import WatchPage, WatchPages
from psoup_service.watching.rounds import Rounds
from psoup_service.watching.watcher import Watcher, WatchForm
from psoup_testing.services.gated_service import Door
from psoup_testing.services.wire import Wire, refused, run

EXHAUSTED, INVALID = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT
NEVER = 300
"""Seconds of progress in tests that must not need it."""


class Client:
    """A client that watches: its messages, and the tokens and numbers of rows that it holds."""

    def __init__(
        self, wire: Wire, *wants: str | sync.Want, progress: int = NEVER, metadata: Any = (), **fields: Any
    ) -> None:
        named = [want if isinstance(want, sync.Want) else sync.Want(query_id=want) for want in wants]
        request = sync.WatchRequest(wants=named, progress_seconds=progress, **fields)
        self.call = sync_pb2_grpc.SyncServiceStub(wire.channel).Watch(request, metadata=metadata)
        self.tokens = [want.token for want in named]
        self.came = [0] * len(named)
        self.gone = set[int]()

    async def next(self) -> sync.SyncBody:
        reply = await asyncio.wait_for(self.call.read(), 30)
        assert reply is not grpc.aio.EOF, "the call has ended"
        raw = pa.decompress(reply.body, reply.size, "zstd", asbytes=True) if reply.compression else reply.body
        body = sync.SyncBody.FromString(raw)
        for place, outcome in zip(body.places, body.outcomes, strict=True):
            if outcome.HasField("failure"):
                self.gone.add(place)
                continue
            change = outcome.change
            self.came[place] = change.rows + (0 if change.reset else self.came[place])
            self.tokens[place] = change.token or self.tokens[place]
        return body

    async def until(self, *came: int) -> int:
        """Read until so many rows have come; returns how many messages that took."""
        messages = 0
        while tuple(self.came) != came:
            await self.next()
            messages += 1
        return messages


@asynccontextmanager
async def watching(wire: Wire, *wants: str | sync.Want, **fields: Any) -> AsyncIterator[Client]:
    client = Client(wire, *wants, **fields)
    try:
        yield client
    finally:
        client.call.cancel()


def rounds_of(wire: Wire) -> Rounds:
    servicer: SyncServicer = wire.service._servicers.sync
    return servicer._rounds


async def idle(wire: Wire, condition: Callable[[], bool]) -> None:
    """Give the loop turns until something holds."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


def script(body: Any, settings: Settings | None = None) -> None:
    async def main(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT, b TEXT)")
        await body(wire)

    run(main, settings)


def test_a_watcher_is_told_what_matched_and_nothing_else() -> None:
    async def body(wire: Wire) -> None:
        few, many = await wire.register("SELECT a FROM s WHERE a > 5"), await wire.register("SELECT a FROM s")
        async with watching(wire, few, many) as client:
            first = await client.next()
            assert [*first.places] == [0, 1] and all(outcome.change.reset for outcome in first.outcomes)
            await wire.push("s", pa.table({"a": [1, 2]}))
            second = await client.next()
            assert [*second.places] == [1] and client.came == [0, 2], "the other query has not changed"
            await wire.push("s", pa.table({"a": [9]}))
            await client.until(1, 3)
            assert wire.service._figures()["watchers"] == 1 and wire.service._figures()["watch_rounds"] > 0
        await idle(wire, lambda: not (wire.service._calls.under_way.watching or rounds_of(wire)._tasks))
        assert len(rounds_of(wire).topics) == 0, "nothing is left of it"

    script(body)


def test_a_slow_reader_gets_one_merged_message(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(wire: Wire) -> None:
        query = await wire.register("SELECT a FROM s")
        gate = asyncio.Event()
        messages = Rounds.messages

        async def slowly(self: Rounds, watcher: Any) -> AsyncIterator[sync.WatchResponse]:
            async for message in messages(self, watcher):
                yield message
                await gate.wait()  # as a write that is not done yet

        monkeypatch.setattr(Rounds, "messages", slowly)
        async with watching(wire, query) as client:
            await client.next()
            for number in range(20):
                pushed = await wire.push("s", pa.table({"a": [number]}))
            await wire.service.host.wait_for(pushed.sequence, 30)
            gate.set()
            assert await client.until(20) == 1

    script(body)


@pytest.mark.seeded("a mark is lost while a message is made or written")
@pytest.mark.seeded("a mark is lost while a page is made")
def test_a_mark_that_comes_while_a_page_is_made_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(wire: Wire) -> None:
        query = await wire.register("SELECT a FROM s")
        async with watching(wire, query) as client:
            await client.next()
            rounds, made = rounds_of(wire), Rounds.made
            pushed = False

            async def late(self: Rounds, works: Any) -> Any:
                """A page of before a push, and the round after the push, before the page is sent."""
                nonlocal pushed
                pages = await made(self, works)
                if not pushed:
                    pushed, found = True, rounds.topics.found
                    await wire.push("s", pa.table({"a": [2]}))
                    await idle(wire, lambda: rounds.topics.found > found)
                return pages

            monkeypatch.setattr(Rounds, "made", late)
            await wire.push("s", pa.table({"a": [1]}))
            await client.until(2)

    script(body)


@pytest.mark.seeded("what comes between a client's first page and its being noted is lost")
def test_what_comes_before_a_client_is_noted_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(wire: Wire) -> None:
        query, made, pushed = await wire.register("SELECT a FROM s"), Rounds.made, list[int]()

        async def late(self: Rounds, works: Any) -> Any:
            """The first page, of before a push that no look can find for it."""
            pages = await made(self, works)
            if not pushed:
                pushed.append((await wire.push("s", pa.table({"a": [1]}))).sequence)
                await wire.service.host.wait_for(pushed[0], 30)
            return pages

        monkeypatch.setattr(Rounds, "made", late)
        async with watching(wire, query) as client:
            await client.until(1)

    script(body)


@pytest.mark.seeded("a page is shared with a client at another place")
def test_clients_at_the_same_place_share_a_page_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(wire: Wire) -> None:
        query = await wire.register("SELECT a FROM s")
        made = list[int]()
        make = WatchPages._make

        def counted(self: WatchPages, *given: Any) -> Any:
            made.append(1)
            return make(self, *given)

        monkeypatch.setattr(WatchPages, "_make", counted)
        await wire.push("s", pa.table({"a": [1, 2]}))
        async with watching(wire, query) as first:
            await first.until(2)
            async with watching(wire, query) as second, watching(wire, sync.Want(token=first.tokens[0])) as third:
                await second.until(2)
                await third.next()
                assert third.came == [0], "it held them"
                await wire.push("s", pa.table({"a": [3]}))
                for client, rows in ((first, 3), (second, 3), (third, 1)):
                    await client.until(rows)
                assert len({client.tokens[0] for client in (first, second, third)}) == 1
                made.clear()
                await wire.push("s", pa.table({"a": [4]}))
                for client, rows in ((first, 4), (second, 4), (third, 2)):
                    await client.until(rows)
                assert len(made) < 3, "one page was made for all that were asked for together"

    script(body)


def test_a_page_that_took_long_goes_to_all_who_are_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(wire: Wire) -> None:
        monkeypatch.setattr(module, "_TOGETHER_S", -1.0)
        form = WatchForm(DEFAULT_TENANT, sync.ENCODING_UNSPECIFIED, sync.COMPRESSION_UNSPECIFIED, 1_000, 15)
        queries = [await wire.register(f"SELECT a FROM s WHERE a > {number}") for number in range(2)]
        asked = [[queries[0]] * 2, queries, [queries[0]] * 2, [queries[1]]]
        watchers = [Watcher([sync.Want(query_id=query) for query in some], form, lambda _: None) for some in asked]
        first, *others = await rounds_of(wire).made([(watcher, watcher.take()) for watcher in watchers])
        assert first is not None and others == [None, first, None]

    script(body)


@pytest.mark.seeded("a client that watches is sent the page of another place")
def test_a_page_is_of_the_place_of_its_client() -> None:
    async def body(wire: Wire) -> None:
        query, tokens = await wire.register("SELECT a FROM s"), [b""]
        for number in range(3):
            pushed = await wire.push("s", pa.table({"a": [number]}))
            await wire.service.host.wait_for(pushed.sequence, 30)
            async with watching(wire, sync.Want(query_id=query, token=tokens[-1])) as client:
                await client.next()
                tokens.append(client.tokens[0])
        rounds, host = rounds_of(wire), wire.service.host
        pages = WatchPages(host.snapshot(), ReadBudget(), rounds._tokens, rounds._ids, host.clock.now(), lambda _: None)
        form = WatchForm(DEFAULT_TENANT, sync.ENCODING_UNSPECIFIED, sync.COMPRESSION_UNSPECIFIED, 1_000, 15)

        def page(token: bytes) -> tuple[int, WatchPage]:
            watcher = Watcher([sync.Want(query_id=query, token=token)], form, lambda _: None)
            made = pages.page(watcher, watcher.take())
            assert made is not None and made.reply is not None
            return sync.SyncBody.FromString(made.reply.body).outcomes[0].change.rows, made

        found = [page(token) for token in [*tokens, tokens[1]]]
        assert [rows for rows, _ in found] == [3, 2, 1, 0, 2]
        assert found[1][1] is found[4][1], "those at the same place share one"

    script(body)


def test_a_query_that_is_unregistered_ends_alone() -> None:
    async def body(wire: Wire) -> None:
        one, other = await wire.register("SELECT a FROM s"), await wire.register("SELECT b FROM s")
        async with watching(wire, one, other, one) as client:
            await client.next()
            await wire.queries.Unregister(queries.UnregisterRequest(query_id=one))
            while client.gone != {0, 2}:
                body = await client.next()
            assert body.outcomes[-1].failure.reason == "UNKNOWN_QUERY"
            await wire.push("s", pa.table({"a": [1]}))
            await client.until(0, 1, 0)
            await wire.queries.Unregister(queries.UnregisterRequest(query_id=other))
            assert [*(await client.next()).places] == [1]
            assert await client.call.read() is grpc.aio.EOF, "there is nothing left to watch"

    script(body)


@pytest.mark.long
def test_progress_comes_without_news() -> None:
    async def body(wire: Wire) -> None:
        async with watching(wire, await wire.register("SELECT a FROM s BEGIN (NOW - 1 HOUR)"), progress=1) as client:
            first, second, third = [await client.next() for _ in range(3)]
            assert [*second.places] == [*third.places] == [0]
            assert not second.outcomes[0].change.token and second.outcomes[0].change.complete
            assert first.streams[0].now.ToMicroseconds() < third.streams[0].now.ToMicroseconds()

    script(body)


def test_answers_that_only_asking_tells_about_are_asked_for() -> None:
    async def body(wire: Wire) -> None:
        wants = [
            await wire.register("SELECT count(*) FROM s"),
            await wire.register("SELECT x.a FROM s AS x, s AS y WHERE x.a = y.a"),
            await wire.register("SELECT a FROM s ORDER BY a DESC LIMIT 1 BEGIN (START)"),
        ]
        async with watching(wire, *wants) as client:
            await client.until(1, 0, 0)
            asked = rounds_of(wire).topics
            await wire.push("s", pa.table({"a": [1, 2]}))
            seen = set[int]()
            while seen != {0, 1, 2}:
                seen |= {*(await client.next()).places}
            assert asked.asked >= 3

    script(body)


@pytest.mark.seeded("one takes the place of a call")
def test_limits_of_watchers() -> None:
    async def body(wire: Wire) -> None:
        query = await wire.register("SELECT a FROM s")
        async with watching(wire, query) as first, watching(wire, query) as second:
            await first.next()
            await second.next()
            refusal = await refused(Client(wire, query).call.read(), EXHAUSTED)
            assert refusal.reason == "TOO_MANY_WATCHERS" and "RetryInfo" in refusal.details
            assert (await wire.invoke(query)).num_rows == 0, "a watcher takes no place of a call"
        await idle(wire, lambda: not wire.service._calls.under_way.watching)
        async with watching(wire, query) as third:
            await third.next()
        for wants, fields in (
            ([], {}),
            ([query] * 1_001, {}),
            ([query], {"progress": 301}),
            ([query], {"progress": -1}),
        ):
            await refused(Client(wire, *wants, **fields).call.read(), INVALID)
        await refused(Client(wire, query, max_bytes=-1).call.read(), INVALID)

    script(body, Settings(port=0, watchers=2, concurrent_calls=2))


def test_watches_of_one_credential_leave_places_for_others() -> None:
    async def body(wire: Wire) -> None:
        query = await wire.register("SELECT a FROM s")
        door = await Door(wire).begin()
        (_, mine), (_, other) = await door.issue("reader"), await door.issue("reader")
        async with watching(wire, query, metadata=mine) as first, watching(wire, query, metadata=mine) as second:
            await first.next()
            await second.next()
            refusal = await refused(Client(wire, query, metadata=mine).call.read(), EXHAUSTED)
            assert (refusal.reason, "RetryInfo" in refusal.details) == ("WATCH_BUDGET", True)
            told = {"budget": "watches", "used": "2", "needed": "1", "limit": "2", "setting": "watches_per_credential"}
            assert told.items() <= refusal.facts.items()
            refusals = wire.service._metrics.registry.get_sample_value
            assert refusals("psoup_refused_by_budget_total", {"budget": "watches"}) == 1
            async with watching(wire, query, metadata=other) as third:
                await third.next()
        await idle(wire, lambda: not wire.service._calls.under_way.watching)
        async with watching(wire, query, metadata=mine) as again:
            await again.next()
        await idle(wire, lambda: not wire.service._calls.under_way.watching)
        assert not wire.service._calls.under_way._watches, "nothing is left of credentials that do not watch"

    script(body, Settings(port=0, watches_per_credential=2))


def test_a_wrong_want_ends_alone() -> None:
    async def body(wire: Wire) -> None:
        query = await wire.register("SELECT a FROM s")
        wrong = [sync.Want(query_id="q-00000000-7"), sync.Want(), sync.Want(key="none"), sync.Want(token=b"\x01" * 80)]
        async with watching(wire, query, *wrong) as client:
            while len(client.gone) < 4:
                await client.next()
            await wire.push("s", pa.table({"a": [1]}))
            while client.came[0] < 1:
                await client.next()

    script(body)


@pytest.mark.seeded("a drain waits for clients that watch")
def test_a_drain_ends_watchers_that_read_and_that_do_not() -> None:
    """Five hundred watchers: the service ends in time, and each is told to come again."""

    async def body(wire: Wire) -> None:
        query = await wire.register("SELECT a FROM s")
        channels = [grpc.aio.insecure_channel(wire.service.address, [("n", n)]) for n in range(3)]
        request = sync.WatchRequest(wants=[sync.Want(query_id=query)], progress_seconds=NEVER)
        calls = [sync_pb2_grpc.SyncServiceStub(channels[n % 3]).Watch(request) for n in range(500)]
        await idle(wire, lambda: wire.service._calls.under_way.watching == 500)
        for call in calls[::2]:
            await call.read()
        stopping = asyncio.create_task(wire.service.stop())
        for call in calls:
            refusal = await refused(_to_the_end(call), grpc.StatusCode.UNAVAILABLE)
            assert refusal.reason == "DRAINING"
        assert await stopping
        for channel in channels:
            await channel.close()

    script(body)


async def _to_the_end(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass

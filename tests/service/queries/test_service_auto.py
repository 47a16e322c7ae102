"""AUTO in a service: rounds choose amounts, EXPLAIN and metrics show them, and a dear query becomes NONE."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest
from google.protobuf.json_format import MessageToDict

from psoup_proto.v1 import queries_pb2 as queries
from psoup_service.chores.auto_rounds import AutoWork
from psoup_service.process.settings import Settings
from psoup_testing.services.wire import Wire, run


@pytest.fixture(autouse=True)
def no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the test does rounds."""

    async def run(work: AutoWork) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(AutoWork, "run", run)


SQL = "SELECT a FROM s WHERE abs(a) > 5"
TEN_SECONDS = 10_000_000


async def registered(wire: Wire, *, auto: bool = True) -> str:
    amount = queries.AMOUNT_AUTO if auto else queries.AMOUNT_UNSPECIFIED
    request = queries.RegisterRequest(statement=SQL, amount=amount)
    return (await wire.queries.Register(request)).query.query_id


async def in_force(wire: Wire, query_id: str) -> tuple[str, str]:
    query = (await wire.queries.GetQuery(queries.GetQueryRequest(query_id=query_id))).query
    return tuple(queries.Amount.Name(value).removeprefix("AMOUNT_") for value in (query.amount, query.amount_in_force))  # type: ignore[return-value]


async def explained(wire: Wire, query_id: str) -> list[str]:
    return [*(await wire.queries.Explain(queries.ExplainRequest(query_id=query_id))).lines]


async def pushed(wire: Wire, rows: int) -> None:
    done = await wire.push("s", pa.table({"a": range(rows)}))
    await wire.service.host.wait_for(done.sequence, 30)


async def rounds(wire: Wire, count: int, work: Callable[[], Awaitable[object]]) -> None:
    """So many rounds, each ten seconds after the last one, as far as they can tell."""
    auto = wire.service.regular.auto
    for _ in range(count):
        await work()
        if auto._rounds._last is not None:
            auto._rounds._last = wire.service.host.clock.now() - TEN_SECONDS
        await auto.once()


async def until(wire: Wire, query_id: str, wanted: tuple[str, str]) -> None:
    async with asyncio.timeout(30):
        while await in_force(wire, query_id) != wanted:
            await asyncio.sleep(0)


def test_rounds_choose_amounts_and_the_service_shows_them() -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        query, usual = await registered(wire), await registered(wire, auto=False)
        assert await in_force(wire, query) == ("AUTO", "PARTIAL")
        await wire.queries.Unregister(queries.UnregisterRequest(query_id=usual))
        await rounds(wire, 6, lambda: pushed(wire, 20_000))
        await until(wire, query, ("AUTO", "NONE"))
        reply = await wire.queries.Explain(queries.ExplainRequest(query_id=query))
        details = MessageToDict(reply.details)
        assert (details["amount"], details["choice"]["amount"]) == ("AUTO", "NONE")
        assert {*details["choice"]["core_us"]} == {"NONE", "PARTIAL"}
        assert any("chosen   NONE since " in line for line in reply.lines)
        sample = wire.service._metrics.registry.get_sample_value
        assert sample("psoup_queries_by_amount", {"amount": "none", "active": "true"}) == 1
        assert sample("psoup_auto_queries", {"amount": "none"}) == 1
        assert sample("psoup_auto_switches_total", {"amount": "none"}) == 1
        before = await wire.invoke(query)

        async def ask() -> None:
            for _ in range(30):
                assert (await wire.invoke(query)).equals(before)

        await rounds(wire, 5, ask)
        await until(wire, query, ("AUTO", "COMPLETE"))
        assert (await wire.invoke(query)).equals(before)

    run(body)


def test_explain_says_that_a_round_without_work_estimates_nothing() -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        query = await registered(wire)

        async def nothing() -> None:
            pass

        await rounds(wire, 2, nothing)
        async with asyncio.timeout(30):
            lines = await explained(wire, query)
            while not any(" since " in line for line in lines):
                lines = await explained(wire, query)
        assert any(line.endswith("nothing to estimate: no tuples come, and the query is not invoked") for line in lines)

    run(body)


def test_an_answer_that_is_too_large_for_one_message_counts_once() -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        query = await registered(wire)
        await pushed(wire, 1_000)
        await wire.service.regular.auto.once()
        rows = wire.service.host.snapshot().automatic.rows
        for times in (1, 2):
            small = await wire.queries.Invoke(queries.InvokeRequest(query_id=query, max_bytes=100))
            many = await wire.queries.InvokeMany(queries.InvokeManyRequest(query_ids=[query], max_bytes=100))
            assert small.too_large and many.outcomes[0].answer.too_large
            _ = [piece async for piece in wire.queries.InvokeStream(queries.InvokeStreamRequest(query_id=query))]
            assert rows["asked"].tolist() == [times]

    run(body)


def test_the_pages_of_an_answer_count_once() -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        query = await registered(wire)
        await pushed(wire, 100)
        await wire.service.regular.auto.once()
        rows = wire.service.host.snapshot().automatic.rows
        for times in (1, 2):
            page = await wire.queries.InvokeRows(queries.InvokeRowsRequest(query_id=query, page_size=10))
            pages = 1
            while token := page.next_page_token:
                page = await wire.queries.InvokeRows(
                    queries.InvokeRowsRequest(query_id=query, page_size=10, page_token=token)
                )
                pages += 1
            assert pages > 2
            assert rows["asked"].tolist() == [times]

    run(body)


def test_a_service_without_auto_queries_does_no_round() -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        await registered(wire, auto=False)
        assert await wire.service.regular.auto.once() == 0
        assert wire.service.regular.auto._rounds._last is None

    run(body)


def test_an_auto_query_beyond_the_share_becomes_none_and_stays_so() -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        query = await registered(wire)
        await wire.service.regular.auto.once()
        watch = wire.service.regular.shares
        watch._now = lambda: watch._looked
        for _ in range(3):
            await pushed(wire, 10)
            await watch.once()
        await until(wire, query, ("AUTO", "NONE"))
        assert watch.quarantined == 0
        listed = (await wire.queries.ListQueries(queries.ListQueriesRequest())).queries
        assert [[*q.outside] for q in listed] == [[]]
        assert any("quarantine_share" in line for line in await explained(wire, query))
        await rounds(wire, 6, lambda: wire.invoke(query))
        assert await in_force(wire, query) == ("AUTO", "NONE")
        assert (await wire.invoke(query)).column("a").to_pylist() == [6, 7, 8, 9] * 3

    run(body, Settings(port=0, warn_share=0, quarantine_share=0.9))


def test_auto_may_be_the_amount_of_queries_that_name_none() -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        assert await in_force(wire, await registered(wire, auto=False)) == ("AUTO", "PARTIAL")

    run(body, Settings(port=0, amount="auto"))

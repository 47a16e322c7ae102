"""A service finds queries that take much of the writer's time, tells of them, and takes them out if it is asked to.

Its clock stands still here, so that any time at all is much.
"""

from __future__ import annotations

import asyncio
import logging

import pyarrow as pa
import pytest

from psoup_proto.v1 import queries_pb2 as queries
from psoup_service.process.settings import Settings
from psoup_testing.services.wire import Wire, run

BATCH = pa.table({"a": range(10)})


async def looked(wire: Wire) -> list[int]:
    """The queries that the third look finds: the first two find where counters stand."""
    watch = wire.service.regular.shares
    watch._now = lambda: watch._looked
    found = list[int]()
    for _ in range(3):
        pushed = await wire.push("s", BATCH)
        await wire.service.host.wait_for(pushed.sequence, 30)
        found = [share.query_id for share in await watch.once()]
    return found


async def outside(wire: Wire, query_id: str) -> list[str]:
    (listed,) = [
        q for q in (await wire.queries.ListQueries(queries.ListQueriesRequest())).queries if q.query_id == query_id
    ]
    return [*listed.outside]


def test_a_dear_query_is_warned_of_once_and_stays(caplog: pytest.LogCaptureFixture) -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        query = await wire.register("SELECT a FROM s WHERE abs(a) > 5")
        with caplog.at_level(logging.WARNING):
            assert len(await looked(wire)) == 1
            pushed = await wire.push("s", BATCH)
            await wire.service.host.wait_for(pushed.sequence, 30)
            await wire.service.regular.shares.once()
        (told,) = [record for record in caplog.records if "takes much of the time" in record.message]
        assert told.__dict__["query"] == query
        assert wire.service.regular.shares.figures() == {"dear_queries": 1, "dear_clauses_left_index": 0}
        assert await outside(wire, query) == []
        explained = await wire.queries.Explain(queries.ExplainRequest(query_id=query))
        assert "of the time in which tuples arrive" in str(explained)

    run(body)


def test_a_query_beyond_the_second_share_leaves_the_index_and_answers_as_before() -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        query = await wire.register("SELECT a FROM s WHERE abs(a) > 5")
        await looked(wire)
        async with asyncio.timeout(30):
            while not (why := await outside(wire, query)):
                await asyncio.sleep(0)
        assert len(why) == 1 and query in why[0] and "quarantine_share" in why[0]
        pushed = await wire.push("s", BATCH)
        await wire.service.host.wait_for(pushed.sequence, 30)
        assert (await wire.invoke(query)).column("a").to_pylist() == [6, 7, 8, 9] * 4
        figures = wire.service._figures()
        assert figures["dear_clauses_left_index"] == figures["clauses_left_index"] == 1
        await wire.queries.Unregister(queries.UnregisterRequest(query_id=query))
        again = await wire.register("SELECT a FROM s WHERE abs(a) > 5")
        assert await outside(wire, again) == []

    run(body, Settings(port=0, warn_share=0, quarantine_share=0.9))


def test_nobody_looks_where_both_shares_are_off() -> None:
    async def body(wire: Wire) -> None:
        await wire.service.regular.shares.run()

    run(body, Settings(port=0, warn_share=0))

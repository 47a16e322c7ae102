"""History attached to a running service over the network, while tuples come and answers are asked for."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.matching.outside import Beforehand
from psoup.model import SECOND
from psoup.sql import create_stream
from psoup_client import AttachResult, Client, Conflict, FailedPrecondition, InvalidRequest, NotFound, OutOfRange
from psoup_service.process.settings import Settings
from psoup_service.service import running_service
from psoup_storage import open_store
from psoup_storage.durable.tools.backup import restore
from psoup_storage.formats.covers import Cover, StoredFile, cover_chunk, write_cover
from psoup_storage.formats.matches import ranges_of
from psoup_testing.engines.attachments import write
from psoup_testing.services.threaded_service import serving

EVENTS = "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t"


def rows(first: int, stop: int) -> pa.Table:
    times = pa.array([n * SECOND for n in range(first, stop)], pa.timestamp("us", "UTC"))
    return pa.table({"t": times, "x": range(first, stop)})


def add(client: Client, job: str, first: int, stop: int) -> AttachResult:
    """Write history as a job does, and attach it."""
    site = client.begin_attach("s", job)
    table, times = rows(first, stop), [n * SECOND for n in range(first, stop)]
    write(Path(site.folder) / job, create_stream(site.statement), table, times, range(0, stop - first, 100))
    return client.attach(site, job)


async def served(path: Path, work: Any) -> None:
    """One life of a service on `path`; `work(client)` runs on a thread."""
    store = open_store(str(path), reserve_bytes=0)
    async with running_service(Settings(port=0), store=store) as service:

        def run() -> None:
            with Client(service.address) as client:
                work(client)

        await asyncio.to_thread(run)


def values(client: Client, query: str) -> list[int]:
    return list(client.query(query).invoke().to_arrow().column("x").to_pylist())


def test_history_is_attached_to_a_service_that_goes_on(tmp_path: Path) -> None:
    known: list[str] = []

    def first(client: Client) -> None:
        client.create_stream(EVENTS)
        known.append(client.register("SELECT x FROM s WHERE x % 10 = 0 BEGIN (START)").id)
        assert client.begin_attach("S", "years").bound is None
        client.push("s", rows(1_000, 1_100))
        done = add(client, "years", 500, 1_000)
        assert (done.chunks, done.rows, done.duplicate) == (5, 500, False)
        assert values(client, known[0]) == list(range(500, 1_100, 10))
        with pytest.raises(OutOfRange, match="must end at or before 1970-01-01 00:08:20Z") as refused:
            add(client, "more", 400, 502)
        assert int(refused.value.facts["bound"]) == 500 * SECOND
        info = client.describe("s")
        assert (info.first_tuple_id, info.next_tuple_id, info.tuples) == (-500, 100, 600)
        assert info.archived_chunks == 5
        assert client.matches("s", -500) == [known[0]]
        with pytest.raises(NotFound, match="there is no stream or table 'nope'"):
            client.begin_attach("nope", "years")
        site = client.begin_attach("s", "years")
        assert (site.attached, client.attach(site, "gone").duplicate) == (True, True)
        with pytest.raises(InvalidRequest, match="is not the name of a directory"):
            client.attach(client.begin_attach("s", "other"), "../years")
        with pytest.raises(InvalidRequest, match=r"there is no manifest\.json"):
            client.attach(client.begin_attach("s", "other"), "nothing")

    def second(client: Client) -> None:
        assert values(client, known[0]) == list(range(500, 1_100, 10))
        add(client, "older", 0, 501)
        assert values(client, known[0]) == sorted([*range(0, 1_100, 10), 500])

    asyncio.run(served(tmp_path / "data", first))
    asyncio.run(served(tmp_path / "data", second))


def test_keys_and_labels_stay_through_history_cover_backup_and_restore(tmp_path: Path) -> None:
    """The IDs are others after a restore; the keys find the same queries, answers and matches."""
    each = {"n": [2, 3, 5], "id": ["two", "three", "five"], "user": ["u1", "u2", "u1"]}
    sql = "SELECT x FROM s WHERE x % $n = 0 BEGIN (START)"
    found: list[Any] = []

    def look(client: Client) -> list[Any]:
        table = client.matches_table("s", -500, -490, label_columns=["user"])
        answers = client.invoke_many(keys=["late", *each["id"]])
        return [
            [(answer.key, answer.rows()) for answer in answers],
            [(query.key, query.labels) for query in client.queries(labels={"user": "u1"})],
            client.matches("s", -500, keys=True),
            table.select(["tuple_id", "key", "user"]).to_pylist(),
            client.matches("s", 3, keys=True, labels={"user": "u2"}),
        ]

    def first(client: Client) -> None:
        client.create_stream(EVENTS)
        client.register_many(sql, each, key="id", labels=["user"])
        client.push("s", rows(1_000, 1_100))
        add(client, "years", 500, 1_000)
        late = client.register("SELECT x FROM s WHERE x < 510 BEGIN (START)", key="late", labels={"user": "u1"})
        site = client.begin_cover([late.id])
        found[:] = [look(client), late.id]
        assert [len(rows) for _, rows in found[0][0]] == [10, 300, 200, 120] and len(site.chunks) == 5
        assert found[0][2] == ["two", "five", "late"]
        client.backup(tmp_path / "copy")

    def second(client: Client) -> None:
        assert look(client) == found[0]
        again = client.register_many(sql, each, key="id", labels=["user"])
        assert [query.key for query in again] == each["id"] and len(client.queries()) == 4
        assert client.query(key="late").id != found[1]
        with pytest.raises(Conflict, match="key 'two'"):
            client.register("SELECT x FROM s", key="two")

    asyncio.run(served(tmp_path / "data", first))
    restore(tmp_path / "copy", tmp_path / "restored")
    asyncio.run(served(tmp_path / "restored", second))


@pytest.mark.long
def test_answers_see_all_of_a_history_or_nothing(tmp_path: Path) -> None:
    def work(client: Client) -> None:
        client.create_stream(EVENTS)
        query = client.register("SELECT x FROM s BEGIN (START)").id
        client.push("s", rows(10_000, 10_100))
        sizes = {100, *(100 + n * 400 for n in range(1, 9))}
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(lambda: [len(values(client, query)) for _ in range(40)]) for _ in range(2)]
            for n in range(8):
                assert add(client, f"job-{n}", 9_600 - n * 400, 10_000 - n * 400).rows == 400
            for answers in asked:
                assert set(answers.result()) <= sizes
                assert answers.result() == sorted(answers.result())
        assert values(client, query) == list(range(6_800, 10_100))

    asyncio.run(served(tmp_path / "data", work))


def test_a_service_in_memory_says_that_it_cannot() -> None:
    with serving() as service, Client(service.address) as client:
        client.create_stream(EVENTS)
        with pytest.raises(FailedPrecondition, match="nothing is kept there by this service"):
            client.begin_attach("s", "years")


def test_what_a_job_found_is_taken_although_its_first_query_is_gone(tmp_path: Path) -> None:
    def work(client: Client) -> None:
        client.create_stream(EVENTS)
        add(client, "years", 0, 100)
        texts = [f"SELECT x FROM s WHERE x % 10 = {n} BEGIN (START)" for n in range(2)]
        queries = [client.register(text) for text in texts]
        site = client.begin_cover([query.id for query in queries])
        folder, spec = Path(site.folder) / "found", create_stream(site.statement)
        folder.mkdir()
        statements = list(zip(site.numbers.values(), texts, strict=True))
        for one in site.chunks:
            cover_chunk(folder, StoredFile(*astuple(one)), spec, Beforehand(spec, statements))
        files = tuple(Path(one.path).name for one in site.chunks)
        write_cover(folder, Cover(site.incarnation, ranges_of(np.array(sorted(site.numbers.values()))), files))
        queries[0].unregister()
        assert client.cover(site, "found") == (1, 100)
        assert values(client, queries[1].id) == list(range(1, 100, 10))
        queries[1].unregister()
        with pytest.raises(NotFound, match=queries[0].id):
            client.cover(site, "found")

    asyncio.run(served(tmp_path / "data", work))


def test_batches_come_in_order_and_once(tmp_path: Path) -> None:
    def put(client: Client, number: int, first: int, stop: int) -> AttachResult:
        site = client.begin_attach("s", "job", number)
        table, times = rows(first, stop), [n * SECOND for n in range(first, stop)]
        directory = f"batch-{number}-{first}"
        write(Path(site.folder) / directory, create_stream(site.statement), table, times, range(0, stop - first, 100))
        return client.attach(site, directory)

    def first(client: Client) -> None:
        client.create_stream(EVENTS)
        site = client.begin_attach("s", "job", 0)
        assert (site.attached, site.last, site.watermark) == (False, None, None)
        assert put(client, 0, 1_000, 1_250).chunks == 3
        assert (put(client, 2, 1_249, 1_300).rows, put(client, 1, 0, 1).duplicate) == (51, True)
        with pytest.raises(OutOfRange, match="must begin at or after 1970-01-01 00:21:39Z"):
            put(client, 3, 1_298, 1_310)
        with pytest.raises(FailedPrecondition, match="is fed in batches"):
            client.push("s", rows(1_400, 1_401))

    def second(client: Client) -> None:
        site = client.begin_attach("s", "job", 2)
        assert (site.attached, site.last) == (True, 2)
        assert site.watermark is not None
        assert site.watermark.timestamp() == 1_299
        query = client.register("SELECT x FROM s BEGIN (START)").id
        assert put(client, 3, 1_299, 1_400).rows == 101
        assert values(client, query) == [*range(1_000, 1_250), *range(1_249, 1_300), *range(1_299, 1_400)]
        info = client.describe("s")
        assert (info.first_tuple_id, info.next_tuple_id, info.archived_chunks) == (0, 402, 6)

    asyncio.run(served(tmp_path / "data", first))
    asyncio.run(served(tmp_path / "data", second))

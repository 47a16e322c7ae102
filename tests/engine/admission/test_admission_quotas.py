"""Quotas that follow from events: a refusal names the quota, and other tenants notice nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.admission.budget import IDLE_LESS
from psoup.admission.quotas import LOOK, Judge
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.events.commands import AlterQueries, Push, RegisterMany, UnregisterMany
from psoup.events.tags import Tag, TagColumns
from psoup.events.tenants import AlterTenant, CreateTenant, Quotas
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.plan.amounts import Amount, Keeping, KeepingChange
from psoup_storage import DurableStore
from psoup_testing.engines.admission_gate import Gate, rows
from psoup_testing.engines.amounts import INACTIVE, NONE

BYTES = 17
"""Of a tuple: a number, that it is not NULL, and its time."""
MANY = "SELECT x FROM s WHERE x > ?"
ACTIVE = KeepingChange(active=True)


@contextmanager
def refused(quota: str, used: float, limit: float, needed: float = 1) -> Iterator[None]:
    """What is inside is refused by this quota."""
    with pytest.raises(ResourceExhausted) as problem:
        yield
    told = {"quota": quota, "used": str(used), "limit": str(limit), "needed": str(needed), "tenant": "acme"}
    assert (problem.value.reason, problem.value.facts) == ("QUOTA", told)
    assert f"psoup tenant set acme --{quota.replace('_', '-')}" in problem.value.message


class Acme:
    """A tenant with a stream `s`, beside another one with the same."""

    def __init__(self, **quotas: float) -> None:
        self.gate = Gate(now=10)
        self.gate.send(CreateTenant("acme", Quotas()))
        self.gate.create("CREATE STREAM s (x BIGINT)")
        self.gate.create("CREATE STREAM s (x BIGINT)", tenant="acme")
        self.allow(**quotas)

    def allow(self, **quotas: float) -> None:
        self.gate.send(AlterTenant("acme", quotas))

    def register(self, text: str = "SELECT x FROM s", **more: Any) -> int:
        return int(self.gate.register(text, tenant="acme", **more).query_id)

    def many(self, count: int, **more: Any) -> Any:
        return self.gate.send(RegisterMany([MANY], [[n] for n in range(count)], tenant="acme", **more)).acknowledgement

    def produce(self, producer: str, number: int = 0, **more: Any) -> None:
        self.gate.send(Push("s", rows(x=[1]), producer, 0, number, tenant="acme", **more))


def test_streams_are_counted() -> None:
    acme = Acme(streams=2)
    acme.gate.create("CREATE STREAM t (x BIGINT)", tenant="acme")
    with refused("streams", 2, 2):
        acme.gate.create("CREATE STREAM u (x BIGINT)", tenant="acme")
    acme.gate.create("CREATE STREAM u (x BIGINT)")
    acme.gate.drop("t", tenant="acme")
    acme.gate.create("CREATE STREAM u (x BIGINT)", tenant="acme")


@pytest.mark.seeded("queries that go, or their bytes, are not given back")
def test_queries_are_counted_as_they_come_and_go() -> None:
    acme = Acme(queries=5)
    first = acme.register(request_id="once")
    block = acme.many(3)
    with refused("queries", 4, 5, 2):
        acme.many(2)
    acme.register(tag=Tag("k"))
    assert acme.register(request_id="once") == first, "what was answered is answered again"
    with refused("queries", 5, 5):
        acme.register()
    acme.gate.register("SELECT x FROM s")
    replaced = acme.register("SELECT x FROM s WHERE x > 4", tag=Tag("k"), replace=True)
    with refused("queries", 5, 5):
        acme.register()
    acme.gate.unregister(first, tenant="acme")
    ids = np.arange(block.first_id, block.first_id + 2)
    acme.gate.send(UnregisterMany(ids, tenant="acme"))
    tags = TagColumns(3, pa.array(["k", "new", "newer"]), ())
    acme.many(3, tags=tags, replace=True)
    with refused("queries", 4, 5, 2):
        acme.many(2)
    assert acme.gate.admission.has_query(replaced) is False
    acme.gate.drop("s", tenant="acme", cascade=True)
    acme.gate.create("CREATE STREAM s (x BIGINT)", tenant="acme")
    acme.many(5)
    acme.gate.admission.check()


def test_queries_are_counted_by_their_bytes() -> None:
    acme = Acme()
    query = acme.register()
    used = acme.gate.admission.query_bytes
    acme.allow(query_bytes=2 * used)
    acme.register()
    with refused("query_bytes", 2 * used, 2 * used, used):
        acme.register()
    acme.gate.unregister(query, tenant="acme")
    with refused("query_bytes", used, 2 * used, 400 * 1_000):
        acme.many(1_000)
    acme.register()
    acme.gate.admission.check()


@pytest.mark.parametrize(("keeping", "change"), [(NONE, KeepingChange(Amount.PARTIAL)), (INACTIVE, ACTIVE)])
@pytest.mark.parametrize("dry_run", [True, False])
def test_queries_that_enter_the_index_are_counted_by_their_bytes(
    keeping: Keeping, change: KeepingChange, dry_run: bool
) -> None:
    acme = Acme()
    some = acme.many(10, keeping=keeping)
    ids, used = np.arange(some.first_id, some.first_id + 10), acme.gate.admission.query_bytes
    alter = AlterQueries(ids, change=change, dry_run=dry_run, tenant="acme")
    acme.allow(query_bytes=used + 10 * IDLE_LESS - 1)
    before = acme.gate.admission.state()
    with refused("query_bytes", used, used + 10 * IDLE_LESS - 1, 10 * IDLE_LESS):
        acme.gate.send(alter)
    assert acme.gate.admission.state() == before
    single = replace(alter, query_ids=ids[:1], dry_run=False)
    acme.gate.send(single)
    with pytest.raises(ResourceExhausted, match="this call, which keeps more of 9 queries, needs 1,350 more"):
        acme.gate.send(alter)
    acme.gate.send(single)  # a repeated call needs nothing
    acme.gate.send(replace(alter, query_ids=ids[1:9]))
    acme.gate.send(replace(alter, query_ids=ids[:9], change=KeepingChange(Amount.NONE), dry_run=False))
    assert acme.gate.admission.query_bytes == used
    acme.allow(query_bytes=used + 10 * IDLE_LESS)
    acme.gate.send(replace(alter, change=KeepingChange(Amount.PARTIAL, active=True)))
    acme.gate.admission.check()


@pytest.mark.seeded("producers of a dropped stream count on")
def test_producers_are_counted_over_all_streams() -> None:
    acme = Acme(producers=2)
    acme.gate.create("CREATE STREAM t (x BIGINT)", tenant="acme")
    acme.produce("a")
    acme.gate.send(Push("t", rows(x=[1]), "b", 0, 0, tenant="acme"))
    with refused("producers", 2, 2):
        acme.produce("c")
    acme.produce("a", 1)
    with refused("producers", 2, 2):
        acme.produce("b")
    acme.gate.send(Push("s", rows(x=[1]), "c", 0, 0))
    acme.gate.drop("t", tenant="acme")
    acme.produce("c")
    acme.gate.admission.check()


def test_what_there_is_stays_when_a_quota_is_lessened() -> None:
    acme = Acme()
    acme.many(10)
    acme.allow(queries=4, streams=1)
    with refused("queries", 10, 4):
        acme.register()
    acme.gate.push("s", x=[1])
    acme.allow(queries=0)
    acme.register()


def of_acme(**quotas: float) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64), tenant="acme", verify="all")
    soup.submit(CreateTenant("acme", Quotas(**quotas)))
    return soup


def numbers(count: int) -> pa.Table:
    return pa.table({"x": np.arange(count)})


def test_tuples_are_counted_until_they_leave_the_memory() -> None:
    soup = of_acme(tuple_bytes=BYTES * 1_000)
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 128 ROWS")
    soup.execute("CREATE STREAM t (x BIGINT)")
    soup.push("t", numbers(500))
    for _ in range(40):
        soup.push("s", numbers(100))
    held = soup.engine.snapshot().stream("s", "acme").nbytes
    assert held < BYTES * 400
    with refused("tuple_bytes", BYTES * 500 + held, BYTES * 1_000, BYTES * 500):
        soup.push("t", numbers(500))
    soup.drop_stream("s")
    soup.push("t", numbers(500))
    with refused("tuple_bytes", BYTES * 1_000, BYTES * 1_000, BYTES):
        soup.push("t", numbers(1))


@pytest.mark.seeded("tuples of before a quota, or that are not published yet, do not count")
def test_tuples_of_before_a_quota_are_counted() -> None:
    soup = of_acme()
    soup.execute("CREATE STREAM s (x BIGINT)")
    for limit in (5_000, 0, 1_000):
        soup.push("s", numbers(600))
        soup.submit(AlterTenant("acme", {"tuple_bytes": BYTES * limit}))
    with refused("tuple_bytes", BYTES * 1_800, BYTES * 1_000, BYTES):
        soup.push("s", numbers(1))


@pytest.mark.seeded("tuples of before a quota, or that are not published yet, do not count")
def test_tuples_that_are_not_published_yet_are_counted() -> None:
    """Admission runs ahead of the engine: here it stands still."""
    soup = of_acme(tuple_bytes=BYTES * 100)
    soup.execute("CREATE STREAM s (x BIGINT)")
    for _ in range(10):
        soup.admission.prepare(Push("s", numbers(10), tenant="acme"), 0)
    with refused("tuple_bytes", BYTES * 100, BYTES * 100, BYTES):
        soup.admission.prepare(Push("s", numbers(1), tenant="acme"), 0)


@pytest.mark.seeded("what is on disk is looked at once")
def test_tuples_on_disk_are_counted(tmp_path: Path) -> None:
    store = DurableStore(tmp_path / "data")
    soup = LocalPSoup(EngineConfig(chunk_rows=64), keep=store.keep, verify="all")
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 64 ROWS ARCHIVE 100000 ROWS")
    for _ in range(20):
        soup.push("s", numbers(64))
        soup.maintain()
    used = soup.engine.snapshot().stream("s", "default").archived_bytes
    assert used > 0
    soup.submit(AlterTenant("default", {"archive_bytes": used + 1}))
    for _ in range(LOOK):
        soup.push("s", numbers(64))
        soup.maintain()
    with pytest.raises(ResourceExhausted, match="its quota archive_bytes allows"):
        soup.push("s", numbers(64))
    soup.execute("CREATE STREAM t (x BIGINT)")
    soup.push("t", numbers(64))
    store.close()


def test_a_tenant_without_quotas_is_not_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing limits it")

    monkeypatch.setattr(Judge, "_add_up", never)
    monkeypatch.setattr(Judge, "_check_disk", never)
    soup = of_acme(queries=1)
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.push("s", numbers(100))
    assert soup.clock.now() < SECOND * 10**12

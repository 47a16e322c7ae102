"""Every row of the benchmarks is measured once, at a size at which its figure means nothing: they work, and their
answers are right."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.arrival import registration
from benchmarks.ingest import durability
from benchmarks.joins import joins_large
from psoup_testing.services import postgres
from psoup_testing.suite.bench import failures, names, run_bench

ROWS = """
    arrival.q4096.f4 arrival.q4096.f4.two arrival.q4096.f4.sustained arrival.q4096.f4.sustained.two
    arrival.q1024.mixed arrival.q1024.mixed.two
    arrival.q100k.eq arrival.q100k.eq.two arrival.q100k.eq.b64 arrival.q100k.eq.b64.run arrival.q100k.eq.match
    arrival.q1m.eq arrival.q1m.eq.two arrival.q1m.eq.b64 arrival.q1m.eq.b64.run arrival.q1m.eq.match
    arrival.q1m.zipf arrival.q1m.zipf.two arrival.q1m.range arrival.q1m.range.two arrival.q1m.range.b64
    arrival.q1m.eq.counters
    arrival.text.q32.plain arrival.text.q32 arrival.text.q1k arrival.text.q100k
    amount.arrival amount.bytes.none amount.bytes.inactive amount.bytes.complete
    amount.parked.memory amount.parked.bytes amount.parked.first amount.arrival.eager amount.activated
    functions.times functions.texts functions.numbers functions.libm
    register.100k register.100k.chunk register.q1m register.one.w16m
    tags.register tags.queries tags.unregister
    invoke.w128.f4 invoke.w4096.f4 invoke.w32768.f1 invoke.w32768.f4 invoke.w32768.f8 invoke.w65536.f4 invoke.w1m.f4
    ask.w32768.f4 ask.w1m.f4
    amount.complete.w1m amount.complete.w1m.new amount.complete.join amount.complete.join.new
    amount.complete.union amount.complete.union.new
    auto.arrivals auto.invocations auto.shift
    table.100k.alerts table.100k.alerts.sdk
    changed.select upsert.durable upsert.random upsert.memory
    aggregate.many.100k aggregate.many.100k.join
    aggregate.many.100k.each aggregate.many.100k.sdk aggregate.many.1m aggregate.many.100k.sum
    aggregate.many.100k.sum.sdk aggregate.many.100k.w2^24 aggregate.rank.100k aggregate.rank.100k.sdk
    sync.first sync.back.1 sync.back.10 sync.idle50 sync.top100 sync.groups
    sync.delta.10 sync.delta.100 sync.delta.1000 sync.delta.10.w2^18 sync.delta.10.w2^20
    sync.join.bytes sync.join
    sync.many sync.many.idle50
    follow.50k follow.10k follow.10k.told follow.10k.page
    watch.1k watch.1k.p99 watch.1k.arrival watch.stalled watch.stalled.memory watch.detect.10k
    webhook.arrive
    web.watch web.watch.p99 web.idle.memory web.idle.push
    search.point.uncovered search.point.text
    join.invoke.w65536.p2 join.invoke.w65536.p10 join.invoke.w65536.all
    join.invoke.w1m.p2 join.invoke.w1m.p10 join.invoke.w1m.all join.band.w65536.p2
    join.nway.star4 join.nway.chain4 join.hotkey.limit join.hotkey.first
    join.left.w65536.p2 join.left.w65536.p10 join.absent.band.w1m.p2 join.absent.in.w65536 join.sets.except.w65536
    join.as_of
    join.adapt.star4
    join.all1024.p2 join.all32.all join.many1024.p2 join.counts1024.p2 join.having1024.p2
    join.arrival.q1 join.asked.q1 join.arrival.q10 join.asked.q10
    join.pairs.w1m join.pairs.bytes join.pairs.w1m.open
    join.registered.w16m join.disk.w4m join.growth.queries.1024 join.growth.window.4096 join.growth.streams.2
    join.few.w16m join.few.w16m.half
    over.row_number over.sum over.first
    partition.rows
    aggregate.one.count.w2^12 aggregate.one.sum.w2^12 aggregate.one.max.w2^12
    aggregate.group.10 aggregate.group.1k aggregate.group.100k
    aggregate.group.10.w2^24 aggregate.group.1k.w2^24 aggregate.group.100k.w2^24 aggregate.buckets
    hop.12
    derived.lookup derived.distinct derived.absent derived.equal derived.q1m.arrival derived.q1m.invoke
    derived.durable derived.arrival derived.many derived.delay derived.delay.p99 derived.history derived.restart
    derived.history.distinct derived.restart.distinct
    push.grpc.q1024 push.grpc.q4096 push.grpc.q1024.durable push.tls push.far push.csv push.http
    push.durable.1x1024 push.durable.20x50 push.durable.50x1
    call.push.8 call.push.50 call.invoke call.sync call.batch call.batch.client call.stream call.idle call.inserts
    kafka recovery.first recovery.covered recovery.memory
    recovery.table replica.push replica.remote replica.lag replica.lag.p99 replica.promote replica.restore
    invoke.grpc invoke.grpc.many invoke.grpc.one invoke.grpc.service invoke.grpc.many.service
    invoke.grpc.async invoke.grpc.async.pool
    pg.small pg.block pg.small16 pg.notify
    archive.q.w1m archive.zone.w1m archive.landmark.start.w1m archive.landmark.warm.w1m
    archive.many.start.w16m archive.many.warm.w16m
    archive.q.w100m archive.zone.w100m archive.landmark.start.w100m archive.landmark.warm.w100m
    growth.queries.eq.50 growth.queries.eq.100 growth.queries.f4.4 growth.queries.f4.8 growth.factors.1 growth.factors.8
    growth.match.10 growth.match.500000 growth.window.1024 growth.window.4096
    idle.memory idle.call
    fair.equal fair.weight gate.small gate.push gate.push.q1024 traced.invoke traced.push
    attacked.half_messages.invoke attacked.half_messages.push attacked.half_messages.memory
    attacked.half_messages.stalls attacked.half_messages.invoke.apart attacked.half_messages.push.apart
"""
"""What a whole run has, but for the points of `growth`, of which a tiny one has two each, and all attacks but one."""


BESIDE_POSTGRESQL = (
    "cdc",
    "pg.rows",
    "pg.copy",
    "pg.catalogue.psql",
    "pg.catalogue.inspector",
    "pg.catalogue.follow",
    "pg.catalogue.fill",
)
"""Rows that need a server of PostgreSQL."""

SERVERS = ("adbc_driver_postgresql", "chdb")
"""Drivers of the peers that `make bench-setup` installs: each takes seconds to start, for every group that has it."""


@pytest.mark.long
@pytest.mark.parametrize("servers", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["alone", "with servers"])
def test_every_row_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: bool) -> None:
    for driver in () if servers else SERVERS:
        monkeypatch.setitem(sys.modules, driver, None)
    monkeypatch.setattr(registration, "_measured", registration.measure)  # processes of their own start slowly
    monkeypatch.setattr(joins_large, "_measured", joins_large.grown)
    monkeypatch.setattr(registration, "BLOCK", 64)
    monkeypatch.setattr(registration, "ONE_BY_ONE", 20)
    code, rows = run_bench(monkeypatch, tmp_path / "bench.json", "--tiny")
    assert failures(rows) == {}
    assert code == 0
    assert ("cdc" in names(rows)) == (not postgres.missing())
    assert ("pg.copy" in names(rows)) <= servers
    assert tuple(name for name in names(rows) if name not in BESIDE_POSTGRESQL) == tuple(ROWS.split())
    found = {row["name"]: row for row in rows}
    assert 0 < found["recovery.first"]["value"] < found["recovery.covered"]["value"]
    tuples = recovered() * 64 / 2**20
    assert tuples < found["recovery.memory"]["peer_value"] < 2 * tuples  # and their results
    grown = ("gate.", "register.", "join.growth.queries.", "watch.stalled.memory", "web.idle.memory", "idle.memory")
    counted = [row for row in rows if not row["name"].startswith(grown) and row["unit"] != "stalls"]
    assert [row["name"] for row in counted if row["value"] <= 0] == []


def recovered() -> int:
    """Tuples of the rows `recovery` of a tiny run."""
    return durability.CYCLE + 2 * durability.BATCH

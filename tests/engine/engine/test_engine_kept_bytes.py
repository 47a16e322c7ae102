"""Kept structures of a tenant's answers stay within its quota and its room; no answer depends on them."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from psoup.aggregates.folds import FoldRoom, Folds
from psoup.aggregates.kept import KeptBytes
from psoup.aggregates.packs import PackRoom
from psoup.config import EngineConfig, Shape
from psoup.events.tenants import AlterTenant, CreateTenant, Quotas
from psoup.local import LocalPSoup
from psoup_testing.suite.sweeps import swept

QUOTA = "kept_bytes"
TENANTS = ("acme", "umbra")


def _soup() -> LocalPSoup:
    """Two tenants with the same tuples in some chunks; no chunk but the last is open."""
    soup = LocalPSoup(EngineConfig(chunk_rows=1_024, piece_rows=256, block_rows=512, shape=Shape(fold_fan=4)))
    numbers = np.arange(20_000)
    for soup.tenant in TENANTS:
        soup.submit(CreateTenant(soup.tenant, Quotas()))
        for stream in ("s", "r"):
            soup.execute(f"CREATE STREAM {stream} (k BIGINT, x BIGINT)")
            soup.push(stream, pa.table({"k": numbers % 97, "x": numbers * 7_919 % 1_009}))
    soup.maintain()
    return soup


def _held(soup: LocalPSoup) -> dict[str, int]:
    views = soup.engine.snapshot().streams
    return {tenant: views[tenant, "s"].folds.kept_bytes.held(tenant) for tenant in TENANTS}


def _one_by_one(soup: LocalPSoup) -> Callable[[], list[pa.Table]]:
    select = "SELECT k, sum(x) AS t FROM s GROUP BY k BEGIN"
    ids = [soup.register(f"{select} (NOW - {rows} ROWS)") for rows in range(9_000, 19_000, 1_000)]
    return lambda: [soup.invoke(query).to_table() for query in ids]


def _together(soup: LocalPSoup) -> Callable[[], list[pa.Table]]:
    rows = [(k,) for k in range(90)]
    ids = soup.register_many("SELECT count(*) AS n, max(x) AS m FROM s WHERE k = ? BEGIN (NOW - 15000 ROWS)", rows)
    return lambda: [soup.invoke_table(ids).to_table().drop(["_query"])]


@pytest.mark.parametrize(("form", "some"), swept([(_one_by_one, True), (_together, False)], fast=1))
def test_folds_stay_within_the_quota_and_a_neighbours_stay(
    form: Callable[[LocalPSoup], Callable[[], list[pa.Table]]], some: bool
) -> None:
    """`some`: a part of what is kept may go; else it goes at once."""
    soup = _soup()
    asks = dict[str, Callable[[], list[pa.Table]]]()
    for soup.tenant in TENANTS:
        asks[soup.tenant] = form(soup)

    def rounds(tenant: str) -> list[pa.Table]:
        soup.tenant = tenant
        for _ in range(3):
            answers = asks[tenant]()
        return answers

    assert rounds("umbra") == rounds("acme")
    free = _held(soup)["acme"]
    assert _held(soup)["umbra"] == free > 20_000
    for limit in (free // 3, 1):
        soup.submit(AlterTenant("acme", {QUOTA: limit}))
        for soup.tenant in TENANTS:  # the windows end elsewhere then, so that something is folded
            soup.push("s", pa.table({"k": [limit % 90] * 2_048, "x": range(2_048)}))
        expected = rounds("umbra")
        theirs = _held(soup)["umbra"]
        assert rounds("acme") == expected
        held = _held(soup)
        assert held["acme"] <= limit
        assert held["acme"] > 0 or not some or limit == 1
        assert held["umbra"] == theirs >= free


def test_pairs_of_joins_are_not_made_beyond_the_quota() -> None:
    soup = _soup()
    soup.submit(AlterTenant("acme", {QUOTA: 50_000}))
    for soup.tenant in TENANTS:
        soup.register("SELECT s.x FROM s, r WHERE s.k = r.k AND s.x = r.x", keep_pairs=True)
        soup.maintain()
    held = _held(soup)
    assert held["acme"] <= 50_000 < held["umbra"]


def test_key_indexes_count_make_way_and_go_with_their_stream() -> None:
    soup = _soup()
    for soup.tenant in TENANTS:
        query = soup.register("SELECT s._id FROM s, r WHERE s.k = 5 AND s.x = r.x AND r.k = 7")
    assert not any(_held(soup).values())

    def asked(tenant: str) -> pa.Table:
        soup.tenant = tenant
        for _ in range(12):
            answer = soup.ask("SELECT _id FROM s WHERE x = 700").to_table()
            joined = soup.ask("SELECT s._id FROM s, r WHERE s.x = r.x AND r.k = 7 AND r.x < 20").to_table()
        assert joined.num_rows > 0
        return answer

    expected = asked("umbra")
    theirs = _held(soup)["umbra"]
    assert theirs > 50_000
    soup.submit(AlterTenant("acme", {QUOTA: theirs // 3}))
    assert asked("acme") == expected
    assert 0 < _held(soup)["acme"] <= theirs // 3
    assert soup.engine._rooms.keys.held == sum(_held(soup).values()), "nothing else is kept yet"
    one_by_one = _one_by_one(soup)
    for _ in range(3):
        one_by_one()
    held = _held(soup)["acme"]
    assert 0 < held <= theirs // 3
    assert soup.engine._rooms.keys.held_by("acme") < held, "indexes have made way for folds"
    assert _held(soup)["umbra"] == theirs
    soup.tenant = "umbra"
    soup.unregister(query)
    for stream in ("s", "r"):
        soup.execute(f"DROP STREAM {stream}")
    gc.collect()
    assert soup.engine._rooms.keys.held_by("umbra") == 0


def test_rooms_count_what_is_kept_of_each_tenant() -> None:
    kept = KeptBytes({"acme": 5_000, "umbra": 0}.__getitem__)
    folds, packs = FoldRoom(1 << 20, 2, kept), PackRoom(1 << 20, 2, kept)
    assert kept.held("acme") == folds.held == packs.held == 0
    asked: list[Folds | None] = []
    recipe: object = ("a recipe",)
    for clause in range(100):
        for tenant in TENANTS:
            asked.append(folds.known(2 * clause + (tenant == "acme"), recipe, tenant))  # type: ignore[arg-type]
    assert kept.held("acme") <= 5_000
    assert kept.held("umbra") == 100 * 500
    assert folds.held == kept.held("acme") + kept.held("umbra")
    assert kept.over("umbra", 1 << 30) == 0
    assert kept.over("acme", 5_001) == kept.held("acme") + 1

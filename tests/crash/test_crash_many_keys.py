"""A table with more keys than the memory holds: refused by name, while all else goes on, also after kill -9.

    tenant big       10,000,000 keys ──> its quota is full ── the quota is lifted ──> the budget is full
    tenant small     pushes go on ─────────────────────────^
    start            after kill -9 with the same budget: all rows are there, and the next batch is refused as before
    DROP TABLE       makes room for all

Each key is charged with 131 bytes: 8 each for the key and the time, and 115 for its entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from psoup_client import Client, ClientOptions, ResourceExhausted
from psoup_testing.oracles.questions import again
from psoup_testing.services.zygote import Zygote

KEYS = 10_000_000
ENTRY = 131
ROLES = ["owner", "registrar", "reader", "producer"]
BATCH = 1 << 16
"""The most keys in one message, which is taken or refused as a whole."""
QUOTA = KEYS * ENTRY
BUDGET_MIB = (KEYS + 750_000) * ENTRY >> 20
"""Room for 750,000 keys more than the quota, in MiB."""


def fill(client: Client, start: int) -> tuple[int, ResourceExhausted]:
    """Push keys from `start` on until a batch is refused. Returns the number of keys in the table, and the refusal."""
    while True:
        keys = pa.table({"k": pa.array(range(start, start + BATCH), pa.int64())})
        try:
            start += client.push("t", keys).accepted
        except ResourceExhausted as refused:
            return start, refused


def check_rows(client: Client, rows: int) -> None:
    """Check that the table has exactly the keys 0 to `rows` - 1."""
    answer = again(client.ask, "SELECT count(*) AS n, min(k) AS low, max(k) AS high FROM t").to_arrow()
    assert answer.to_pylist() == [{"n": rows, "low": 0, "high": rows - 1}]
    last = rows - 1
    assert client.ask("SELECT k FROM t WHERE k = ? OR k = ?", [last, rows]).to_arrow()["k"].to_pylist() == [last]


@dataclass(frozen=True)
class Tenants:
    """The clients of one service: the operator, and the owners of two tenants."""

    operator: Client
    big: Client
    small: Client


@contextmanager
def clients(address: str, secrets: Sequence[str]) -> Iterator[Tenants]:
    with ExitStack() as stack:
        made = [Client(address, options=ClientOptions(token=secret), timeout=60) for secret in secrets]
        yield Tenants(*map(stack.enter_context, made))


def create_tenants(address: str) -> list[str]:
    """Create the tenants. Returns the secrets of the operator and of both tenants."""
    with Client(address) as first:
        secrets = [first.issue_token("op", ["operator", "owner"], first=True).secret]
    with Client(address, options=ClientOptions(token=secrets[0])) as operator:
        for name in ("big", "small"):
            operator.create_tenant(name, tuple_bytes=QUOTA)
            secrets.append(operator.issue_token(name, ROLES, tenant=name).secret)
    return secrets


def check_full(refused: ResourceExhausted) -> None:
    """Check the refusal of a batch beyond the budget of the service."""
    assert (refused.reason, refused.facts["setting"]) == ("MEMORY_BUDGET", "memory_mib")
    budget = f"the memory budget of {BUDGET_MIB << 20:,} bytes is used up by all tenants"
    assert f"{budget}, and this batch to table 't' needs" in str(refused)
    assert "more (memory_mib), drop tables, streams or queries, or lessen a HISTORY or RETENTION" in str(refused)


def check_quota(refused: ResourceExhausted) -> None:
    """Check the refusal of a batch beyond the quota of the tenant."""
    assert (refused.reason, refused.facts["quota"]) == ("QUOTA", "tuple_bytes")
    assert f"of the {QUOTA:,} that its quota tuple_bytes allows, and this batch to table 't' needs" in str(refused)
    assert "drop tables or streams, or lessen a HISTORY or RETENTION" in str(refused)


def fill_quota_and_budget(tenants: Tenants) -> int:
    """Fill the quota and then the budget, beside a neighbour. Returns the number of keys."""
    for client in (tenants.big, tenants.small):
        client.execute("CREATE TABLE t (k BIGINT PRIMARY KEY)")
    rows, refused = fill(tenants.big, 0)
    assert KEYS - BATCH < rows <= KEYS
    check_quota(refused)
    tenants.small.push("t", {"k": range(1_000)})
    check_rows(tenants.small, 1_000)
    check_rows(tenants.big, rows)
    tenants.operator.alter_tenant("big", tuple_bytes=0)
    rows, refused = fill(tenants.big, rows)
    assert rows > KEYS
    check_full(refused)
    check_rows(tenants.big, rows)
    tenants.small.push("t", {"k": [1_000]})
    return rows


@pytest.mark.long
def test_ten_million_keys_are_refused_while_all_else_goes_on(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with Zygote(PSOUP_MEMORY_MIB=str(BUDGET_MIB)) as zygote:
        zygote.start(data)
        address = zygote.ready()
        secrets = create_tenants(address)
        with clients(address, secrets) as tenants:
            rows = fill_quota_and_budget(tenants)
        assert zygote.kill() == 9
        zygote.start(data)
        with clients(zygote.ready(), secrets) as tenants:
            check_rows(tenants.big, rows)
            check_rows(tenants.small, 1_001)
            unchanged, refused = fill(tenants.big, rows)
            assert unchanged == rows
            check_full(refused)
            tenants.small.push("t", {"k": [1_001]})
            tenants.big.drop("t")
            tenants.small.push("t", {"k": range(500_000)})
            check_rows(tenants.small, 500_000)
        assert zygote.stop() == 0

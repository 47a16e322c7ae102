"""Rows `fair.*`: what tenants get of a service in which all of them want more than there is.

    8 tenants, each a stream with 100 queries of a text and a client that pushes as fast as it is let, at the same time

    fair.equal    what the tenant with least got, of an eighth of all tuples; with most: in the row's details
    fair.weight   what a tenant of weight 3 got, of what the mean other one of weight 1 got

The join is most of the work, so tenants wait for the writer. The room admits them by turns.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from psoup_client import Client, ClientOptions

TENANTS = 8
ROWS = 1_024
BUSY_MIB = 16
"""Room for what waits: less than all tenants want together, so that they wait at the door."""


def rows(run: Run) -> Iterator[Row]:
    """Tenants of one weight, and one of three times the weight of the others."""
    yield from run.part(lambda: _shared(run), "fair.equal", "fair.weight")


def _shared(run: Run) -> Iterator[Row]:
    seconds, samples, queries = run.of((6.0, 3, 100), (5.0, 1, 100), (0.6, 1, 4))
    settings = {"PSOUP_QUEUE_MIB": str(BUSY_MIB)}
    with (
        tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder,
        processes.served(Path(folder), durable=False, settings=settings) as service,
    ):
        with Client(service.address) as client:
            secret = client.issue_token("operator", ["operator", "owner"], first=True).secret
        with Client(service.address, options=ClientOptions(token=secret)) as operator:
            tokens = [_tenant(operator, service.address, f"t{number}", queries) for number in range(TENANTS)]
            equal = [_pushed(service.address, tokens, seconds) for _ in range(samples)]
            operator.alter_tenant("t0", weight=3)
            heavy = [_pushed(service.address, tokens, seconds) for _ in range(samples)]
    smallest = Sample.of([TENANTS * min(got) / sum(got) for got in equal])
    largest = max(TENANTS * max(got) / sum(got) for got in equal)
    note = f"fair.equal: the tenant with most got {largest:.2f} of an eighth; clients and service share the cores"
    yield Row(
        "fair.equal", smallest, "of 1/8", "", None, Target(value_at_least=0.85), note, {"most": largest, "got": equal}
    )
    times = Sample.of([got[0] * (TENANTS - 1) / sum(got[1:]) for got in heavy])
    target = Target(value_at_least=2.55, value_at_most=3.45)
    yield Row("fair.weight", times, "times", "", None, target, "", {"got": heavy})


def _tenant(operator: Client, address: str, name: str, queries: int) -> str:
    """Make a tenant with a stream and queries; returns its owner's token."""
    operator.create_tenant(name, **dict.fromkeys(("tuple_bytes", "pushed_bytes_per_second", "receive_bytes"), 0))
    token = operator.issue_token(name, ["owner"], tenant=name).secret
    with Client(address, options=ClientOptions(token=token)) as client:
        client.create_stream("CREATE STREAM s (t TEXT) RETENTION 100000 ROWS")
        client.register_many([f"SELECT t FROM s WHERE t LIKE '%{number}%{number + 1}%'" for number in range(queries)])
    return token


def _pushed(address: str, tokens: list[str], seconds: float) -> list[int]:
    """The tuples that were taken of each tenant, in the same time."""
    together = threading.Barrier(len(tokens))
    batch = pa.record_batch(
        {"t": [f"line {number} of {number * 7_919} is {number * 104_729}" for number in range(ROWS)]}
    )

    def push(token: str) -> int:
        taken = 0
        with Client(address, options=ClientOptions(token=token)) as client, client.producer("s") as producer:
            producer.push(batch)
            producer.flush()
            together.wait()
            end = time.perf_counter() + seconds
            before = producer.result.accepted
            while time.perf_counter() < end:
                producer.push(batch)
            taken = producer.result.accepted - before
        return taken

    with ThreadPoolExecutor(len(tokens)) as pool:
        return list(pool.map(push, tokens))

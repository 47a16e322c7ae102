"""Rows `gate.*`: what credentials, roles and quotas cost, beside a service that asks nobody.

    open   no token: everybody may do everything        gated   a token of a tenant with a limit on all that is metered

    gate.small         processor time of the service for a small call (GetServerInfo), more than the open one takes
    gate.push          the same for a push of one tuple, whose body is read after the gate
    gate.push.q1024    tuples a second of `push.grpc.q1024`, beside the open service

Both services run at the same time and are called in short turns, by one client each. The time is that of all their
threads. A busy machine only adds to it: the half of the turns that took least are compared, each with one of its rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import grpc

from benchmarks.ingest.wire import BATCH, KEPT, ROUND, as_ipc, push_all
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, in_turns
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns, make_queries
from psoup_client import Client, ClientOptions
from psoup_proto.v1 import ingest_pb2, server_pb2

SMALL = "/psoup.v1.ServerService/GetServerInfo"
PUSH = "/psoup.v1.IngestService/Push"
MUCH = 1e12
RATES = ("calls_per_second", "pushed_bytes_per_second", "join_share", "read_share", "prepare_share")
LIMITS = dict.fromkeys(RATES, MUCH)
"""Rates that nobody comes near: the others have limits in every new tenant."""


class _Side(NamedTuple):
    """A service, a client of it, and what its calls bring."""

    pid: int
    client: Client
    address: str
    metadata: tuple[tuple[str, str], ...]


def rows(run: Run) -> Iterator[Row]:
    """Rows for the cost of the gate."""
    yield from run.part(lambda: _measured(run), "gate.small", "gate.push", "gate.push.q1024")


def _measured(run: Run) -> Iterator[Row]:
    with ExitStack() as stack:
        sides = [_served(stack, gated=gated) for gated in (False, True)]
        for side in sides:
            side.client.create_stream(f"{CREATE} RETENTION {KEPT} ROWS")
        request_ = ingest_pb2.PushRequest(stream=STREAM, arrow_ipc=as_ipc(batches(make_columns(1), 1)[0]))
        calls, turns = run.of((100, 80), (100, 40), (4, 2))
        for name, method, request, limit in (
            ("gate.small", SMALL, server_pb2.GetServerInfoRequest().SerializeToString(), 30),
            ("gate.push", PUSH, request_.SerializeToString(), 130),
        ):
            theirs, ours = (
                sorted(times)[: turns // 2] for times in _times(stack, sides, method, request, calls, turns)
            )
            more = Sample.of([gated - free for free, gated in zip(theirs, ours, strict=True)])
            alone = Sample.of(theirs).median
            note = f"{name}: more than the {alone:.0f} us of processor time of a service that asks nobody"
            yield Row(name, more, "us", "", None, Target(value_at_most=limit), note, {"open": theirs, "gated": ours})
        yield _bulk(sides, run)


def _served(stack: ExitStack, *, gated: bool) -> _Side:
    service = stack.enter_context(processes.served(Path(), durable=False))
    if not gated:
        return _Side(service.pid, stack.enter_context(Client(service.address)), service.address, ())
    with Client(service.address) as client:
        secret = client.issue_token("operator", ["operator"], first=True).secret
    with Client(service.address, options=ClientOptions(token=secret)) as operator:
        operator.create_tenant("acme", **LIMITS)
        token = operator.issue_token("acme", ["owner"], tenant="acme").secret
    client = stack.enter_context(Client(service.address, options=ClientOptions(token=token)))
    return _Side(service.pid, client, service.address, (("authorization", f"Bearer {token}"),))


def _times(
    stack: ExitStack, sides: list[_Side], method: str, request: bytes, calls: int, turns: int
) -> list[list[float]]:
    """Microseconds of processor time of a call, of each service; the first round is warm-up."""
    channels = [stack.enter_context(grpc.insecure_channel(side.address)) for side in sides]
    called = [channel.unary_unary(method) for channel in channels]
    spent: list[list[float]] = [[] for _ in sides]
    for number in range(turns + 1):
        for at in (0, 1) if number % 2 else (1, 0):
            before = processes.processor_seconds(sides[at].pid)
            for _ in range(calls):
                called[at](request, metadata=sides[at].metadata)
            spent[at].append(1e6 * (processes.processor_seconds(sides[at].pid) - before) / calls)
    return [values[1:] for values in spent]


def _bulk(sides: list[_Side], run: Run) -> Row:
    tables = batches(make_columns(run.of(ROUND, ROUND, 2) * BATCH), BATCH)
    queries = [query.statement(BATCH) for query in make_queries(run.of(1_024, 1_024, 16), 4)]
    for side in sides:
        side.client.register_many(queries)
    turns: list[Callable[[], None]] = [partial(push_all, side.client, tables) for side in sides]
    theirs, ours = in_turns(turns, [len(tables) * BATCH] * 2, run.of(11, 7, 1))
    return Row("gate.push.q1024", ours.wall, "tuples/s", "open service", theirs.wall, Target(at_least=0.97))

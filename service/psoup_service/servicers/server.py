"""ServerService: facts about the service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from psoup.answer.describe import bill
from psoup.answer.figures.amount_figures import QueryCounts, queries_by_keeping
from psoup.answer.figures.bill import Item, memory_bill
from psoup.expressions import supplied_functions
from psoup.expressions.supplied_functions import Supplied
from psoup.plan.amounts import Amount
from psoup.published.snapshot import Snapshot
from psoup_proto.v1 import server_pb2, server_pb2_grpc
from psoup_service.figures.copy_figures import copy_state
from psoup_service.gate.principal import Principal
from psoup_service.host.reads.pins import Pins
from psoup_service.servicers.backend import Backend
from psoup_service.wire.calls import Caller
from psoup_service.wire.convert import clock_state, timestamp
from psoup_service.wire.under_way import CallsUnderWay

FEATURES: tuple[str, ...] = ("bill", "matches_many", "top_queries")
"""Features beyond the first version of the contract."""

_FEW_STREAMS = 64


def server_version() -> str:
    """The version of the installed distribution; "unknown" when run from a source tree that is not installed."""
    try:
        return version("psoup")
    except PackageNotFoundError:
        return "unknown"


def _function(function: Supplied) -> server_pb2.SuppliedFunction:
    signature = function.signature
    return server_pb2.SuppliedFunction(
        name=signature.name,
        arguments=map(str, signature.arguments),
        result=str(signature.result),
        nulls=signature.nulls,
        version=signature.version,
        cost=function.cost,
        about=function.about,
    )


def _query_counts(counts: QueryCounts) -> server_pb2.QueryCounts:
    numbers = counts.by_amount
    return server_pb2.QueryCounts(
        **{amount.name.lower(): numbers[amount, True] for amount in Amount},
        eager=counts.eager,
        auto=sum(counts.automatic.values()),
        inactive=sum(number for (_, active), number in numbers.items() if not active),
        parked=counts.parked,
    )


def _pinned(pins: Pins) -> list[Item]:
    """The item of the memory bill for chunks that only slow readers of answers still hold."""
    return [Item("held for readers", pins.bytes, pins.bytes, pins.streams, "stream")] if pins.streams else []


class ServerServicer(server_pb2_grpc.ServerServiceServicer):
    """See server.proto."""

    def __init__(self, backend: Backend, under_way: CallsUnderWay, web_address: Callable[[], str]) -> None:
        """`web_address`: the address of the page, "" if there is none."""
        self._backend = backend
        self._under_way = under_way
        self._web_address = web_address
        self._version = server_version()
        self._limits = backend.limits.to_proto()

    async def GetServerInfo(
        self, request: server_pb2.GetServerInfoRequest, caller: Caller
    ) -> server_pb2.GetServerInfoResponse:
        """Facts and counters of the service.

        The event loop adds up the chunks if they are few. A reader thread makes the memory bill and counts the queries.
        """
        backend, principal = self._backend, caller.principal
        host = backend.host
        if request.min_sequence:
            await backend.reflecting(request.min_sequence)
        items: list[server_pb2.MemoryItem] = []
        if request.with_bill and principal.operates and host.state != "starting":
            items = [
                server_pb2.MemoryItem(
                    structure=item.structure,
                    bytes=item.bytes,
                    reclaimable_bytes=item.reclaimable,
                    count=item.count,
                    per=item.per,
                )
                for item in (*(await host.read(memory_bill)).items, *_pinned(host.pins))
            ]
        return server_pb2.GetServerInfoResponse(
            version=self._version,
            incarnation=backend.ids.incarnation,
            store=backend.store.name,
            durable=backend.store.durable,
            state=host.state,
            start_time=timestamp(backend.started),
            sequence=host.applied,
            acknowledged=backend.store.copy_gate.acknowledged(backend.store.sequence),
            limits=self._limits,
            features=FEATURES,
            memory=await self._memory(principal),
            bill=items,
            queries=await self._queries(request, principal),
            functions=[_function(each) for each in supplied_functions.installed()],
            watchers=self._under_way.watching if principal.serves else 0,
            calls=self._under_way.open - self._under_way.watching if principal.serves else 0,
            web_address=self._web_address(),
            clock=clock_state(backend.clock.state()),
            refusing=host.only_reads or host.shortage(),
            copy=copy_state(backend.store) if principal.serves else None,
            memory_budget=0 if host.state == "starting" else host.snapshot().config.memory_bytes,
        )

    async def _queries(
        self, request: server_pb2.GetServerInfoRequest, principal: Principal
    ) -> server_pb2.QueryCounts | None:
        """The numbers of the tenant's queries, if the request asks for them."""
        host = self._backend.host
        if not request.with_queries or host.state == "starting":
            return None
        return _query_counts(await host.read(lambda now: queries_by_keeping(now.queries, principal.tenant)))

    async def _memory(self, principal: Principal) -> dict[str, int]:
        """Bytes by structure. A tenant sees its own bytes, the service's operator the bytes of all tenants."""
        host = self._backend.host
        structures: dict[str, int] = {}
        if host.state != "starting":
            make = partial(bill, tenant=None if principal.serves else principal.tenant)
            structures = await self._backend.made(_parts(host.snapshot()), make)
        counters = host.counters() if principal.serves else {}
        return {name: count for name, count in {**structures, **counters}.items() if name.endswith("_bytes")}


def _parts(snapshot: Snapshot) -> int:
    """The number of parts that `bill` visits: streams and their chunks; the streams alone if they are many."""
    streams = len(snapshot.by_id)
    if streams > _FEW_STREAMS:
        return streams
    return streams + sum(len(view.chunks) - view.archived for view in snapshot.by_id.values())

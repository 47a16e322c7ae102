"""A running service: host, servicers, health, reflection and metrics, started and stopped in the right order.

    start   warm up ─> listen (NOT_SERVING) ─> host replays ─> SERVING
    stop    NOT_SERVING ─> no new commands, those accepted are finished ─> calls end within the grace ─> closed

Several services can live in one process, each with its own engine, on port 0: tests do that. `main` handles signals.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from psoup.admission import Admission
from psoup.answer.describe import bill
from psoup.answer.figures.kept_figures import kept_figures
from psoup.answer.figures.table_figures import table_figures
from psoup.engine.engine import Engine
from psoup.engine.maintenance.offers import StreamOffers
from psoup.errors import Internal
from psoup.published.snapshot import Snapshot
from psoup.work.clock import Clock
from psoup_service.chores.call_observers import call_observers
from psoup_service.chores.clock_heartbeats import ClockHeartbeats
from psoup_service.chores.expiry import ExpiryWait
from psoup_service.chores.regular import RegularWork
from psoup_service.figures.metrics import Metrics
from psoup_service.figures.probes import Probes, opened_probes
from psoup_service.figures.watchdog import Watchdog
from psoup_service.functions.process import FunctionProcess
from psoup_service.gate.addresses import listen_on
from psoup_service.gate.audit import NAME, Audit
from psoup_service.gate.call_turns import CallTurns
from psoup_service.gate.certificate_roles import certificate_table
from psoup_service.gate.certificates import Certificates
from psoup_service.gate.credentials import Gate
from psoup_service.gate.listeners import is_loopback, nobody_may_come
from psoup_service.gate.meters import Meters
from psoup_service.gate.open_id import open_id
from psoup_service.gate.token_table import TokenTable
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids
from psoup_service.host.push_pauses import PushPauses
from psoup_service.host.room import HostLimits
from psoup_service.host.runner import TaskPool, cores
from psoup_service.host.standby_host import elsewhere, host_class
from psoup_service.host.threads import Threads, on
from psoup_service.host.turns.fair_turns import Weights
from psoup_service.process.clock import guarded, wall_time
from psoup_service.process.late_kernels import watched
from psoup_service.process.settings import Settings
from psoup_service.process.warmup import load_postgres, warm_up
from psoup_service.servicers.backend import PATIENCE_S, Backend
from psoup_service.servicers.health import HealthServicer
from psoup_service.servicers.server import ServerServicer
from psoup_service.servicers.services import services_of
from psoup_service.servicers.usage import tell_usage
from psoup_service.wire.call_steps import Answering
from psoup_service.wire.calls import Calls
from psoup_service.wire.decoders import Decoders
from psoup_service.wire.grpc_calls import GrpcCalls
from psoup_service.wire.payload_decoder import Decoding
from psoup_service.wire.request_bodies import touch_memory
from psoup_storage import DurableStore
from psoup_storage.contract import Store
from psoup_storage.memory import MemoryStore

if TYPE_CHECKING:
    from psoup_service.pg.port import PgPort
    from psoup_service.web.gateway import Gateway

_GATEWAY, _PG = "psoup_service.web.gateway", "psoup_service.pg.port"
_MOST_HELPERS = 4
"""The most threads that evaluate new queries over old tuples. At a start they may use all cores."""
_log = logging.getLogger(__name__)


class Service:
    """A service. `addresses`: its places to listen, once started; `address`: the first of them.

    Without a `store` it keeps everything in memory. The service closes the store, also if the service cannot be made.
    `quarantine`: IDs of queries that are kept out of the index. Raises InvalidInput for a text that is not an ID, and
    for certificates that cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        store: Store | None = None,
        quarantine: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        self.address = ""
        self.addresses: tuple[str, ...] = ()
        self.metrics_address = ""
        self.clock = guarded(clock)
        self._store = store or MemoryStore()
        self.certificates: Certificates | None = None
        self._pool = TaskPool(settings.threads)
        self._helpers = TaskPool(min(_MOST_HELPERS, cores()))
        self._functions: FunctionProcess | None = None
        try:
            if settings.tls_cert:
                self.certificates = Certificates(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
            if settings.functions:
                self._functions = FunctionProcess(settings.functions, settings.functions_s, settings.functions_mib)
                self._functions.install()
            self.host = self._make_host(quarantine)
        except BaseException:
            for part in (self._pool, self._helpers, self._store, self._functions):
                if part is not None:
                    part.close()
            raise
        self._limits = settings.limits()
        self._pauses = PushPauses(lambda: self.clock.boot())
        self._metrics = self._make_metrics()
        self._threads = Threads()
        self._decoders = Decoders()
        self.gate = self._make_gate()
        self.watchdog = Watchdog(self._metrics)
        self._answering = self._make_answering()
        self._backend = self._make_backend()
        self._probes: Probes | None = None
        self._health = HealthServicer()
        self._services: list[str] = []
        self._serving: dict[str, Any] = {}
        self.gateway: Gateway | None = None
        self.pg: PgPort | None = None
        self._watch: asyncio.Task[None] | None = None
        self.regular = self._make_regular()
        self._stopped = False

    def _make_host(self, quarantine: Sequence[str]) -> Host[Snapshot]:
        settings, config = self.settings, self.settings.engine_config()
        admission = Admission(config, archive=self._store.durable, parks=True)
        keep, thin = (self._store.keep, self._store.thin) if self._store.durable else (None, None)
        taken = lambda: admission.producer_bytes + self.host.pins.bytes  # noqa: E731
        self._wait = ExpiryWait(self.clock, lambda: self.host.state == "starting", lambda: engine.snapshot())
        timer, edge, log = time.thread_time, self._wait.edge, self._store.registrations
        engine = Engine(config, self._pool, keep, taken, settings.verify, timer, edge, thin, log)
        admission.share_published(engine.snapshot)
        self._has_clock_streams = lambda: bool(admission.clock_streams)
        self._weights = Weights(lambda: engine.snapshot().tenants)
        self._judge, self._allowance = admission.judge, settings.allowance(self._weights)
        host: Host[Snapshot] = host_class(self._store)(
            engine,
            admission,
            self._store,
            self.clock,
            limits=HostLimits(settings.queue_mib * 1024 * 1024, settings.pending, settings.readers),
            helpers=self._helpers,
            allowance=self._allowance,
            quarantine=quarantine,
            weights=self._weights,
        )
        engine.offers.listen(lambda stream_id, offers: host.install(StreamOffers(stream_id, offers, engine.offers)))
        self._offers, self._recalled = engine.offers, engine.recalled
        return host

    def _make_metrics(self) -> Metrics:
        metrics = Metrics(self._figures)
        metrics.by_snapshot(self._snapshot, self.clock.now, lambda stream_id: self.host.passed.progress(stream_id))
        metrics.by_stage(self.host.stages)
        return metrics

    def _make_regular(self) -> RegularWork:
        heartbeats = ClockHeartbeats(self.host, self.clock, self._pauses, self._has_clock_streams)
        parts = self._store, self._threads, self.settings, self._allowance, heartbeats, self._wait, self._recalled
        return RegularWork(self.host, *parts)

    def _make_gate(self) -> Gate:
        audit = Audit(self._store.path / NAME if isinstance(self._store, DurableStore) else None)
        roles = certificate_table(self.settings.certificate_roles)
        now = wall_time if self._store.follows else self.clock.now
        openid = open_id(self.settings.provider(), now, self._threads, self.clock.latest)
        closed = bool(roles or openid) or self.settings.lets_nobody_in() or self._store.guarded
        stand = self._standing = TokenTable(self.host, self._store.guarded)
        return Gate(stand.tokens, now, audit, closed=closed, certificates=roles, tenants=stand.tenants, openid=openid)

    def _make_answering(self) -> Answering:
        meters = Meters(self._weights.tenants, self.host.times)
        self._observers = call_observers(self.settings, self.host, self._store.incarnation)
        turns, beside = CallTurns(self._weights.of, came=self.watchdog.rouse), (self._pauses, self._observers)
        parts = self._limits, self._metrics, self.gate, meters, self.host.way, turns, *beside
        calls = Calls(*parts, elsewhere(self.host))
        answering = Answering(calls, self._limits, self._weights)
        tell_usage(meters, self.host, self._judge, answering.receiving.held)
        return answering

    def _make_backend(self) -> Backend:
        return Backend(
            self.host,
            self._store,
            Ids(self._store.incarnation),
            self._limits,
            self._metrics,
            wall_time() if self._store.follows else self.clock.now(),
            self._threads,
            Decoding(self._limits, self._decoders, self._pauses.watching(self.host.reserve), PATIENCE_S),
            self._answering.calls.meters,
            self.clock,
        )

    @property
    def store(self) -> Store:
        """The store of events."""
        return self._store

    async def start(self, *, warm: bool = True, compiling: Callable[[int, int], None] = lambda *_: None) -> None:
        """Listen, replay, serve. Raises InvalidInput if it cannot listen on the port. `compiling`: see `warm_up`."""
        server: grpc.aio.Server | None = None
        try:
            if warm:
                await on(self._threads.life, warm_up, self.host.check_wanted, compiling)
                if self.settings.pg_listener() is not None:
                    await on(self._threads.life, load_postgres)
            touch_memory()
            self.watchdog.start()
            server, self._calls = self._make_server()
            self._server = server
            self.addresses = self._listen()
            self.address = self.addresses[0]
            self._start_probes()
            self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
            await self._server.start()
            await on(self._threads.life, self.host.start)
            self._check_somebody_may_come()
            self._wait.begin()
            await on(self._threads.life, self.regular.expiry.take_over)
            self.regular.promotion.serve(self._servicers.sync.tokens, self._servicers.webhooks.deliverer.start)
            await self._open_gateway()
            await self._open_pg()
            self._set_health(health_pb2.HealthCheckResponse.SERVING)
        except BaseException:
            if server is not None:
                await server.stop(None)  # gRPC must be stopped while the loop runs, else it complains at the exit
            await self._release()
            raise
        self._watch = asyncio.create_task(self._watch_host())
        self.regular.start(self.clock, self.gate, self.certificates, self.addresses)

    async def stop(self) -> bool:
        """Drain and close; returns whether all accepted work was finished. Idempotent."""
        if self._stopped:
            return True
        self._stopped = True
        self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._calls.drain()
        for port in (self.gateway, self.pg):
            if port is not None:
                port.drain()
        await self._servicers.webhooks.deliverer.end()
        self._servicers.drain()
        self._health.drain()
        finished = await self.host.drain(self.settings.drain_s)
        if not await self._calls.under_way.finished(self.settings.drain_s):
            _log.warning("calls are cut off", extra={"calls": self._calls.under_way.open})
        await self._server.stop(0)
        if finished:
            await on(self._threads.life, self.regular.expiry.leave)
        await self._release()
        return finished

    async def ended(self) -> None:
        """Return when the host has stopped or failed."""
        await self.host.ended()

    def _make_server(self) -> tuple[grpc.aio.Server, GrpcCalls]:
        server = grpc.aio.server(options=self._limits.channel_options())
        calls = GrpcCalls(self._answering, self._decoders, self._backend.check_stream)
        parts = self._backend, self.settings.engine_config(), self.gate, self._server_servicer()
        amount, promote = self.settings.default_amount(), self.regular.promotion.steps
        self._servicers = services_of(*parts, self.settings.webhook_hosts, amount, promote)
        for register, servicer in self._servicers.registered:
            added = calls.add(register, servicer, server)
            self._services += added
            self._serving |= dict.fromkeys(added, servicer)
        calls.add(health_pb2_grpc.add_HealthServicer_to_server, self._health, server)
        names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflects = reflection.aio.ReflectionServicer(names)
        calls.add(reflection_pb2_grpc.add_ServerReflectionServicer_to_server, reflects, server)
        return server, calls

    def _server_servicer(self) -> ServerServicer:
        address = lambda: "" if self.gateway is None else self.gateway.address  # noqa: E731
        return ServerServicer(self._backend, self._answering.calls.under_way, address)

    def _listen(self) -> tuple[str, ...]:
        mode = int(self.settings.socket_mode, 8)
        return tuple(listen_on(self._server, place, mode, self.certificates) for place in self.settings.listeners())

    def _start_probes(self) -> None:
        if self.settings.metrics_port < 0:
            return
        host = self.settings.host.strip("[]") if is_loopback(self.settings.host) else "127.0.0.1"
        # The page and the port of PostgreSQL open after the host: until then no client is to come.
        state = lambda: (self.host.state if self._watch else "starting", self._notices())  # noqa: E731
        self._probes = opened_probes(self._metrics, state, host, self.settings.metrics_port)
        self.metrics_address = f"{host}:{self._probes.port}"

    async def _open_gateway(self) -> None:
        if self.settings.web_listener() is None:
            return
        await on(self._threads.life, import_module, _GATEWAY)  # 4 MB and 0.1 s, not on the loop
        from psoup_service.web.gateway import opened_gateway

        parts = self._answering, self._serving, self.certificates, lambda: self.host.state
        self.gateway = await opened_gateway(self.settings, *parts)

    async def _open_pg(self) -> None:
        if self.settings.pg_listener() is None:
            return
        await on(self._threads.life, import_module, _PG)
        from psoup_service.pg.port import opened_port
        from psoup_service.pg.versions import CatalogueSource

        parts = self.settings, self._answering, self._serving, self.certificates
        self.pg = await opened_port(*parts, CatalogueSource(self.host))
        if self.pg is not None:
            self._metrics.by_pg_connection(self.pg.figures)

    def _snapshot(self) -> Snapshot | None:
        """The present snapshot. None while the service starts, and once it is fenced."""
        return None if self.host.state == "starting" or self.host.fenced else self.host.snapshot()

    def _figures(self) -> dict[str, int]:
        snapshot = self._snapshot()
        structures = {} if snapshot is None else bill(snapshot) | table_figures(snapshot) | kept_figures(snapshot)
        frame = {"receiving_bytes": self._calls.receiving, "watchers": self._calls.under_way.watching}
        frame |= {"held_calls": self._calls.held, "late_kernels": watched().count}
        frame["tls_not_after_seconds"] = 0 if self.certificates is None else self.certificates.not_after
        frame |= self.clock.state().figures()
        frame |= {"results_offered": self._offers.installed}
        frame |= self._servicers.figures() | self.regular.figures() | self._observers.figures()
        return {**structures, **self.host.counters(), **frame}

    def _notices(self) -> str:
        """The failure of the host; else a full disk, tasks that keep failing, the copy, the clock."""
        notices = (self.host.shortage(), self.regular.notice(), self.clock.state().notice())
        return self.host.failure or "; ".join(filter(None, notices))

    def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        self._health.set(("", *self._services), status)

    def _check_somebody_may_come(self) -> None:
        if self.settings.lets_nobody_in() and not (self._standing.tokens() or self.settings.oidc_issuer):
            raise nobody_may_come(self.settings.data_dir)

    async def _watch_host(self) -> None:
        """Set the health to NOT_SERVING if the host fails."""
        await self.host.ended()
        if not self._stopped:
            self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def _release(self) -> None:
        self.watchdog.stop()
        for port in [port for port in (self.gateway, self.pg) if port is not None]:
            port.close()
        self.regular.stop()
        await on(self._threads.life, self.regular.join)
        if self._watch is not None:
            self._watch.cancel()
        if self._probes is not None:
            await on(self._threads.life, self._probes.close)
        await on(self._threads.life, self.host.close)
        if self._functions is not None:
            await on(self._threads.life, self._functions.close)
        for part in (self.gate.audit, self._decoders, self._pool, self._helpers, self._threads, self._observers):
            part.close()


@asynccontextmanager
async def running_service(
    settings: Settings | None = None, *, clock: Clock | None = None, warm: bool = False, store: Store | None = None
) -> AsyncIterator[Service]:
    """A service on a free port of loopback, stopped at the end: `async with running_service() as service`.

    Raises Internal at the end if the host failed meanwhile.
    """
    service = Service(settings or Settings(port=0), clock=clock, store=store)
    await service.start(warm=warm)
    try:
        yield service
    finally:
        failure = service.host.failure
        await service.stop()
        if failure:
            raise Internal(f"the host failed: {failure}")

"""`psoup serve`: the one composition root of a process that is a service.

settings ─> logs ─> store ─> Service ─> SERVING ── SIGTERM, SIGINT ──> drain ─> exit code 0
                                          └────── the host fails ─────────────> exit code 1, the reason in the log
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

if find_spec("starlette") is None:
    raise ModuleNotFoundError(
        "the service of PSoup needs starlette, which is not installed: pip install 'psoup[server]'", name="starlette"
    )

from psoup.errors import PSoupError, Unavailable
from psoup_service.host.turns.interpreter import ShortTurns
from psoup_service.host.worker import told
from psoup_service.process import allocators, event_loop, kernel_cache, log
from psoup_service.process.extras import check_extras
from psoup_service.process.kernel_progress import KernelProgress
from psoup_service.process.lean import lean
from psoup_service.process.service_manager import ServiceManager
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load

if TYPE_CHECKING:
    from psoup_service.service import Service
    from psoup_storage import Replication

_MIB = 1024 * 1024
_DAY_S = 86_400
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
_log = logging.getLogger(__name__)


def serve(
    settings: Settings,
    *,
    file: str | None = None,
    ready: Callable[[str], None] | None = None,
    quarantine: Sequence[str] = (),
    compiling: Callable[[int, int], None] | None = None,
) -> int:
    """Serve until a signal comes; returns the exit code. `ready` is called with the address once calls are served.

    `file`: the settings file that was read. `quarantine`: IDs of queries that are kept out of the index. `compiling`
    is called after each kernel of a first start, with the number done, and of all. The default is `KernelProgress`.
    """
    log.configure(settings.log_format, settings.log_level)
    if file is not None:
        _log.info("settings were read", extra={"file": file})
    kernel_cache.choose(settings.data_dir)
    allocators.keep_freed_memory()
    try:
        return event_loop.run(_serve(settings, ready, quarantine, compiling or KernelProgress()))
    except PSoupError as problem:
        return _told(problem)
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        print(f"error: {where}{problem.strerror or problem}", file=sys.stderr)
        return EXIT_FAILED


def _told(problem: PSoupError) -> int:
    """Print the reason why the service does not run. Returns the exit code."""
    print(f"error: {told(problem)}", file=sys.stderr)
    return EXIT_FAILED


async def _serve(
    settings: Settings,
    ready: Callable[[str], None] | None,
    quarantine: Sequence[str],
    compiling: Callable[[int, int], None],
) -> int:
    manager = ServiceManager.of(os.environ)
    with lean():
        service = _service(settings, quarantine)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end(number: signal.Signals) -> None:
        _log.info("asked to end", extra={"signal": number.name})
        stop.set()
        service.host.give_up()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    try:
        with ShortTurns():
            await service.start(compiling=compiling)
    except Unavailable:
        if not stop.is_set():
            raise
        _log.info("the start was given up")
        return EXIT_OK
    except PSoupError as problem:
        return _told(problem)
    with suppress(OSError):  # the program that has started it may not read any more
        announce(service)
    manager.ready(service.address, service.host.counters)
    if ready is not None:
        ready(service.address)
    return await _until_stopped(service, manager, stop)


async def _until_stopped(service: Service, manager: ServiceManager, stop: asyncio.Event) -> int:
    """Serve until `stop` is set or the host fails, then drain. Returns the exit code."""
    signalled = asyncio.create_task(stop.wait())
    ended = asyncio.create_task(service.ended())
    await asyncio.wait([signalled, ended], return_when=asyncio.FIRST_COMPLETED)
    manager.stopping()
    failure = service.host.failure
    _log.info("draining" if not failure else "stopping after a failure", extra={"failure": failure} if failure else {})
    finished = await service.stop()
    manager.close()
    signalled.cancel()
    ended.cancel()
    if failure:
        print(f"error: the service stopped: {failure}", file=sys.stderr)
        return EXIT_FAILED
    if not finished:
        _log.warning("not all work was finished in time", extra={"drain_s": service.settings.drain_s})
    return EXIT_OK


def _service(settings: Settings, quarantine: Sequence[str]) -> Service:
    check_extras(settings)
    from psoup_storage import StandbyStore, open_store  # imports the kernels, whose folder must be chosen first

    store = open_store(  # it decodes chunks while the modules below are loaded
        settings.data_dir,
        reserve_bytes=settings.disk_reserve_mib * _MIB,
        cache_bytes=settings.archive_cache_mib * _MIB,
        hot_bytes=settings.memory_mib * _MIB // 2,
        remembered=settings.engine_config().remembered,
        replication=_replication(settings),
        standby=settings.standby,
    )
    from psoup_service.chores.directory_version import note_version
    from psoup_service.chores.standby import StandbyClock
    from psoup_service.service import Service
    from psoup_service.servicers.server import server_version

    note_version(store, server_version())
    clock = StandbyClock(store) if isinstance(store, StandbyStore) else None
    if settings.standby and not store.follows:
        _log.warning("the standby of this directory was promoted: the service writes", extra={"copy": settings.standby})
    return Service(settings, clock=clock, store=store, quarantine=quarantine)


def _replication(settings: Settings) -> Replication | None:
    """The place and the limits of the copy; None without one. A standby makes one once it is promoted."""
    if not (place := settings.replicate or settings.standby):
        return None
    from psoup_service.process.clock import wall_time
    from psoup_storage import Replication

    limit_s = math.inf if settings.replicate_lag_most == "off" else settings.replicate_lag_most
    size, every = settings.replicate_queue_mib * _MIB, settings.replicate_base_s
    return Replication(
        place,
        size,
        every,
        wall_time,
        lag_most_s=limit_s,
        remote=settings.replicate_ack == "remote",
        keep_s=math.inf if settings.replicate_keep == "off" else settings.replicate_keep * _DAY_S,
    )


def announce(service: Service) -> None:
    """Print the addresses and the place of the data on standard error."""
    print(f"psoup listens on {', '.join(service.addresses)}", file=sys.stderr)
    if service.gateway is not None:
        print(f"its page is at {service.gateway.address}", file=sys.stderr)
        if service.settings.mcp:
            print(f"assistants connect to {service.gateway.address}/mcp", file=sys.stderr)
    if service.pg is not None:
        places = [service.pg.address, *filter(None, (service.pg.socket_folder,))]
        print(f"clients of PostgreSQL connect to {' or '.join(places)}", file=sys.stderr)
        if find_spec("duckdb") is None:
            print("they find no catalogue, which BI tools need: pip install 'psoup[server,pg]'", file=sys.stderr)
    if service.metrics_address:
        print(
            f"metrics are at http://{service.metrics_address}/metrics, probes at /healthz and /readyz", file=sys.stderr
        )
    if service.store.durable:
        print(f"data is kept in {service.settings.data_dir}", file=sys.stderr)
        _announce_copy(service)
    else:
        print("nothing survives a restart: streams, tuples and queries are kept in memory only", file=sys.stderr)
    sys.stderr.flush()


def _announce_copy(service: Service) -> None:
    """Print the copy that the service follows, or makes."""
    settings = service.settings
    if service.host.only_reads:
        print(f"{service.host.only_reads}; psoup promote lets it write", file=sys.stderr)
    elif place := settings.replicate or settings.standby:
        print(f"events are copied to {place}", file=sys.stderr)


def main() -> int:
    """Serve with settings from the environment and psoup.toml alone; `psoup serve` has the flags."""
    try:
        loaded = load()
    except PSoupError as problem:
        print(f"error: {problem.message}", file=sys.stderr)
        return EXIT_USAGE
    for notice in loaded.notices:
        print(f"warning: {notice}", file=sys.stderr)
    return serve(loaded.settings, file=loaded.file)


if __name__ == "__main__":
    sys.exit(main())

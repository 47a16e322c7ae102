"""Rows `web.*`: pages that watch through the gateway while 10,000 tuples a second come; what the gateway costs idle.

    web.watch         from the push of a tuple to the event of its page, for 500 pages that get one event a second each
    web.watch.p99     the 99th percentile of that; peer: as many clients that watch over gRPC
    web.idle.memory   memory of a service with the gateway less one without
    web.idle.push     small pushes a second beside the gateway; peer: without it

Pages are coroutines of a process of their own (`benchmarks.copies.pages`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.copies.watch import DOMAIN, Soup, share_of, watching
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.processes import Served, resident
from benchmarks.tool.run import Run
from psoup_client import Client

EVENTS = 500
"""Events a second over all pages: with 10,000 tuples a second of as many values, as many pages."""
_WITH, _WITHOUT = {"PSOUP_WEB_PORT": "0"}, {"PSOUP_WEB_PORT": "-1"}


def rows(run: Run) -> Iterator[Row]:
    """Rows of pages that watch, and of a gateway that nobody uses."""
    pages, live_s = run.of(EVENTS, EVENTS, 10), run.of(6.0, 3.0, 0.3)
    yield from run.part(partial(_watched, pages, live_s), "web.watch", "web.watch.p99")
    pushes, turns = run.of(2_000, 500, 5), run.of(5, 3, 1)
    yield from run.part(partial(_idle, pushes, turns), "web.idle.memory", "web.idle.push")


def _watched(pages: int, live_s: float) -> Iterator[Row]:
    with processes.served(Path(), durable=False, settings=_WITH) as service:
        soup = Soup(service, pages)
        with watching(soup.client.info().web_address, soup.queries, module="benchmarks.copies.pages") as watchers:
            soup.live(live_s / 4)
            watchers.taken()
            pushed = soup.live(live_s)
            taken = watchers.taken()
        with watching(service.address, soup.queries) as clients:
            soup.live(live_s / 4)
            clients.taken()
            soup.live(live_s)
            over_grpc = clients.taken()
    wanted = pushed * live_s * pages / DOMAIN
    assert wanted < 100 or 0.8 < len(taken) / wanted < 1.2, "events are missing"
    peer, details = "over gRPC", {"events": len(taken), "tuples a second": round(pushed)}
    yield Row("web.watch", share_of(taken, 50), "ms", peer, share_of(over_grpc, 50), details=details)
    high = share_of(over_grpc, 99)
    yield Row("web.watch.p99", share_of(taken, 99), "ms", peer, high, Target(value_at_most=150))


def _idle(pushes: int, turns: int) -> Iterator[Row]:
    with (
        processes.served(Path(), durable=False, settings=_WITH) as service,
        processes.served(Path(), durable=False, settings=_WITHOUT) as bare,
    ):
        more = resident(service.pid) - resident(bare.pid)
        beside, alone = list[float](), list[float]()
        for place in (service, bare):
            with Client(place.address) as client:
                client.create_stream("CREATE STREAM s (a BIGINT)")
        for _ in range(turns):
            for place, into in ((service, beside), (bare, alone)):
                into.append(pushes / seconds(partial(_push, place, pushes)))
    yield Row("web.idle.memory", Sample.of([more / 1e6]), "MB", "none", None, Target(value_at_most=15))
    ratio = Target(at_least=0.95)
    yield Row("web.idle.push", _middle(beside), "pushes/s", "without a gateway", _middle(alone), ratio)


def _push(place: Served, count: int) -> None:
    with Client(place.address) as client:
        for number in range(count):
            client.push("s", [{"a": number}])


def _middle(values: list[float]) -> Sample:
    return Sample.of([median(values)])

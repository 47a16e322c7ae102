"""Rows `attacked.*`: the latencies of a neighbour while a client of another tenant attacks (`attacks`).

    service, durable, 1 GiB   <──  tenant `default`: the neighbour, paced: batches of 100 tuples, and invocations of one
                                   of 100 queries
                              <──  tenant `attacker`, with quotas: a process of its own, which takes no processor
                                   from others, as if it were elsewhere (`benchmarks.tool.elsewhere`)
    another service           <──  afterwards the same attack, while the neighbour goes on in the first

    attacked.NAME.invoke   99th percentile of the neighbour's invocations in a second, the middle one of five; peer:
                           the same without an attack; wanted: 1.5 times that, or 5 ms if that is more
    attacked.NAME.push     the same of its pushes; wanted: twice that, or 10 ms
    attacked.NAME.invoke.apart, attacked.NAME.push.apart
                           the same two; peer: while the attack meets the other service: what tenants have who share the
                           machine, but no service; wanted: 1.5 times and twice that
    attacked.NAME.memory   most resident memory of the service; peer: `memory_mib` and 512 MiB
    attacked.NAME.stalls   callbacks that held the service's event loop for more than 50 ms of its processor time

A second has 50 calls of each kind, and the disk stalls in some seconds, attacked or not: the median of seconds does not
depend on their number, and one stall does not change a figure. The attack `nobody` sends nothing: it keeps a processor
busy, as far as others leave it one. Its cost for the neighbour is caused by the shared machine, not by the service, so
its rows have no target. All attacks meet the same two services, one after the other; what the attacker made is dropped
between them. A service that has ended is an error of its attack, and the next one gets a new one. A call of the
neighbour that is refused is an error of the row. At the end the neighbour's answers are compared with what it pushed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.attacks.attacks import ATTACKS, NOBODY
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.processes import Served, free_port, resident
from benchmarks.tool.run import Run
from psoup_client import Client, ClientOptions, Query, RetryOptions
from psoup_client.channel.token import TOKEN

MEMORY_MIB = 1_024
ROOM_MIB = 512
ALONE, ATTACKED = 5, 5
"""Turns of the first measurement, before each attack one is added; turns of each attack."""

TURN_S = 1.0
QUICK = ("zeros", "slow_readers", "many_statements")
QUERIES = 100
KEPT = 10_000
"""Tuples of the neighbour's stream."""

ROWS = 20
PUSHES = 50.0
INVOCATIONS = 50.0
"""A second, of the neighbour: a thousand tuples, in small batches, so that a turn has 50 calls of each kind."""

QUOTAS = {
    "calls_per_second": 500.0,
    "pushed_bytes_per_second": 64e6,
    "prepare_share": 0.25,
    "join_share": 0.25,
    "read_share": 0.25,
}
"""Of the attacker, once it has made what its attack needs."""

STREAM = "neighbour"
ATTACKER = "attacker"
APART = ("invoke.apart", "push.apart")
"""Not of a process that attacks nobody."""

KINDS = ("invoke", "push", "memory", "stalls", *APART)


def rows(run: Run) -> Iterator[Row]:
    """Every attack, or three of them; tiny: one, for a moment."""
    alone, under, turn = run.of((ALONE, ATTACKED, TURN_S), (ALONE, ATTACKED, TURN_S), (1, 1, 0.2))
    with Scenes(alone, turn) as scenes:
        for name in run.of(tuple(ATTACKS), QUICK, ("half_messages",)):
            names = [f"attacked.{name}.{kind}" for kind in KINDS if name != NOBODY or kind not in APART]
            yield from run.part(partial(attacked, scenes, name, under), *names)


def attacked(scenes: Scenes, name: str, turns: int) -> Iterator[Row]:
    """The rows of one attack, which lasts so many turns."""
    scene = scenes.next()
    stalls = scene.stalls()
    with _attacking(name, scene.address, scene.token) as said:
        scene.limit(QUOTAS)
        under = scene.live(turns)
        stalls = scene.stalls() - stalls
    scene.neighbour.check()
    note = f"attacked.{name}: the attacker's calls: {said() or 'none ended'}"
    p99_now, before = _p99(under.invocations), _p99(scene.alone.invocations)
    yield Row(f"attacked.{name}.invoke", p99_now, "ms", "alone", before, _wanted(name, before, 1.5, 5), note)
    pushes, before = _p99(under.pushes), _p99(scene.alone.pushes)
    yield Row(f"attacked.{name}.push", pushes, "ms", "alone", before, _wanted(name, before, 2, 10))
    budget = Sample.of([(MEMORY_MIB + ROOM_MIB) * 1.048576])
    memory = Sample.of([under.resident / 1e6])
    yield Row(f"attacked.{name}.memory", memory, "MB", "its budget", budget, Target(at_most=1))
    yield Row(f"attacked.{name}.stalls", Sample.of([stalls]), "stalls", "none", None, Target(value_at_most=0))
    scene.tidy()
    if name != NOBODY:
        yield from _apart(scenes, scene, name, under)


def _apart(scenes: Scenes, scene: Scene, name: str, under: Life) -> Iterator[Row]:
    """The neighbour's figures `under` the attack, beside its figures while the attack meets another service."""
    other = scenes.other()
    with _attacking(name, other.address, other.token):
        other.limit(QUOTAS)
        apart = scene.live(len(under.pushes))
    other.tidy()
    peer = "attacked apart"
    invoked, pushed = _p99(under.invocations), _p99(under.pushes)
    yield Row(f"attacked.{name}.invoke.apart", invoked, "ms", peer, _p99(apart.invocations), Target(at_most=1.5))
    yield Row(f"attacked.{name}.push.apart", pushed, "ms", peer, _p99(apart.pushes), Target(at_most=2))


def _wanted(name: str, alone: Sample, times: float, milliseconds: float) -> Target | None:
    """At most so many times what it is alone, or so many milliseconds; nothing of a process that attacks nobody."""
    return None if name == NOBODY else Target(at_most=max(times, milliseconds / alone.median))


class Scenes:
    """The services that are attacked next: those of before, if they have survived."""

    def __init__(self, alone: int, turn_seconds: float) -> None:
        """`alone`: turns of the first measurement without an attack."""
        self._alone, self._turn = alone, turn_seconds
        self._held = ExitStack(), ExitStack()
        self._scenes: list[Scene | None] = [None, None]

    def __enter__(self) -> Scenes:
        return self

    def __exit__(self, *_: object) -> None:
        with self._held[1]:
            self._held[0].close()

    def next(self) -> Scene:
        """The service that is attacked, once its neighbour has been alone."""
        scene, fresh = self._one(0)
        if fresh:
            scene.live(1)  # warm-up
        scene.live_alone(self._alone if fresh else 1)
        return scene

    def other(self) -> Scene:
        """Another service, whose neighbour is silent."""
        return self._one(1)[0]

    def _one(self, place: int) -> tuple[Scene, bool]:
        """The service of a place, to be tidied. It is a fresh one if its last use did not end normally."""
        scene = self._scenes[place]
        fresh = scene is None or not scene.tidied
        if scene is None or fresh:
            self._scenes[place] = None
            self._held[place].close()
            scene = self._scenes[place] = Scene(self._held[place], self._turn)
        scene.tidied = False
        return scene, fresh


class Scene:
    """A service with two tenants. `token`: of the attacker; `alone`: what the neighbour measured without an attack."""

    def __init__(self, stack: ExitStack, turn_seconds: float) -> None:
        self._turn = turn_seconds
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-bench-")))
        self._metrics = free_port()
        settings = {"PSOUP_MEMORY_MIB": str(MEMORY_MIB), "PSOUP_METRICS_PORT": str(self._metrics)}
        service = stack.enter_context(processes.served(folder, settings=settings))
        self.address = service.address
        with Client(service.address) as client:
            operator = client.issue_token("operator", ["operator", "owner"], first=True).secret
        self._operator = stack.enter_context(Client(service.address, options=ClientOptions(token=operator)))
        self._operator.create_tenant(ATTACKER)
        self.token = self._operator.issue_token(ATTACKER, ["owner"], tenant=ATTACKER).secret
        self.limit(dict.fromkeys(QUOTAS, 0.0))
        self.neighbour = Neighbour(service, operator)
        stack.callback(self.neighbour.close)
        self.alone = Life()
        self.tidied = False

    def live(self, turns: int) -> Life:
        """Let the neighbour live."""
        life = Life()
        for _ in range(turns):
            life.add(self.neighbour.live(self._turn))
        return life

    def live_alone(self, turns: int) -> None:
        """Let the neighbour live without an attack."""
        self.alone.add(self.live(turns))

    def limit(self, quotas: dict[str, float]) -> None:
        """Give the attacker these quotas; 0: none."""
        self._operator.alter_tenant(ATTACKER, **quotas)

    def stalls(self) -> float:
        """The number of stalls of the service's event loop, by its own counter."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=5) as reply:
            lines = reply.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith("psoup_loop_stalls_total"))

    def tidy(self) -> None:
        """Drop what the attacker has made: the next attack finds the service as this one did."""
        self.limit(dict.fromkeys(QUOTAS, 0.0))
        with Client(self.address, timeout=60, options=ClientOptions(token=self.token)) as client:
            for stream in client.streams():
                client.drop(stream.name, cascade=True)
        self.tidied = True


@dataclass
class Life:
    """The measures of the neighbour: milliseconds of the calls of each turn; bytes of the service."""

    pushes: list[list[float]] = field(default_factory=list)
    invocations: list[list[float]] = field(default_factory=list)
    resident: int = 0

    def add(self, later: Life) -> None:
        """Add some more turns."""
        self.pushes += later.pushes
        self.invocations += later.invocations
        self.resident = max(self.resident, later.resident)


class Neighbour:
    """A client within every quota: a stream of its own, 100 queries, small batches, small answers."""

    def __init__(self, service: Served, token: str) -> None:
        self._there = service
        once = RetryOptions(attempts=1, restart_seconds=0)
        self._client = Client(service.address, options=ClientOptions(token=token, retry=once))
        self._client.create_stream(f"CREATE STREAM {STREAM} (a BIGINT, b TEXT) RETENTION {KEPT} ROWS")
        sql = f"SELECT a, b FROM {STREAM} WHERE a = ? BEGIN (NOW - {KEPT} ROWS)"
        self._queries: list[Query] = list(self._client.register_many(sql, [(number,) for number in range(QUERIES)]))
        starts = range(0, QUERIES, ROWS)
        self._batches = [pa.table({"a": np.arange(start, start + ROWS), "b": ["b"] * ROWS}) for start in starts]
        self._pushed = 0

    def live(self, seconds: float) -> Life:
        """Push and invoke at a steady pace, for a turn. Raises the error of a call."""
        life, until = Life([[]], [[]]), time.monotonic() + seconds
        problems: list[BaseException] = []
        number = iter(range(1 << 40))

        def push() -> None:
            self._client.push(STREAM, self._batches[self._pushed % len(self._batches)])
            self._pushed += 1

        def invoke() -> None:
            self._queries[next(number) % QUERIES].invoke()

        works = ((push, PUSHES, life.pushes[0]), (invoke, INVOCATIONS, life.invocations[0]))
        threads = [threading.Thread(target=_paced, args=(*work, until, problems)) for work in works]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            life.resident = max(life.resident, resident(self._there.pid))
            threads[0].join(0.05)
        if problems:
            problems[0].add_note(f"the end of the service's log:\n{self._there.said()}")
            raise problems[0]
        return life

    def close(self) -> None:
        """Close its connection."""
        self._client.close()

    def check(self) -> None:
        """Compare an answer with the pushed tuples."""
        rows = range(max(self._pushed - KEPT // ROWS, 0), self._pushed)
        for place in (0, QUERIES - 1):
            expected = sum(number % len(self._batches) == place // ROWS for number in rows)
            answer = self._queries[place].invoke().to_arrow()
            if answer.column("a").to_pylist() != [place] * expected:
                raise AssertionError(f"query {place}: {answer.num_rows} rows, {expected} were pushed and kept")


def _paced(
    call: Callable[[], None], rate: float, spent: list[float], until: float, problems: list[BaseException]
) -> None:
    """Call at most `rate` times a second, once at least, and note the milliseconds of each."""
    try:
        while (start := time.monotonic()) < until or not spent:
            call()
            took = time.monotonic() - start
            spent.append(1e3 * took)
            time.sleep(max(0.0, 1 / rate - took))
    except BaseException as problem:
        problems.append(problem)


def _p99(turns: list[list[float]]) -> Sample:
    """The middle one of the 99th percentiles of turns; the spread is from the least to the greatest."""
    each = [float(np.percentile(turn, 99)) for turn in turns]
    return Sample(float(np.median(each)), min(each), max(each), sum(map(len, turns)))


@contextmanager
def _attacking(name: str, address: str, token: str) -> Iterator[Callable[[], str]]:
    """The attack, after its preparation. It ends with the block, and then reports the outcomes of its calls."""
    command = [sys.executable, "-m", "benchmarks.attacks.attacks", name, address]
    environ = {**os.environ, TOKEN: token}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
    said: dict[str, int] = {}
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the attack {name} did not begin")
        yield lambda: ", ".join(f"{count:,} {code}" for code, count in said.items())
        rest, _ = process.communicate(timeout=30)
        said |= json.loads(rest or "{}")
    finally:
        process.kill()
        process.wait()

"""`python -m benchmarks.soak --minutes 10`: the real service at half of its peak rate, while queries come and go.

    pusher    batches of 4,096 tuples, paced; half of the rate that an unpaced burst reached before
    churner   registers some queries and unregisters as many of the oldest, all the time
    invoker   invokes one of the living queries after the other, and notes how long each answer took
    sampler   the memory of the service's process

At the end every living query's answer is compared with a mask over the tuples of its window. Memory is flat if a
line through the samples of the last two thirds rises by less than a twentieth over that time. Exit code 1 if an answer
differs or the memory grows.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.tool.machine import machine
from benchmarks.tool.processes import Served, resident, served
from benchmarks.tool.report import machine_line, number
from benchmarks.tool.workload import CREATE, STREAM, Columns, Query, batches, make_columns, make_queries
from psoup_client import Client, PSoupError

BATCH = 4_096
CYCLE = 64
"""Different batches, pushed again and again."""

WINDOW = 8 * BATCH
CHUNK = 65_536
GROWTH = 0.05
ROOM = 64 << 20
"""Memory may grow by this share of itself, or by so many bytes, before it is called a leak."""


@dataclass
class Soak:
    """The parts of a run, and its measurements. Threads write to lists of their own."""

    served: Served
    seconds: float
    standing: int = 1_024
    churn: int = 16
    columns: Columns = field(default_factory=lambda: make_columns(CYCLE * BATCH))
    living: deque[tuple[str, Query]] = field(default_factory=deque)
    memory: list[tuple[float, int]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    pushed: int = 0
    last: int = 0
    replaced: int = 0
    problems: list[str] = field(default_factory=list)
    behind: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> dict[str, object]:
        """Fill, find the peak, soak, compare; the findings."""
        with Client(self.served.address) as client:
            client.create_stream(f"{CREATE} RETENTION {4 * CHUNK} ROWS")
            self._queries = _endless()
            self._register(client, self.standing)
        peak = self._burst(min(self.seconds / 10, 10))
        start = time.monotonic()
        workers = [self._push_paced(peak / 2), self._churn, self._invoke, self._sample]
        threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in workers]
        for thread in threads:
            thread.start()
        self.stop.wait(self.seconds)
        self.stop.set()
        rate = self.pushed * BATCH / (time.monotonic() - start)
        for thread in threads:
            thread.join()
        return self._findings(peak, rate)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except PSoupError as problem:
            self.problems.append(f"{work.__name__}: {problem}\n{self.served.said()}")
            self.stop.set()

    def _register(self, client: Client, count: int) -> None:
        fresh = [next(self._queries) for _ in range(count)]
        handles = client.register_many([query.statement(WINDOW) for query in fresh])
        self.living.extend((handle.id, query) for handle, query in zip(handles, fresh, strict=True))

    def _burst(self, seconds: float) -> float:
        """Tuples a second without a pause."""
        tables = batches(self.columns, BATCH)
        with Client(self.served.address) as client, client.producer(STREAM, batch_rows=BATCH) as producer:
            for warm_up in (True, False):
                pushed, until, start = 0, time.monotonic() + seconds / (3 if warm_up else 1), time.monotonic()
                while pushed < 2 or time.monotonic() < until:
                    for table in tables[:16]:
                        producer.push(table)
                    pushed += 16
                client.wait_for(producer.flush().sequence)
        return pushed * BATCH / (time.monotonic() - start)

    def _push_paced(self, rate: float) -> Callable[[], None]:
        def push() -> None:
            tables = batches(self.columns, BATCH)
            with Client(self.served.address) as client, client.producer(STREAM, batch_rows=BATCH) as producer:
                start = time.monotonic()
                while not self.stop.is_set() or self.pushed < WINDOW // BATCH:  # answers are compared over a window
                    ahead = start + self.pushed * BATCH / rate - time.monotonic()
                    if ahead > 0:
                        self.stop.wait(ahead)
                    self.behind = max(self.behind, -ahead)
                    producer.push(tables[self.pushed % CYCLE])
                    self.pushed += 1
                self.last = producer.flush().sequence
                client.wait_for(self.last)

        return push

    def _churn(self) -> None:
        with Client(self.served.address) as client:
            while not self.stop.wait(0.25):
                self._register(client, self.churn)
                for _ in range(self.churn):
                    query_id, _query = self.living.popleft()
                    client.unregister(query_id)
                self.replaced += self.churn

    def _invoke(self) -> None:
        random = np.random.default_rng(1)
        with Client(self.served.address) as client:
            while not self.stop.wait(0.01):
                # The oldest are about to go.
                place = int(random.integers(self.standing // 2, self.standing))
                query_id, _query = self.living[place]
                start = time.perf_counter()
                client.query(query_id).invoke()
                self.latencies.append(time.perf_counter() - start)

    def _sample(self) -> None:
        start = time.monotonic()
        while not self.stop.wait(min(1.0, self.seconds / 50)):
            self.memory.append((time.monotonic() - start, resident(self.served.pid)))

    def _findings(self, peak: float, rate: float) -> dict[str, object]:
        wrong = self._wrong_answers() if not self.problems else []
        growth, median = growth_of(self.memory)
        p50, p99, maximum = (1e3 * float(q) for q in np.percentile(self.latencies or [0.0], [50, 99, 100]))
        return {
            "seconds": self.seconds,
            "peak_rate": peak,
            "rate": rate,
            "behind_s": self.behind,
            "tuples": self.pushed * BATCH,
            "queries": len(self.living),
            "replaced": self.replaced,
            "invocations": len(self.latencies),
            "p50_ms": p50,
            "p99_ms": p99,
            "max_ms": maximum,
            "memory_mb": median / 2**20,
            "least_mb": min(size for _, size in self.memory or [(0, 0)]) / 2**20,
            "most_mb": max(size for _, size in self.memory or [(0, 0)]) / 2**20,
            "growth_mb": growth / 2**20,
            "flat": flat(growth, median),
            "compared": len(self.living),
            "wrong": wrong,
            "problems": self.problems,
        }

    def _wrong_answers(self) -> list[str]:
        numbers = [k % CYCLE for k in range(self.pushed - WINDOW // BATCH, self.pushed)]
        window = np.concatenate([self.columns[:, n * BATCH : (n + 1) * BATCH] for n in numbers], axis=1)
        wrong = []
        with Client(self.served.address) as client:
            for query_id, query in self.living:
                table = client.query(query_id).invoke(wait_for=self.last).to_arrow()
                answer = np.stack([column.to_numpy() for column in table.columns])
                if not np.array_equal(answer, window[:, query.mask(window)]):
                    wrong.append(f"{query_id}: {answer.shape[1]} rows, a mask has {query.mask(window).sum()}")
        return wrong


def growth_of(samples: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Bytes by which a line through the samples (seconds, bytes) rises after the first third, and their median."""
    later = samples[len(samples) // 3 :]
    if len(later) < 2:
        return 0.0, float(later[0][1] if later else 0)
    times, sizes = np.array(later, np.float64).T
    slope = np.polyfit(times, sizes, 1)[0]
    return float(slope * (times[-1] - times[0])), float(np.median(sizes))


def flat(growth: float, median: float) -> bool:
    """Whether a rise by so many bytes at this median is not a leak."""
    return growth < max(GROWTH * median, ROOM)


def _endless() -> Iterator[Query]:
    """An endless sequence of different queries."""
    for seed in itertools.count():
        yield from make_queries(1_024, 4, seed)


def soak(seconds: float, standing: int = 1_024, churn: int = 16) -> dict[str, object]:
    """A run on a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="psoup-soak-") as folder, served(Path(folder)) as service:
        findings = Soak(service, seconds, standing, churn).run()
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        return findings | {"disk_mb": sum(path.stat().st_size for path in files) / 2**20, "files": len(files)}


def main() -> int:
    """Soak, and print the findings. Returns 1 if an answer was wrong, a call failed or the memory grew; else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="how long, after the fill and the burst")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service is ended with it
    findings = soak(60 * options.minutes)
    console = Console(width=120)
    console.print(machine_line(machine()), highlight=False)
    for name, value in findings.items():
        shown = number(value) if isinstance(value, float) and value > 0 else value
        console.print(f"{name:>12}  {shown}", highlight=False)
    return 0 if findings["flat"] and not findings["wrong"] and not findings["problems"] else 1


if __name__ == "__main__":
    sys.exit(main())

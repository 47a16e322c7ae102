"""T7: replies are dropped, requests come twice and out of order; each batch is taken once, in the order of its number.

    producer: batches n … n + 7 under way ──> network: lost 15 %, twice 20 %, in any order ──> service
              what is not acknowledged is sent again <── replies: lost 30 %

A request that overtook another leaves a gap, is refused, and sent again. The service is admission and engine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.errors import FailedPrecondition
from psoup.events.commands import CreateStream, Push, Register
from psoup.events.events import Event
from psoup_testing.crash.acknowledgements import batch_rows, problems
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SCALE, SEED, replayable

PRODUCERS, WINDOW = 4, 8
BATCHES = max(2_000, round(2_500 * SCALE))
"""Of each producer."""


class Service:
    """Admission and engine, one request after the other."""

    def __init__(self) -> None:
        self.admission, self.engine = Admission(), Engine(EngineConfig())
        self._run: list[Event] = []
        self.handle(CreateStream("CREATE STREAM s (k BIGINT, n BIGINT, part BIGINT)"))
        self.handle(Register("SELECT k, n, part FROM s BEGIN (START)"))
        self.repeats = self.gaps = 0

    def handle(self, command: CreateStream | Register | Push) -> bool:
        """Whether it was acknowledged."""
        try:
            prepared = self.admission.prepare(command, 0)
        except FailedPrecondition as problem:
            assert problem.reason == "NUMBER_GAP"
            self.gaps += 1
            return False
        if prepared.event is None:
            self.repeats += 1
        else:
            self._run.append(prepared.event)
        if len(self._run) >= 500:
            self.apply()
        return True

    def apply(self) -> None:
        """Apply what was taken."""
        if self._run:
            self.engine.apply(self._run)
        self._run = []


def network(wanted: list[tuple[int, int]], chance: random.Random) -> Iterator[tuple[int, int]]:
    """What arrives of the requests sent, and in which order."""
    arriving = [one for one in wanted if chance.random() >= 0.15]
    arriving += [one for one in arriving if chance.random() < 0.2]
    if chance.random() < 0.5:
        chance.shuffle(arriving)
    yield from arriving


def push(producer: int, number: int) -> Push:
    rows = batch_rows(producer, 1, number)
    table = pa.table({"k": [producer] * len(rows), "n": [number] * len(rows), "part": list(range(len(rows)))})
    return Push("s", table, f"p{producer}", 1, number)


@pytest.mark.long
def test_requests_and_replies_that_are_lost_doubled_and_reordered_take_each_batch_once() -> None:
    chance, service, acknowledged = random.Random(SEED), Service(), [0] * PRODUCERS
    with replayable(SEED):
        while min(acknowledged) < BATCHES:
            wanted = [(k, n) for k in range(PRODUCERS) for n in range(acknowledged[k], acknowledged[k] + WINDOW)]
            told: set[tuple[int, int]] = set()
            for producer, number in network(wanted, chance):
                if service.handle(push(producer, number)) and chance.random() >= 0.3:
                    told.add((producer, number))
            for producer in range(PRODUCERS):
                while (producer, acknowledged[producer]) in told:
                    acknowledged[producer] += 1
        service.apply()
        answer = again(invoke, service.engine.snapshot(), 1, tenant="default", now=0).to_table()
        rows = [(row["k"], 1, row["n"], row["part"]) for row in answer.to_pylist()]
        assert problems({(k, 1): count for k, count in enumerate(acknowledged)}, rows) == []
        assert min(service.repeats, service.gaps) > BATCHES

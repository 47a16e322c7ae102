"""Timing, the machine, and the rows of the table.

A figure is a median of several samples with their spread (10th to 90th percentile), after a warm-up. The peer is
measured in the same way, process and run. Nothing here knows PSoup.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class Sample:
    """The median of some measurements, and where the middle 80 % of them lie."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Sample:
        """The sample of `values`, of which there is at least one."""
        low, median, high = np.percentile(np.asarray(values, np.float64), [10, 50, 90])
        return cls(float(median), float(low), float(high), len(values))

    def scaled(self, factor: float) -> Sample:
        """The sample of all values times `factor`."""
        return Sample(self.median * factor, self.low * factor, self.high * factor, self.count)

    def milliseconds_each(self) -> Sample:
        """The milliseconds for one, if the sample is of a rate in a second. So the highest rate is the lowest time."""
        return Sample(1e3 / self.median, 1e3 / self.high, 1e3 / self.low, self.count)


def seconds(call: Callable[[], object]) -> float:
    """The seconds of a single `call`."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Rate(NamedTuple):
    """Measure by the clock. Measure the median also by the CPU time of the calling thread, which a busy machine
    disturbs less.
    """

    wall: Sample
    cpu: float


def in_turns(
    turns: Sequence[Callable[[], object]],
    amounts: Sequence[int],
    samples: int,
    between: Callable[[], object] = lambda: None,
) -> list[Rate]:
    """Amounts a second of each, taking turns, so that a busy moment hits all; the first round is warm-up."""
    walls: list[list[float]] = [[] for _ in turns]
    cpus: list[list[float]] = [[] for _ in turns]
    for _ in range(samples + 1):
        for wall, cpu, turn, amount in zip(walls, cpus, turns, amounts, strict=True):
            before = time.thread_time()
            wall.append(amount / seconds(turn))
            cpu.append(amount / max(time.thread_time() - before, 1e-9))
            between()
    return [Rate(Sample.of(w[1:]), Sample.of(c[1:]).median) for w, c in zip(walls, cpus, strict=True)]


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a row. `at_least` and `at_most` are on the ratio, the others on the value."""

    at_least: float | None = None
    at_most: float | None = None
    value_at_least: float | None = None
    value_at_most: float | None = None

    def met(self, value: float, ratio: float) -> bool:
        """Whether `value` and its ratio to the peer's reach it."""
        return (
            (self.at_least is None or ratio >= self.at_least)
            and (self.at_most is None or ratio <= self.at_most)
            and (self.value_at_least is None or value >= self.value_at_least)
            and (self.value_at_most is None or value <= self.value_at_most)
        )

    def text(self, unit: str) -> str:
        """The target in words."""
        parts = []
        if self.value_at_least is not None:
            parts.append(f">= {self.value_at_least:,.0f} {unit}")
        if self.value_at_most is not None:
            parts.append(f"<= {self.value_at_most:,.0f} {unit}")
        if self.at_least is not None:
            parts.append(f">= {self.at_least:g}x")
        if self.at_most is not None:
            parts.append(f"<= {self.at_most:g}x")
        return ", ".join(parts)


REASON = 300
"""Characters of a failure that the table shows; the file has all of it."""

COSTS = ("s", "ms", "us", "ns", "MB", "bytes")
"""Units of which less is better."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a figure of PSoup beside a peer's, or beside none (`peer_sample` None).

    `unit` "tuples/s": more is better, and the ratio is ours by theirs. "us": less is better, and the ratio is theirs by
    ours (how many times faster), unless `target.at_most` says that it is ours by theirs. The name of a peer shows
    whether it was measured on a sample and scaled. A missing peer has no figure; `note` has the reason.
    """

    name: str
    sample: Sample
    unit: str
    peer: str
    peer_sample: Sample | None
    target: Target | None = None
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    @classmethod
    def failed(cls, name: str, error: Exception, trace: str = "") -> Row:
        """The row of a failed measurement: it has no figure, and `failure` says why in a line."""
        lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines()]
        reason = " ".join(line for line in lines if line)
        nothing = Sample(math.nan, math.nan, math.nan, 0)
        note = f"{name} failed: {reason[:REASON]}"
        return cls(name, nothing, "", "", None, None, note, {"traceback": trace}, reason)

    @property
    def ratio(self) -> float:
        """See above; NaN without a figure of the peer's."""
        if self.peer_sample is None:
            return math.nan
        ours, theirs = self.sample.median, self.peer_sample.median
        inverse = self.unit in COSTS and not (self.target and self.target.at_most is not None)
        return theirs / ours if inverse else ours / theirs

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one, or without a figure."""
        return None if self.target is None else self.target.met(self.sample.median, self.ratio)

    @property
    def lost(self) -> bool:
        """Whether the peer is better."""
        return (self.ratio > 1) if self.target and self.target.at_most is not None else (self.ratio < 1)

    def to_dict(self) -> dict[str, Any]:
        """The row as it stands in the JSON file."""
        theirs = self.peer_sample
        return {
            "name": self.name,
            "value": None if self.failure else self.sample.median,
            "unit": self.unit,
            "peer": self.peer,
            "peer_value": None if theirs is None else theirs.median,
            "ratio": None if theirs is None else self.ratio,
            "target": None if self.target is None else self.target.text(self.unit),
            "met": self.met,
            "spread": None if self.failure else asdict(self.sample),
            "peer_spread": None if theirs is None else asdict(theirs),
            "note": self.note,
            "details": self.details,
            "failure": self.failure or None,
        }


class Absent(Protocol):
    """A peer without a figure: `benchmarks.peers.Missing`."""

    name: str
    why: str


BY_HAND = ("NumPy", "C ")
"""The beginnings of the names of peers that are not engines."""


def beside(
    name: str,
    ours: Rate | Sample,
    unit: str,
    peers: Sequence[tuple[str, Rate | Sample]],
    missing: Sequence[Absent] = (),
    target: Target | None = None,
    details: dict[str, Any] | None = None,
) -> Iterator[Row]:
    """A row for each peer, the best first. The target belongs to the best engine, or to the best peer if there is
    none.
    """
    samples = [(peer, given.wall if isinstance(given, Rate) else given) for peer, given in peers]
    ranked = sorted(samples, key=lambda peer: peer[1].median, reverse=unit not in COSTS)
    engines = [peer for peer, _ in ranked if not peer.startswith(BY_HAND)]
    best = (engines or [peer for peer, _ in ranked])[0]
    note, details = "", details or {}
    if isinstance(ours, Rate):
        note = f"{name}: {ours.cpu:,.0f} {unit} by the CPU time of the pushing thread"
        details, ours = details | {"cpu_rate": ours.cpu}, ours.wall
    for peer, sample in ranked:
        yield Row(name, ours, unit, peer, sample, target if peer == best else None, note, details)
    for absent in missing:
        yield Row(name, ours, unit, absent.name, None, None, f"{absent.name} is not here: {absent.why}", details)

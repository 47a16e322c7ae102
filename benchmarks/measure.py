"""Timing, the machine, and the rows of the table.

A figure is a median of several samples with their spread (10th to 90th percentile), taken after a warm-up; the
peer's is taken the same way in the same process and run. Nothing here knows PSoup.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

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


def seconds(call: Callable[[], object]) -> float:
    """How long `call` takes, once."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Target:
    """What a row has to reach. `at_least` or `at_most` is on the ratio, `value_at_least` on the value."""

    at_least: float | None = None
    at_most: float | None = None
    value_at_least: float | None = None

    def met(self, value: float, ratio: float) -> bool:
        """Whether `value` and its ratio to the peer's reach it."""
        return (
            (self.at_least is None or ratio >= self.at_least)
            and (self.at_most is None or ratio <= self.at_most)
            and (self.value_at_least is None or value >= self.value_at_least)
        )

    def text(self, unit: str) -> str:
        """The target in words."""
        parts = []
        if self.value_at_least is not None:
            parts.append(f">= {self.value_at_least:,.0f} {unit}")
        if self.at_least is not None:
            parts.append(f">= {self.at_least:g}x")
        if self.at_most is not None:
            parts.append(f"<= {self.at_most:g}x")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a figure of PSoup's beside a peer's.

    `unit` "tuples/s": more is better, and the ratio is ours by theirs. "us": less is better, and the ratio is
    theirs by ours (how many times faster), unless `target.at_most` says that it is ours by theirs.
    """

    name: str
    sample: Sample
    unit: str
    peer: str
    peer_sample: Sample
    target: Target | None = None
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """See above."""
        ours, theirs = self.sample.median, self.peer_sample.median
        inverse = self.unit == "us" and not (self.target and self.target.at_most is not None)
        return theirs / ours if inverse else ours / theirs

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        return None if self.target is None else self.target.met(self.sample.median, self.ratio)

    def to_dict(self) -> dict[str, Any]:
        """The row as it stands in the JSON file."""
        return {
            "name": self.name,
            "value": self.sample.median,
            "unit": self.unit,
            "peer": self.peer,
            "peer_value": self.peer_sample.median,
            "ratio": self.ratio,
            "target": None if self.target is None else self.target.text(self.unit),
            "met": self.met,
            "spread": asdict(self.sample),
            "peer_spread": asdict(self.peer_sample),
            "note": self.note,
            "details": self.details,
        }


def machine() -> dict[str, Any]:
    """What this ran on, as far as it bears on the figures."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    packages = ("numpy", "numba", "pyarrow", "grpcio", "duckdb", "polars")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in packages},
        "load_at_start": round(load, 2),
        "commit": _commit(),
    }


def _commit() -> str:
    try:
        command = ["git", "rev-parse", "--short", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"

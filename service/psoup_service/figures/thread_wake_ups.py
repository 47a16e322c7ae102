"""Wake-ups of the service's threads, by name, for the operator's metrics.

    /proc/self/task/<id>/status ── voluntary_ctxt_switches ──> psoup_thread_wake_ups_total{thread="psoup-writer"}

A thread wakes up whenever it goes on after it has waited. In an idle service that is work without need. Threads of a
pool share a name. Threads of libraries have the names that the system shows, such as `event_engine` of gRPC. The counts
come from Linux. On other systems the metric has no values.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

_TASKS = Path("/proc/self/task")
_SWITCHES = re.compile(r"^voluntary_ctxt_switches:\s*(\d+)$", re.MULTILINE)
_PLACE = re.compile(r"[_-]\d+( \(.*\))?$")
"""The end of a thread's name that tells it from other threads of its pool."""


class ThreadWakeUps(Collector):
    """The wake-ups since the start, by thread. `tasks`: the folder with a folder for each thread of this process."""

    def __init__(self, tasks: Path = _TASKS) -> None:
        self._tasks = tasks
        self._lock = threading.Lock()
        self._last: dict[int, tuple[str, int]] = {}
        """The name and the count of each thread at the last look."""
        self._ended = Counter[str]()
        """The wake-ups of threads that have ended."""

    def counts(self) -> Mapping[str, int]:
        """The wake-ups since the start, by name. O(threads); some microseconds each."""
        with self._lock:
            now = dict(self._look())
            for task, (name, count) in self._last.items():
                if task not in now or now[task][1] < count or now[task][0] != name:
                    self._ended[name] += count
            self._last = now
            totals = Counter(self._ended)
            for name, count in now.values():
                totals[name] += count
            return totals

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The counts as a metric."""
        meaning = "Times that a thread went on after it had waited, by thread; threads of a pool share a name"
        family = CounterMetricFamily("psoup_thread_wake_ups", meaning, labels=["thread"])
        for name, count in sorted(self.counts().items()):
            family.add_metric([name], count)
        yield family

    def _look(self) -> Iterator[tuple[int, tuple[str, int]]]:
        """The name and the count of each thread, by its number. Threads that end meanwhile are left out."""
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        for task in self._tasks.iterdir() if self._tasks.is_dir() else ():
            try:
                match = _SWITCHES.search((task / "status").read_text())
                name = names.get(int(task.name)) or (task / "comm").read_text().strip()
            except OSError:
                continue
            if match is not None:
                yield int(task.name), (_PLACE.sub("", name), int(match[1]))

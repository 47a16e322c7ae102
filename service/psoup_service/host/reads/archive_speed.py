"""The measured speed of evaluating tuples on disk, and the time that one invocation may take for them.

    start             20,000,000 tuples/s are assumed
    reads end         "2 columns": 31,000,000/s, "1 column, texts": 2,400,000/s ...    by kind of clause, for a minute
    expected(kind, n) n / speed: what `psoup explain` says; an invocation that expects too much is refused at once
    while reading     the speed of this very read: it is refused as soon as the time is clearly too short

A speed is forgotten after a minute, so that a read that was slow once (a cold disk, a busy machine) is tried again.
Speeds are measured by tenant, so that a slow clause of one tenant does not refuse reads of another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

START = 20_000_000.0
"""The assumed speed, in tuples a second, of a kind of clause that was not measured yet.

The real speed of a selective clause over one column is greater.
"""

_LEAST = 65_536
"""The fewest tuples of a measurement. Fewer tuples would measure the overhead more than the speed."""
_SURE_S = 0.5
"""Seconds after which a read is judged by its own speed."""
_FORGOTTEN_S = 60.0


class ArchiveSpeed:
    """Speeds by kind of clause. Any thread.

    `seconds`: the most seconds of one invocation. With 0, a read refuses to evaluate tuples on disk.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._measured: dict[str, tuple[float, float]] = {}
        """For each kind of clause, the speed in tuples a second, and the time of the measurement."""

    def of(self, tenant: str) -> TenantSpeed:
        """The speeds of a tenant's reads."""
        return TenantSpeed(self, tenant)

    def expected(self, kind: str, tuples: int) -> float:
        """The expected seconds to evaluate `tuples` tuples. O(1)."""
        with self._lock:
            return tuples / self._speed(kind)

    def start(self, kind: str, tuples: int) -> Callable[[int], float]:
        """Begin to measure. Returns a function like that which `TenantSpeed.start` returns."""
        began, evaluated = self._clock(), 0

        def advance(count: int) -> float:
            nonlocal evaluated
            with self._lock:
                evaluated += count
                took = max(self._clock() - began, 1e-6)
                enough = evaluated >= min(tuples, 8 * _LEAST) and evaluated >= _LEAST
                if enough and (took > _SURE_S or evaluated >= tuples):
                    self._remember(kind, evaluated / took)
                    return took * tuples / evaluated
            return 0.0

        return advance

    def _speed(self, kind: str) -> float:
        speed, when = self._measured.get(kind, (START, 0.0))
        return speed if when and self._clock() - when < _FORGOTTEN_S else START

    def _remember(self, kind: str, speed: float) -> None:
        self._measured[kind] = speed, self._clock()


class TenantSpeed:
    """The speeds of one tenant: the port `Archive` of its reads."""

    __slots__ = ("_all", "_tenant", "seconds")

    def __init__(self, speeds: ArchiveSpeed, tenant: str) -> None:
        self._all = speeds
        self._tenant = tenant
        self.seconds = speeds.seconds

    def expected(self, kind: str, tuples: int) -> float:
        """The expected seconds to evaluate `tuples` tuples. O(1)."""
        return self._all.expected(f"{self._tenant}: {kind}", tuples)

    def start(self, kind: str, tuples: int) -> Callable[[int], float]:
        """Begin to measure. `tuples`: the number of tuples that the read will evaluate.

        Returns a function that takes each count of tuples evaluated since its last call. It returns the expected
        seconds of the whole read; 0 while they are unknown.
        """
        return self._all.start(f"{self._tenant}: {kind}", tuples)

"""How fast tuples on disk are evaluated here, as measured; and how long one invocation may take for it.

    start             20,000,000 tuples/s are taken for granted
    reads go          "2 columns": 31,000,000/s, "1 column, texts": 2,400,000/s ...    by kind of clause, for a minute
    expected(kind, n) n / speed: what `psoup explain` says, and what an invocation is refused by beforehand
    while reading     the speed of this very read; as soon as it shows that the time will not do, it is refused

A speed is forgotten after a minute: what was slow once, with a cold disk or a busy machine, is tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

START = 20_000_000.0
"""Tuples a second that a kind is taken to have before it is measured: a selective clause over one column has more."""

_LEAST = 65_536
"""Tuples below which a measurement says more of the overhead."""
_SURE_S = 0.5
"""Seconds after which the speed of a read is taken from itself."""
_FORGOTTEN_S = 60.0


class ArchiveSpeed:
    """`seconds`: what one invocation may take; 0: only what is covered is answered. Any thread."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._measured: dict[str, tuple[float, float]] = {}
        """By kind, tuples a second, and when that was measured."""

    def expected(self, kind: str, tuples: int) -> float:
        """Seconds that `tuples` will take. O(1)."""
        with self._lock:
            return tuples / self._speed(kind)

    def start(self, kind: str, tuples: int) -> Callable[[int], float]:
        """Measure from now on. The result is told of tuples that are done; it returns the seconds for all, or 0."""
        began, done = self._clock(), 0

        def told(count: int) -> float:
            nonlocal done
            with self._lock:
                done += count
                took = max(self._clock() - began, 1e-6)
                if done >= min(tuples, 8 * _LEAST) and done >= _LEAST and (took > _SURE_S or done >= tuples):
                    self._remember(kind, done / took)
                    return took * tuples / done
            return 0.0

        return told

    def _speed(self, kind: str) -> float:
        speed, when = self._measured.get(kind, (START, 0.0))
        return speed if when and self._clock() - when < _FORGOTTEN_S else START

    def _remember(self, kind: str, speed: float) -> None:
        self._measured[kind] = speed, self._clock()

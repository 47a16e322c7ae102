"""The machine's clock, behind the engine's `Clock` protocol. It may jump; times that must not go back
come from admission.
"""

from __future__ import annotations

import time


class SystemClock:
    """Wall-clock time of this machine."""

    def now(self) -> int:
        """The time, in microseconds since 1970-01-01 00:00 UTC."""
        return time.time_ns() // 1000

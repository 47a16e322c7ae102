"""A writer that is always late, for tests that ask before what they sent is applied: they fail with it, each time.

    PSOUP_TEST_LATE=0.05 python -m pytest tests/clients

Without it such a test fails once in a hundred runs, on a machine that has much else to do.
"""

from __future__ import annotations

import os
import time

from psoup_service.host.writer import Writer

SECONDS = float(os.environ.get("PSOUP_TEST_LATE", "0"))


def be_late() -> None:
    """Let every service of this process wait for `SECONDS` before it applies what it acknowledged."""
    if not SECONDS:
        return
    apply = Writer._apply

    def late(self: Writer, *run: object) -> None:
        time.sleep(SECONDS)
        apply(self, *run)  # type: ignore[arg-type]

    Writer._apply = late  # type: ignore[method-assign]

"""The kernels of this package: they are loaded when the port for clients of PostgreSQL is opened, and not before.

A service without the port keeps its time to start. The first start with the port compiles them, for ten seconds.
"""

from __future__ import annotations

from psoup.kernel_signatures import POSTGRES, compile_listed
from psoup_service.process.late_kernels import watched


def load_kernels() -> None:
    """Load the kernels, or compile them. Takes 50 ms if they are kept from an earlier start. Call it on a thread."""
    late = watched()
    late.expected = True
    try:
        compile_listed(listed=POSTGRES)
    finally:
        late.expected = False

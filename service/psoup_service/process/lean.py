"""Work that a start leaves out, because it takes time and memory and is not needed.

pandas      `leave_out_pandas`
collector   thousands of modules are loaded, and none is garbage: `without_collector`
long turns  chunks are decoded meanwhile (`read_ahead` of a store); the decoding threads need the interpreter for
            moments, and would wait a whole turn for each: `ShortTurns`
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psoup.work.gc_pause import without_collector
from psoup_service.host.turns.interpreter import ShortTurns
from psoup_service.process.no_pandas import leave_out_pandas


@contextmanager
def lean() -> Iterator[None]:
    """A context for loading modules and making a service, without the work that a start leaves out."""
    leave_out_pandas()
    with without_collector(), ShortTurns():
        yield

"""Work that a start leaves out, because it takes time and memory and is not needed.

pandas      pyarrow imports it with the first value that it converts: 0.15 s and 32 MB where it is installed
collector   thousands of modules are loaded, and none is garbage: `without_collector`
long turns  chunks are decoded meanwhile (`read_ahead` of a store); the decoding threads need the interpreter for
            moments, and would wait a whole turn for each: `ShortTurns`
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import pyarrow as pa

from psoup.work.gc_pause import without_collector
from psoup_service.host.turns.interpreter import ShortTurns


class _NoPandas(MetaPathFinder):
    """Finds nothing, and keeps other finders from looking for pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("a service has no use for pandas", name=fullname)


def leave_out_pandas() -> None:
    """Make pyarrow believe that pandas is missing, unless it was imported; other code can still import pandas."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def lean() -> Iterator[None]:
    """A context for loading modules and making a service, without the work that a start leaves out."""
    leave_out_pandas()
    with without_collector(), ShortTurns():
        yield

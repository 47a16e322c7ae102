"""What a start does without, as it takes time and memory and nothing needs it.

pandas      pyarrow looks for it with the first value that it is given: 0.15 s and 32 MB where it is installed
collector   thousands of modules are made, and none of them goes: `without_collector`
long turns  chunks are decoded beside (`read_ahead` of a store); their threads need the interpreter for moments, and
            would wait a whole turn for each: `ShortTurns`
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import pyarrow as pa

from psoup.gc_pause import without_collector
from psoup_service.turns import ShortTurns


class _NoPandas(MetaPathFinder):
    """Finds nothing, and lets nobody else look for pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("a service has no use for pandas", name=fullname)


def leave_out_pandas() -> None:
    """Have pyarrow believe that there is none, unless it knows better; whoever asks it for pandas still gets it."""
    nobody = _NoPandas()
    sys.meta_path.insert(0, nobody)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(nobody)


@contextmanager
def lean() -> Iterator[None]:
    """In which modules are loaded, and a service is made."""
    leave_out_pandas()
    with without_collector(), ShortTurns():
        yield

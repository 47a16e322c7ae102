"""A start without pandas: pyarrow imports it with the first value that it converts, where it is installed.

That takes 0.15 s and 32 MB. This module needs pyarrow alone, as commands of clients use it too.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa


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

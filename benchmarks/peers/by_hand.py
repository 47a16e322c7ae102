"""A batch against queries of a few intervals each, as one writes it oneself: a mask for each query, kept as bits.

    NumPyPerQuery   on the stream's int64, or on the narrowest type that holds the values
    BruteForce      `brute_force.c`: the limit of the hardware, one core

Every peer has the queries prepared; none keeps results of earlier batches, or has an order, a window or an expiry.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.peers import Missing
from benchmarks.tool.workload import DOMAIN, Columns, Query

Masks = npt.NDArray[np.bool_]
"""bool[queries, n]"""


class Peer(Protocol):
    """Something that finds all matches of a batch.

    `queries`, `rows`: how many of the queries it was given, the first ones, and how many tuples it gets at a time.
    """

    name: str
    queries: int
    rows: int

    def arrive(self, columns: Columns) -> Any:
        """The matches, in the peer's own form."""
        ...

    def masks(self, columns: Columns) -> Masks:
        """The same as masks, for comparison."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class Common:
    """The common part of most peers."""

    def __init__(self, name: str, queries: Sequence[Query], rows: int, total: int | None = None) -> None:
        self.queries, self.rows = len(queries), rows
        self.name = name if total is None or total == len(queries) else f"{name}, {len(queries):,} of {total:,} queries"

    def close(self) -> None:
        """Nothing to give back."""


class NumPyPerQuery(Common):
    """A mask for each query and batch, packed to bits: the code that one writes by hand in an afternoon.

    `dtype` is the type the comparisons run on. int64 is the stream's type; uint8 is the narrowest that holds the
    values, which a general system cannot know beforehand.
    """

    def __init__(self, queries: Sequence[Query], dtype: npt.DTypeLike = np.int64, rows: int = 4_096) -> None:
        self._dtype = np.dtype(dtype)
        super().__init__(f"NumPy {self._dtype}", queries, rows)
        self._plans = [[(i.attribute, i.low, i.high) for i in query.intervals] for query in queries]

    def arrive(self, columns: Columns) -> npt.NDArray[np.uint8]:
        """uint8[queries, n/8]: the results of this batch, little-endian bits."""
        rows = columns.shape[1]
        narrow = columns.astype(self._dtype, copy=False)
        results = np.empty((len(self._plans), (rows + 7) // 8), np.uint8)
        mask, part = np.empty(rows, np.bool_), np.empty(rows, np.bool_)
        for query, plan in enumerate(self._plans):
            mask.fill(True)
            for attribute, low, high in plan:
                values = narrow[attribute]
                np.greater_equal(values, low, out=part)
                np.logical_and(mask, part, out=mask)
                np.less_equal(values, high, out=part)
                np.logical_and(mask, part, out=mask)
            results[query] = np.packbits(mask, bitorder="little")
        return results

    def masks(self, columns: Columns) -> Masks:
        return np.unpackbits(self.arrive(columns), axis=1, bitorder="little", count=columns.shape[1]).astype(np.bool_)


class BruteForce(Common):
    """`brute_force.c`: the limit of one core. Batches are multiples of 64 tuples."""

    def __init__(self, queries: Sequence[Query], rows: int = 4_096) -> None:
        super().__init__("C uint8 AVX", queries, rows)
        plans = [[(i.attribute, i.low, i.high - i.low) for i in query.intervals] for query in queries]
        longest = max(map(len, plans))
        everything = (0, 0, DOMAIN - 1)
        padded = [plan + [everything] * (longest - len(plan)) for plan in plans]
        self._plans = [np.ascontiguousarray(part, np.uint8) for part in np.moveaxis(np.array(padded), 2, 0)]
        self._function = _compiled(Path(__file__).with_name("brute_force.c")).arrive
        self._factors = longest
        self._results = np.zeros((self.queries, rows // 64), np.uint64)

    def arrive(self, columns: Columns) -> npt.NDArray[np.uint64]:
        """uint64[queries, n/64], good until the next batch"""
        rows = columns.shape[1]
        narrow = np.ascontiguousarray(columns, np.uint8)
        if self._results.shape[1] != rows // 64:  # memory that is new would be half of the time
            self._results = np.zeros((self.queries, rows // 64), np.uint64)
        results = self._results
        arrays: list[npt.NDArray[Any]] = [narrow, *self._plans, results]
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        size = ctypes.c_size_t
        self._function(pointers[0], size(rows), *pointers[1:4], size(self.queries), size(self._factors), pointers[4])
        return results

    def masks(self, columns: Columns) -> Masks:
        bits = self.arrive(columns).view(np.uint8)
        return np.unpackbits(bits, axis=1, bitorder="little").astype(np.bool_)


def _compiled(source: Path) -> Any:
    """The library that this machine's compiler makes of a file."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise Missing("C uint8 AVX", "no C compiler: install gcc or clang")
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        library = str(Path(folder, "brute_force.so"))
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", library, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing("C uint8 AVX", f"{compiler} failed: {done.stderr[-200:]}")
        return ctypes.CDLL(library)

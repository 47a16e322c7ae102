"""Pathway, a streaming engine: the queries as a table, the tuples as a stream that is joined with it.

It runs in its own process and environment (`build/pathway`, made by `make bench-setup`), because it needs different
versions of libraries. So it does not take turns with other peers. It counts the matches and keeps none.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.peers import Missing
from benchmarks.tool.measure import Sample

Integers = npt.NDArray[np.int64]
NAME = "Pathway, counts alone"
JOIN = "benchmarks.peers.pathway_join"
LOOKUP = "benchmarks.peers.pathway_lookup"
STATE = "benchmarks.peers.pathway_state"
ROOT = Path(__file__).parents[2]
INTERPRETER = ROOT / "build" / "pathway" / "bin" / "python"
SECONDS = 240


def rate(bounds: Integers, tuples: Integers, batch: int, expected: Integers, *, equal: bool) -> Sample:
    """Tuples a second over the batches but the first, which loads the queries.

    `bounds`: int64[Q, p], low and high (exclusive) for each row of `tuples`. With `equal` the first row is joined by
    equality and has one column. `expected`: int64[n], how many queries each tuple matches. Raises Missing.
    """
    result = _run(JOIN, bounds=bounds, tuples=tuples, batch=batch, equal=equal)
    counts = expected.reshape(-1, batch).sum(axis=1).tolist()
    if result["matches"] != counts:
        raise AssertionError(f"{NAME}: {result['matches']} matches, NumPy has {counts}")
    return Sample.of([batch / spent for spent in result["seconds"][1:]])


def band(tuples: Integers, batch: int, near: int, expected: int) -> Sample:
    """Seconds that its interval join takes for all tuples (int64[2, n]: which of two streams, and the time).

    After one batch of warm-up, whose pairs are not among the `expected` ones. Raises Missing.
    """
    padding = np.zeros((2, batch), np.int64)  # a pair, as each batch has to have one, and tuples without partners
    padding[0, 1], padding[1] = 1, -(10**12)
    padding[1, 2:] -= np.arange(1, batch - 1) * 10 * near
    result = _run(JOIN, tuples=np.concatenate([padding, tuples], axis=1), batch=batch, near=near, equal=False)
    total = sum(result["matches"][1:])
    if total != expected:
        raise AssertionError(f"Pathway's interval join: {total} pairs, NumPy has {expected}")
    return Sample.of([sum(result["seconds"][1:])])


def lookup(table: Integers, tuples: Integers, batch: int, below: int, expected: Sequence[int]) -> Sample:
    """Tuples a second of a look-up, over the batches but the first, which loads the table.

    `table`: int64[2, keys], keys and values. `tuples`: int64[2, n], keys and values. Those with a value less than
    `below` are looked up. `expected`: for each batch the sum of what it finds. Raises Missing.
    """
    result = _run(LOOKUP, table=table, tuples=tuples, batch=batch, below=below)
    if result["sums"] != list(expected):
        raise AssertionError(f"Pathway's look-up: {result['sums']}, NumPy has {list(expected)}")
    return Sample.of([batch / spent for spent in result["seconds"][1:]])


def distinct(values: Integers, batch: int, sizes: Sequence[int]) -> Sample:
    """Tuples a second of the distinct values, over the batches but the first. `sizes`: their number after each batch.

    `values`: int64[n]. Raises Missing.
    """
    return _sized(values, batch, 0, sizes)


def absent(values: Integers, batch: int, band: int, sizes: Sequence[int]) -> Sample:
    """Tuples a second of the even tuples without an odd one of their value, up to `band` places before them.

    As `distinct`.
    """
    return _sized(values, batch, band, sizes)


def _sized(values: Integers, batch: int, band: int, sizes: Sequence[int]) -> Sample:
    result = _run(STATE, values=values, batch=batch, band=band)
    if result["sizes"] != list(sizes):
        raise AssertionError(f"Pathway: {result['sizes']} rows, NumPy has {list(sizes)}")
    return Sample.of([batch / spent for spent in result["seconds"][1:]])


def _run(module: str, **work: Integers | int | bool) -> dict[str, list[float]]:
    """The output of a module that Pathway's interpreter runs. `work`: its arrays and numbers. Raises Missing."""
    interpreter = os.environ.get("PSOUP_BENCH_PATHWAY") or INTERPRETER
    if not Path(interpreter).exists():
        raise Missing("Pathway", "make bench-setup")
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        path = str(Path(folder, "work.npz"))
        np.savez(path, **work)  # type: ignore[arg-type]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # for `benchmarks.peers`, and nothing of PSoup
        command = [str(interpreter), "-P", "-m", module, path]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=SECONDS, env=environment, cwd=folder
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise Missing("Pathway", f"it failed: {(error.stderr or str(error))[-200:]!s}") from error
    result: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return result

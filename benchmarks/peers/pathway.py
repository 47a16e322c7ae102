"""Pathway, a streaming engine: the queries as a table, the tuples as a stream that is joined with it.

It runs in a process and an environment of its own (`build/pathway`, made by `make bench-setup`), for it wants other
versions of what PSoup uses; so it does not take turns with the others. It counts the matches and keeps none.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.measure import Sample
from benchmarks.peers import Missing

Integers = npt.NDArray[np.int64]
NAME = "Pathway, counts alone"
SCRIPT = Path(__file__).with_name("pathway_join.py")
INTERPRETER = Path(__file__).parents[2] / "build" / "pathway" / "bin" / "python"
SECONDS = 240


def rate(bounds: Integers, tuples: Integers, batch: int, expected: Integers, *, equal: bool) -> Sample:
    """Tuples a second over the batches but the first, which loads the queries.

    `bounds`: int64[Q, p], low and high (exclusive) for each row of `tuples`; with `equal` the first row is joined by
    equality and has one column. `expected`: int64[n], how many queries each tuple matches. Raises Missing.
    """
    interpreter = os.environ.get("PSOUP_BENCH_PATHWAY") or INTERPRETER
    if not Path(interpreter).exists():
        raise Missing("Pathway", "make bench-setup")
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        work = str(Path(folder, "work.npz"))
        np.savez(work, bounds=bounds, tuples=tuples, batch=batch, equal=equal)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [str(interpreter), "-P", str(SCRIPT), work]  # without -P this file would be its `pathway`
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=SECONDS, env=environment, cwd=folder
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise Missing("Pathway", f"it failed: {(error.stderr or str(error))[-200:]!s}") from error
    result = json.loads(done.stdout.splitlines()[-1])
    counts = expected.reshape(-1, batch).sum(axis=1).tolist()
    if result["matches"] != counts:
        raise AssertionError(f"{NAME}: {result['matches']} matches, NumPy has {counts}")
    return Sample.of([batch / spent for spent in result["seconds"][1:]])

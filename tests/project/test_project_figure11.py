"""The emulated probes of PSoup's Figure 11, with and without composite tuples, find the recomputed pairs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.reproduce.psoup_2002.figure11 import CONSTANT, WORKLOADS, _composite, _separate

OPERATORS = {"=": np.equal, ">": np.greater, "<": np.less}


@pytest.mark.parametrize("way", [_separate, _composite])
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("tuples", [0, 1, 90])
def test_probes_find_the_recomputed_pairs(way: object, workload: str, tuples: int) -> None:
    second, third = WORKLOADS[workload]
    rng = np.random.default_rng(tuples)
    a, b = rng.integers(CONSTANT - 9, CONSTANT + 9, (2, 100))
    b = b[:tuples]
    index = np.argsort(b, kind="stable")
    out = np.empty((2, 100 * 100), np.int64)
    count = way(a, b[index], index, second == "=", third == "=", out)  # type: ignore[operator]
    wanted = OPERATORS[second](a[:, None], b) & OPERATORS[third](b, CONSTANT)
    pairs = list(zip(*out[:, :count].tolist(), strict=True))
    assert len(set(pairs)) == count
    assert set(pairs) == set(zip(*(places.tolist() for places in np.nonzero(wanted)), strict=True))
    assert count or tuples < 2

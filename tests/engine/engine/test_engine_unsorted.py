"""On arrival, when a chunk is sealed, when it is covered, and when a query is invoked nothing is sorted by comparison.

What is to be put in order there are whole numbers of a known range, and most come in order: what a comparison sort
takes for them depends on the processor, 3 ns a number or 67.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import psoup.kernels
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.oracles.questions import again

FEW = 64
"""Elements from which on a sort counts: what follows the number of attributes or of chunks is not meant."""

SORTS = (
    *((np, name) for name in ("sort", "argsort", "lexsort", "unique", "partition", "argpartition", "isin", "in1d")),
    *((np, name) for name in ("union1d", "intersect1d", "setdiff1d")),
    *((pc, name) for name in ("sort_indices", "array_sort_indices", "unique", "rank")),
)
ROWS, START = 4_096, 1_700_000_000_000_000


@contextmanager
def counted(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Which sorts were called with more than FEW elements meanwhile."""
    found: list[str] = []

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(values: Any, *rest: Any, **more: Any) -> Any:
            if len(values) > FEW:
                found.append(f"{name} of {len(values)}")
            return real(values, *rest, **more)

        return call

    with patch.context() as patched:
        for module, name in SORTS:
            if hasattr(module, name):
                patched.setattr(module, name, watched(name, getattr(module, name)))
        yield found


def loaded() -> LocalPSoup:
    """Queries that are reached by a value, by a range, and looked at one by one; chunks of four batches."""
    soup = LocalPSoup(EngineConfig(chunk_rows=4 * ROWS), clock=VirtualClock(START + 10**10))
    soup.execute("CREATE STREAM s (k BIGINT, a BIGINT, at TIMESTAMP) TIMESTAMP BY at LATENESS 1 HOUR")
    soup.register_many("SELECT k FROM s WHERE k = ? AND a >= ?", [(n % 500, n % 90) for n in range(3_000)])
    soup.register_many("SELECT k FROM s WHERE a >= ? AND a < ?", [(n % 80, n % 80 + 3 + n % 60) for n in range(900)])
    soup.maintain()
    return soup


def batch(number: int) -> pa.Table:
    """Tuples out of order, by up to some minutes."""
    random = np.random.default_rng(number)
    times = START + number * 10**9 + random.integers(0, 10**8, ROWS)
    columns = {"k": random.integers(0, 500, ROWS), "a": random.integers(0, 100, ROWS)}
    return pa.table(columns | {"at": pa.array(times, pa.timestamp("us"))})


def test_arrival_sealing_cover_and_invocation_sort_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = loaded()
    query = soup.register("SELECT k, a FROM s WHERE k = 7 AND a >= 10 BEGIN (START)")
    with counted(monkeypatch) as sorts:
        for number in range(10):
            soup.push("s", batch(number))
        assert sorts == [], "arrival"
        assert len(again(soup.invoke, query).to_table()) > 0
        assert sorts == [], "invocation from open results"
    assert "seal" in maintained(soup, monkeypatch)
    with counted(monkeypatch) as sorts:
        assert len(again(soup.invoke, query).to_table()) > 0
        assert sorts == [], "invocation from sealed results"
    soup.register_many("SELECT a FROM s WHERE k = ? AND a < ?", [(n % 500, 40 + n % 55) for n in range(2_000)])
    assert "cover" in maintained(soup, monkeypatch)


def maintained(soup: LocalPSoup, patch: pytest.MonkeyPatch) -> set[str]:
    """Do all maintenance; which kinds there were. Only a new index puts anything in order: its constants, once."""
    names = set()
    while (task := soup.engine.maintenance()) is not None:
        with counted(patch) as sorts:
            done = task.compute()
        names.add(task.name)
        assert sorts == [] or task.name == "merge", (task.name, sorts)
        soup.engine.install(done)
    return names


def test_sorts_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as sorts:
        np.sort(np.arange(65))
        np.unique(np.arange(64))
    assert sorts == ["sort of 65"]


def test_kernels_and_what_calls_them_sort_by_no_method() -> None:
    """`array.sort()` cannot be watched: it is looked for in the text of what runs on these paths."""
    engine = Path(psoup.kernels.__file__).parent.parent
    files = [path for path in (engine / "kernels").glob("*/*.py") if path.stem not in ("range_pairs", "segments")]
    # but for joins and rankings, when they are asked for
    files += [path for path in (engine / "results").glob("*.py") if path.stem != "gaps"]
    files += [engine / "matching" / f"{name}.py" for name in ("new_tuples", "shard", "emission")]
    files += [engine / "data" / f"{name}.py" for name in ("data_stem", "chunk", "values")]
    for path in files:
        text = path.read_text()
        if not re.search(r"\.\s*(sort|argsort|lexsort|unique)\b", text):
            continue
        tree = ast.parse(text)
        checks = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "check"]
        for node in checks:  # invariants may be looked at in any way
            node.body = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("sort", "argsort", "lexsort", "unique"), f"{path}:{node.lineno}"

"""Folds of a reader are charged before they are made; where they do not fit, the window is read tuple by tuple."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from psoup.aggregates import stored_folds
from psoup.aggregates.recipes import Fold
from psoup.answer.invoke import invoke
from psoup.config import EngineConfig, Shape
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.fold_rows import Folder
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.restarts import RestartingPSoup

GROUPS = (
    "SELECT repeat('k', 500) || (x % 16) AS k, count(*) AS n, sum(x) AS s FROM t WHERE x >= 0"
    " GROUP BY repeat('k', 500) || (x % 16) BEGIN (START)"
)
PLAIN = "SELECT count(*) AS n, sum(x) AS s FROM t WHERE x >= 0 BEGIN (START)"
KIB, MIB = 1 << 10, 1 << 20


class Bytes:
    """Bytes that all reads share."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    def take(self, size: int) -> bool:
        """Take bytes, if they fit."""
        fits = self.used + size <= self.limit
        self.used += size if fits else 0
        return fits

    def give_back(self, size: int) -> None:
        """Return bytes."""
        self.used -= size


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    config = EngineConfig(chunk_rows=64, shape=Shape(fold_fan=2))
    made = RestartingPSoup(config, VirtualClock(0), tmp_path / "data")
    made.execute("CREATE STREAM t (x BIGINT) RETENTION 1 MINUTE ARCHIVE 9 DAYS")
    made.ahead = SimpleNamespace(step=lambda snapshot: 0)  # type: ignore[assignment]
    yield made
    made.store.close()


def fill(soup: RestartingPSoup, first: int, stop: int) -> None:
    for start in range(first, stop, 64):
        soup.push("t", pa.table({"x": pa.array(range(start, start + 64), pa.int64())}))
        soup.maintain()


def ask(soup: RestartingPSoup, query: int, budget: ReadBudget) -> list[dict[str, Any]]:
    found = invoke(soup.engine.snapshot(), query, tenant=soup.tenant, now=soup.clock.now(), budget=budget)
    rows = list(found.to_table().to_pylist())
    budget.close()
    return rows


def expected(count: int) -> list[tuple[int, int]]:
    return [(len(range(k, count, 16)), sum(range(k, count, 16))) for k in range(16)]


def values(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["n"], row["s"]) for row in sorted(rows, key=lambda row: int(row["k"].lstrip("k")))]


def test_a_fold_of_a_reader_is_charged_before_it_is_made(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = soup.register(GROUPS)
    fill(soup, 0, 1_024)
    budgets, left, sizes = list[ReadBudget](), list[int](), list[int]()
    real = Folder.folded

    def folded(folder: Folder, matched: int, errors: int) -> Fold:
        fold = real(folder, matched, errors)
        left.append(budgets[-1].grouped - folder.nbytes - fold.nbytes)
        sizes.append(fold.nbytes)
        return fold

    monkeypatch.setattr(Folder, "folded", folded)
    for _ in range(3):
        budgets.append(ReadBudget(sort_bytes=MIB))
        assert values(ask(soup, query, budgets[-1])) == expected(1_024)
        assert budgets[-1].grouped == 0, "all is given back"
    assert left and min(left) >= 0, "the fold and the groups that it is copied from"
    assert max(left) - sum(sizes) < KIB, "earlier folds, and a bound that is near"


def test_a_fold_on_disk_is_charged_before_it_is_read(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    query = soup.register(PLAIN)
    fill(soup, 0, 1_024)
    for _ in range(2):
        ask(soup, query, ReadBudget(sort_bytes=MIB))
    soup.clock.advance(seconds=120)
    fill(soup, 1_024, 1_152)
    ask(soup, query, ReadBudget(sort_bytes=MIB))
    soup.restart()
    budget, found = ReadBudget(sort_bytes=MIB), list[tuple[int, int]]()
    real = stored_folds.decoded

    def decoded(recipe: Any, content: bytes) -> Fold:
        found.append((budget.grouped, 2 * len(content)))
        return real(recipe, content)

    monkeypatch.setattr(stored_folds, "decoded", decoded)
    (row,) = ask(soup, query, budget)
    assert row == {"n": 1_152, "s": sum(range(1_152))}
    assert found and all(held >= size for held, size in found)
    assert budget.grouped == 0


def test_folds_that_do_not_fit_are_left_and_the_answer_is_given(soup: RestartingPSoup) -> None:
    query = soup.register(GROUPS)
    fill(soup, 0, 512)
    first = ReadBudget(sort_bytes=MIB)
    assert values(ask(soup, query, first)) == expected(512), "tuple by tuple: the first read notes the clause"
    for _ in range(3):
        assert values(ask(soup, query, ReadBudget(sort_bytes=first.wanted))) == expected(512)
    with pytest.raises(ResourceExhausted) as refused:
        ask(soup, query, ReadBudget(sort_bytes=first.wanted // 2))
    assert refused.value.facts["budget"] == "group_bytes"


def test_folds_come_back_when_the_shared_bytes_are_free_again(soup: RestartingPSoup) -> None:
    query = soup.register(GROUPS)
    fill(soup, 0, 512)
    first = ReadBudget(sort_bytes=MIB)
    ask(soup, query, first)
    folds = soup.engine.snapshot().by_id[1].folds
    for limit in (first.wanted, 2 * MIB):
        assert folds.spans == 0, "the other reads hold too much for folds"
        rows = ask(soup, query, ReadBudget(sort_bytes=MIB, shared=Bytes(limit)))
        assert values(rows) == expected(512)
    assert folds.spans > 0


def test_explain_decodes_no_fold_on_disk(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    query = soup.register(PLAIN)
    fill(soup, 0, 1_024)
    for _ in range(2):
        ask(soup, query, ReadBudget(sort_bytes=MIB))
    soup.clock.advance(seconds=120)
    fill(soup, 1_024, 1_152)
    ask(soup, query, ReadBudget(sort_bytes=MIB))
    soup.restart()
    monkeypatch.setattr(stored_folds, "decoded", None)
    assert "tuples of these are folded, and not read again" in "\n".join(soup.explain(query).lines())

"""Middles of windows: what is between two steps is folded once, and only the tails of a window are read after that."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.aggregates.folds import Folds
from psoup.errors import Corrupt
from psoup.execution.aggregate.window_case import Middle, middle_of
from psoup.execution.ways import WINDOW
from psoup.local import LocalPSoup
from psoup_testing.engines.fold_reuse import folding
from psoup_testing.oracles.ways import only
from psoup_testing.suite.sweeps import swept

ORDERED = "first(n) AS f, last(n) AS l, sum(n) AS s, count(*) AS c, min(x) AS z"


def _soup(rows: int, measures: str = ORDERED, window: str = "") -> tuple[LocalPSoup, int]:
    soup = folding(2)
    query = soup.register(f"SELECT {measures} FROM t WHERE n >= 0 {window}")
    _push(soup, range(rows))
    soup.maintain()
    return soup, query


def _push(soup: LocalPSoup, numbers: range) -> None:
    soup.push("t", pa.table({"n": list(numbers), "x": [0.0 * (-1) ** n for n in numbers], "s": [""] * len(numbers)}))


def _folds(soup: LocalPSoup) -> Folds:
    ((_, _, folds),) = soup.engine.snapshot().stream("t", "default").folds.kept()
    return folds


def _expected(low: int, high: int) -> list[dict[str, object]]:
    numbers = range(low, high)
    return [{"f": low, "l": high - 1, "s": sum(numbers), "c": len(numbers), "z": 0.0 * (-1) ** low}]


@pytest.mark.parametrize(("low", "high"), [(0, 8), (1, 7), (4, 8), (5, 8), (-9, -3), (-8, -4), (3, 4), (5, 7)])
def test_a_middle_is_within_its_window(low: int, high: int) -> None:
    steps = [at for at in range(-12, 13, 4) if low <= at <= high]
    expected = Middle(steps[0], steps[-1]) if len(steps) > 1 else None
    assert middle_of(low, high, 64) == expected


@pytest.mark.seeded("both tails of a window lie in one chunk, and come before its middle")
@pytest.mark.seeded("the tail behind a middle is lost when the middle is folded")
@pytest.mark.parametrize("size", swept([10, 50, 130, 500], fast=(2,)))
def test_windows_that_move_by_a_tuple_have_the_rows_they_should(size: int) -> None:
    """Both tails in one chunk, in two, none; the middle in an open chunk, in closed ones; values in their order."""
    soup, query = _soup(600, window=f"BEGIN (NOW - {size} ROWS)")
    kept = set[object]()
    for rows in range(600, 700):
        for _ in range(3):
            assert soup.invoke(query).to_table().to_pylist() == _expected(rows - size, rows), rows
        kept |= {ids for ids, fold in _folds(soup).middles.items() if fold is not None}
        _push(soup, range(rows, rows + 1))
    assert len(kept) >= 25
    soup.check()


@pytest.mark.parametrize(("size", "stop"), swept([(113, 199), (50, 349), (100, 349), (113, 349)], fast=1))
def test_chunks_that_end_between_two_steps_are_counted_once(size: int, stop: int) -> None:
    soup, query = _soup(49, window=f"BEGIN (NOW - {size} ROWS)")
    for number, rows in enumerate(range(49, stop, 50)):
        soup.execute(f"ALTER STREAM t ADD COLUMN y{number} BIGINT")
        for row in range(rows, rows + 50):
            _push(soup, range(row, row + 1))
            for _ in range(3):
                assert soup.invoke(query).to_table().to_pylist() == _expected(max(row + 1 - size, 0), row + 1), row
    soup.check()


@pytest.mark.long
@pytest.mark.seeded("folds of the two ends come in another order than their tuples")
@pytest.mark.parametrize(
    "shown",
    [
        "n % 2 AS k, count(*) AS c, first(n) AS f, last(n) AS l, sum(x) AS s {} GROUP BY k HAVING count(*) > 3",
        "s AS k, count(*) AS c, max(n) AS f {} GROUP BY s",
        "count(*) FILTER (WHERE n % 3 = 0) AS c, sum(n * 2) AS s, first(x + 1) AS f {}",
    ],
)
def test_groups_and_expressions_have_middles_too(shown: str) -> None:
    """They are what they are without folds; matches are offsets, also of what matches rarely."""
    sides = [folding(2), folding(1)]
    wheres = ("n >= 0", "n % 7 = 0", "n < 650")
    texts = [f"SELECT {shown.format(f'FROM t WHERE {where}')} BEGIN (NOW - 301 ROWS)" for where in wheres]
    for soup in sides:
        for text in texts:
            soup.register(text)
        _push(soup, range(600))
        soup.maintain()
    kept = 0
    for rows in range(600, 640):
        for query in range(1, len(texts) + 1):
            whole, *parts = [soup.invoke(query).to_table().to_pylist() for soup in (sides[1], *[sides[0]] * 3)]
            assert parts == [whole] * 3, (rows, texts[query - 1])
        for soup in sides:
            _push(soup, range(rows, rows + 1))
        every = sides[0].engine.snapshot().stream("t", "default").folds.kept()
        kept += sum(fold is not None for *_, folds in every for fold in folds.middles.values())
    assert kept > 60
    sides[0].check()


def test_ends_with_few_rows_for_each_group_are_read() -> None:
    soup = folding(2)
    query = soup.register("SELECT n % 30 AS k, count(*) AS c FROM t GROUP BY k BEGIN (NOW - 601 ROWS)")
    _push(soup, range(690))
    for _ in range(5):
        assert len(soup.invoke(query).to_table()) == 30
    assert list(_folds(soup).middles.values()) == [None]


def test_the_tails_alone_are_read_of_a_middle_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    soup, query = _soup(690, window="BEGIN (NOW - 501 ROWS)")
    for _ in range(4):
        soup.invoke(query).to_table()
    with monkeypatch.context() as patched:
        only(patched, WINDOW, "window_middle")
        answer = soup.invoke(query)
        assert answer.to_table().to_pylist() == _expected(189, 690)
    assert [(match.start, match.stop) for match in answer._reading.matches[0]] == [(61, 64), (48, 50)]  # type: ignore[union-attr]
    assert answer.matched == 501


def test_a_middle_that_was_needed_once_is_not_folded() -> None:
    soup, query = _soup(690)
    for _ in range(3):
        soup.invoke(query).to_table()
    for end in range(100, 160, 10):
        soup.invoke(query, window=f"BEGIN (START) END (NOW - {end} ROWS)").to_table()
    middles = _folds(soup).middles
    assert len(middles) == 4
    assert not any(middles.values())


def test_tuples_that_are_evaluated_row_by_row_have_no_middle() -> None:
    """What is not known as bits is read as before: of clauses that match rarely, and after results were given up."""
    soup, query = _soup(690, window="BEGIN (NOW - 501 ROWS)")
    rare = soup.register(f"SELECT {ORDERED} FROM t WHERE n % 20 = 0 BEGIN (NOW - 501 ROWS)")
    soup.maintain()
    for _ in range(4):
        assert soup.invoke(query).to_table().to_pylist() == _expected(189, 690)
        assert soup.invoke(rare).to_table()["c"].to_pylist() == [25]
    soup.check()


def test_a_middle_that_is_wrong_is_found() -> None:
    soup, query = _soup(690)
    for _ in range(4):
        soup.invoke(query).to_table()
    folds = _folds(soup)
    ((ids, fold),) = folds.middles.items()
    assert fold is not None
    folds.middles[ids] = folds.recipe.joined([fold, fold])
    with pytest.raises(Corrupt, match="not that of its chunks"):
        soup.check()

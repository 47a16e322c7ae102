"""Folding ahead within budgets: a fold that needs too much is refused, remembered, shown, and tried again in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from psoup.aggregates.refusals import FoldRefusal, FoldRefusals
from psoup.answer.explain.explain import explain
from psoup.config import EngineConfig, Shape
from psoup.execution.ahead import attempts, folds_ahead
from psoup.execution.ahead.attempts import Lent, Work
from psoup.execution.ahead.folds_ahead import FoldingAhead
from psoup.execution.many.many_folds import folds_of
from psoup.model import DEFAULT_TENANT, SECOND
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import NO_LIMIT, ReadBudget
from psoup_testing.engines.past import rows
from psoup_testing.engines.restarts import RestartingPSoup

MIB = 1 << 20
CREATE = "CREATE STREAM s (t TIMESTAMP, x BIGINT, w TEXT) TIMESTAMP BY t RETENTION 1 HOUR ARCHIVE 9 DAYS"
PLAIN = "SELECT count(*) AS n, sum(x) AS total FROM s WHERE x % 2 = 0 BEGIN (START)"
WIDE = "SELECT count(*) AS n FROM s WHERE x >= 0 GROUP BY repeat('k', 100000) || (x % 8) BEGIN (START)"
"""Eight keys of 100,000 bytes in each chunk of 64 tuples."""


class Means(Lent):
    """Means of a test: what was begun, and what was refused. `left_out`: queries that have ended processes."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.begun = list[int]()
        self.told = list[tuple[int, str]]()
        self.held = 0
        self.left_out = set[int]()
        self.noted = False

    @contextmanager
    def budget(self, tenant: str, most: int) -> Iterator[ReadBudget]:
        with super().budget(tenant, most) as budget:
            yield budget
            self.held = max(self.held, budget.wanted)

    def begin(self, work: Work) -> bool:
        if work.query_id in self.left_out:
            return False
        self.begun.append(work.query_id)
        self.noted = True
        return True

    def end(self) -> None:
        self.noted = False

    def refused(self, work: Work, why: str) -> None:
        self.told.append((work.query_id, why))


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    config = EngineConfig(chunk_rows=64, shape=Shape(fold_fan=2))
    made = RestartingPSoup(config, VirtualClock(3_000 * SECOND), tmp_path / "data")
    made.execute(CREATE)
    yield made
    made.check()
    made.store.close()


def lend(soup: RestartingPSoup, most: int) -> Means:
    means = Means(most)
    soup.ahead = FoldingAhead(means)
    return means


def push(soup: RestartingPSoup, first: int, stop: int) -> None:
    for start in range(first, stop, 50):
        soup.push("s", rows(start, start + 50))
        soup.maintain()


def spans(soup: RestartingPSoup) -> int:
    return soup.engine.snapshot().by_id[1].folds.spans


def explained(soup: RestartingPSoup, query: int) -> str:
    now = soup.clock.now()
    return "\n".join(explain(soup.engine.snapshot(), query, tenant=DEFAULT_TENANT, now=now).lines())


def answer(soup: RestartingPSoup, query: int) -> list[dict[str, Any]]:
    return list(soup.invoke(query).to_table().to_pylist())


def test_a_fold_that_needs_too_much_is_refused_once_and_others_are_made(soup: RestartingPSoup) -> None:
    wide, plain = soup.register(WIDE), soup.register(PLAIN)
    means = lend(soup, MIB)
    push(soup, 0, 300)
    ((query, why),) = means.told
    assert query == wide and "and 1,048,576 were free for it" in why
    assert means.begun.count(wide) == 1, "not again with each chunk"
    assert spans(soup) == 4, "each closed chunk of the other query"
    assert f"not folded ahead: {why}" in explained(soup, wide) and "not folded ahead" not in explained(soup, plain)
    assert [row["n"] for row in answer(soup, wide)] == [len(range(k, 300, 8)) for k in range(8)]
    soup.restart()
    again = lend(soup, MIB)
    push(soup, 300, 400)
    assert again.begun.count(wide) == len(again.told) == 1, "a start tries once more"


def test_twice_the_room_is_reason_to_try_again_and_lost_chunks_are_folded(soup: RestartingPSoup) -> None:
    wide = soup.register(WIDE)
    means = lend(soup, MIB)
    push(soup, 0, 300)
    view = soup.engine.snapshot().by_id[1]
    (clause,) = [*view.folds.refusals._known]
    refusal = view.folds.refusals.of(clause)
    assert refusal is not None and refusal.since == 0 and MIB < refusal.wanted < 3 * MIB
    means.limit = 2 * refusal.wanted - 1
    soup.maintain()
    assert means.begun == [wide]
    means.limit = 16 * MIB
    soup.maintain()
    assert means.begun == [wide] * 5 and not len(view.folds.refusals), "the four chunks that are closed"
    assert MIB < means.held <= 16 * MIB
    assert "not folded ahead" not in explained(soup, wide)
    soup.unregister(wide)
    means.limit = MIB
    wide = soup.register(WIDE.replace("x >= 0", "x >= 1"))
    push(soup, 300, 400)
    assert len(view.folds.refusals) == 1
    soup.unregister(wide)
    soup.register(PLAIN)
    soup.maintain()
    assert not len(view.folds.refusals), "of a query that is gone"


def test_a_refusal_ends_with_the_definition_of_its_stream(soup: RestartingPSoup) -> None:
    wide = soup.register(WIDE)
    means = lend(soup, MIB)
    push(soup, 0, 300)
    assert means.begun == [wide]
    soup.execute("ALTER STREAM s ADD COLUMN z BIGINT")
    soup.maintain()
    assert means.begun == [wide, wide]


def test_no_memory_ends_one_fold_and_no_other(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    deadly, plain = soup.register(PLAIN.replace("2", "3")), soup.register(PLAIN)
    means, real = lend(soup, MIB), folds_ahead.fold_of

    def fold_of(node: Any, matches: Any, *rest: Any, **more: Any) -> Any:
        if means.begun[-1] == deadly:
            raise MemoryError
        return real(node, matches, *rest, **more)

    monkeypatch.setattr(folds_ahead, "fold_of", fold_of)
    push(soup, 0, 300)
    assert means.told == [(deadly, "there was no memory for it")]
    assert means.begun == [deadly, *[plain] * 4] and not means.noted


def test_what_ended_processes_is_left_out_and_told(soup: RestartingPSoup) -> None:
    deadly = soup.register(PLAIN)
    means = lend(soup, MIB)
    means.left_out = {deadly}
    push(soup, 0, 300)
    assert means.told == [(deadly, attempts._LEFT_OUT)] and not means.begun and not spans(soup)
    assert f"not folded ahead: {attempts._LEFT_OUT}" in explained(soup, deadly)


@pytest.mark.long
def test_packs_have_a_budget_and_are_tried_again(soup: RestartingPSoup) -> None:
    statement = "SELECT max(repeat('m', 100000) || x) AS m FROM s WHERE x % 16 = ? BEGIN (START)"
    block = soup.register_many(statement, [[k] for k in range(16)])
    means = lend(soup, 64 * MIB)
    push(soup, 0, 100)
    snapshot = soup.engine.snapshot()
    packs, folds = snapshot.by_id[1].packs, folds_of(snapshot.query(block[0], DEFAULT_TENANT).query.plan)
    assert folds is not None
    packs.known(1, folds.node.measures)  # as if they had been asked for as a table
    soup.maintain()
    before = packs.spans
    assert before == 1
    means.limit = MIB
    push(soup, 100, 300)
    assert len(packs.refusals) == 1 and "it needs at least" in dict(means.told)[block[0]]
    assert packs.spans == before
    assert f"not folded ahead: {dict(means.told)[block[0]]}" in explained(soup, block[0])
    means.limit = 64 * MIB
    soup.maintain()
    ((_, own),) = packs.kept()
    assert not len(packs.refusals) and list(own.spans) == [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1), (2, 0)]
    texts = [max(f"{x}" for x in range(300) if x % 16 == k) for k in range(16)]
    assert [row["m"].strip("m") for row in soup.invoke_table([*block]).to_table().to_pylist()] == texts


def test_a_refusal_grows_and_ends() -> None:
    refusals = FoldRefusals()
    refusals.note("a", FoldRefusal("first", 100, "spec", 7))
    refusals.note("a", FoldRefusal("second", 50, "spec", 9))
    assert refusals.of("a") == FoldRefusal("second", 100, "spec", 7)
    refusals.note("a", FoldRefusal("third", 50, "altered", 9))
    assert refusals.of("a") == FoldRefusal("third", 50, "altered", 9)
    never = FoldRefusal("time", NO_LIMIT, "spec", 0)
    assert not never.is_over("spec", NO_LIMIT) and never.is_over("altered", 0)
    refusals.keep({"b"})
    assert not len(refusals)

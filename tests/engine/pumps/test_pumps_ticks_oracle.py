"""The rows of streams derived with EVERY: DuckDB gives the answer at each tick. All random histories.

The rows and their IDs do not depend on the steps in which a pump makes them, nor on restarts. They are the same if a
pump evaluates all answers, and if it follows the changes where it can.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.pumps import Pumps, form, pump, ticks
from psoup.work.clock import VirtualClock
from psoup_testing.histories.ticked_derivations import END, TickHistory, close_all, push_all
from psoup_testing.oracles.answers_at_ticks import TickOracle, in_any_order, rows_of
from psoup_testing.suite.sweeps import swept

HISTORIES, STREAMS_EACH = 20, 3
"""The histories, and the derived streams of each."""
CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)


Begins = dict[str, int | None]
"""The position of each derived stream after its CREATE. None if nothing was derived then."""


def derived(history: TickHistory, *, restarts: bool) -> tuple[LocalPSoup, Begins]:
    """The streams of a history. `restarts`: with pumps that are forgotten at some positions."""
    begins = Begins()
    soup = LocalPSoup(CONFIG, VirtualClock(END))
    for statement in history.creates:
        soup.execute(statement)
    for number, (name, table) in enumerate(history.pushes):
        if number == history.before:
            for each in history.derived:
                soup.execute(each.statement)
                view = soup.engine.snapshot().stream(each.name, soup.tenant)
                begins[each.name] = view.watermark if each.statement.endswith("NOW") else None
        soup.push(name, table, refused="count")
        if number % 5 == 4:
            soup.maintain()
        if restarts and number in history.restarts:
            soup._pumps = Pumps()
    close_all(soup)
    soup.check()
    return soup, begins


def everything(history: TickHistory) -> LocalPSoup:
    """A service with the same tuples, which keeps all of them."""
    soup = LocalPSoup(CONFIG, VirtualClock(END))
    for statement in history.creates:
        soup.execute(statement.partition(" RETENTION")[0])
    push_all(soup, history.pushes)
    close_all(soup)
    return soup


def compare(seed: int) -> None:
    """Compare the streams of a history with DuckDB, and with the streams of pumps with small steps and restarts."""
    history = TickHistory(seed, STREAMS_EACH)
    with patch.object(form, "FOLLOWED", 10**6):
        (soup, begins), oracle = derived(history, restarts=False), TickOracle(everything(history), history)
    with (
        patch.object(form, "FOLLOWED", -1),
        patch.object(pump, "MOST_TUPLES", 2),
        patch.object(pump, "MOST_BYTES", 300),
        patch.object(ticks, "MOST_READ", 50),
    ):
        in_small_steps, _ = derived(history, restarts=True)
    for each in history.derived:
        rows = rows_of(soup, each.name)
        assert in_any_order(rows) == in_any_order(oracle.pushed(each, begins[each.name])), each.statement
        assert rows_of(in_small_steps, each.name) == rows, each.statement


@pytest.mark.parametrize("seed", swept(range(HISTORIES), fast=2))
def test_each_tick_has_the_difference_of_two_answers(seed: int) -> None:
    compare(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 1_200))
def test_each_tick_of_many_more_streams_has_the_difference_of_two_answers(seed: int) -> None:
    compare(seed)

"""The counts of a pump: tuples read, values that could not be computed. A step that is made again counts once."""

from __future__ import annotations

import pytest

from psoup.errors import FailedPrecondition, NotFound, PSoupError, ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import PumpCommand, PushDerived
from psoup.local import LocalPSoup
from psoup.pumps import Pump, advance
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows, shown

NUMBERS = "SELECT CAST(if(k = 5, 'five', '1') AS BIGINT) AS n FROM e WHERE k > 3"


@pytest.fixture
def soup() -> LocalPSoup:
    """A service with 6 tuples at closed instants. The stream x over them is derived by a pump of the test."""
    soup = LocalPSoup(clock=VirtualClock(1_000 * SECOND), verify="all")
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    soup.execute(f"CREATE STREAM x AS ({NUMBERS})")
    soup.push("e", rows(*[(at, at) for at in range(1, 8)]))
    return soup


class Refusals:
    """A pump of the stream x, and a sequencer that refuses its first pushes with some errors."""

    def __init__(self, soup: LocalPSoup, *errors: PSoupError) -> None:
        self.soup = soup
        self.errors = list(errors)
        self.pump = Pump(soup.engine.snapshot().stream("x", soup.tenant))

    def submit(self, command: PumpCommand) -> Acknowledgement:
        if isinstance(command, PushDerived) and self.errors:
            raise self.errors.pop(0)
        return self.soup._submit(command)

    def run(self) -> None:
        """Do all steps that are due. A step that fails is done again."""
        while due := self.pump.due(self.soup.engine.snapshot(), self.soup.clock.now()):
            try:
                advance(self.pump, due, self.soup.engine.snapshot, self.submit, ReadBudget())
            except NotFound:
                continue


@pytest.mark.parametrize(
    "error",
    [
        ResourceExhausted("too many rows", reason="ROWS"),
        FailedPrecondition("the stream is further", reason="STEP_OUTDATED"),
        NotFound("the stream is not there yet", reason="UNKNOWN_STREAM"),
    ],
)
def test_a_step_that_was_refused_counts_once(soup: LocalPSoup, error: PSoupError) -> None:
    refused = Refusals(soup, error, error)
    refused.run()
    assert not refused.errors
    assert [n for n, _ in shown(soup, "x")] == [1, None, 1]
    progress = refused.pump.progress
    assert (progress.tuples, progress.rows, progress.errors) == (6, 3, 1)


def test_tuples_without_rows_that_are_read_again_count_once(soup: LocalPSoup) -> None:
    """The pump goes back to the position that is logged, and not to the end of the tuples without rows."""
    refused = Refusals(soup, ResourceExhausted("too many rows", reason="ROWS"))
    refused.pump._share = 2
    refused.run()
    assert not refused.errors
    assert [n for n, _ in shown(soup, "x")] == [1, None, 1]
    assert refused.pump.progress.tuples == 6

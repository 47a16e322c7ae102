"""All pumps of a service or of a process: each derived stream of the snapshot has one.

follow(snapshot)   makes a pump for each new derived stream, and ends the pumps of dropped streams.
next(snapshot)     finds the pump that lags most, among the pumps with a due step.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from psoup.errors import FailedPrecondition, NotFound
from psoup.events.acknowledgements import Acknowledgement, ClosedAcknowledgement
from psoup.events.commands import CloseInstants, PushDerived
from psoup.published.snapshot import Snapshot
from psoup.pumps.pump import Due, Pump
from psoup.work.read_budget import ReadBudget

Submit = Callable[[CloseInstants | PushDerived], Acknowledgement]
"""Prepares, logs and applies a command, and returns once readers see its event."""


class Pumps:
    """The pumps by stream ID; see the module. Only one thread at a time uses it."""

    def __init__(self) -> None:
        self._known: tuple[int, ...] = ()
        self.by_id: dict[int, Pump] = {}

    def follow(self, snapshot: Snapshot) -> None:
        """Make a pump for each new derived stream, and end the pumps of dropped ones. O(streams) after a change."""
        present = tuple(snapshot.by_id)
        if present == self._known:
            return
        self._known = present
        derived = {i: view for i, view in snapshot.by_id.items() if view.spec.derived is not None}
        self.by_id = {i: self.by_id.get(i) or Pump(view) for i, view in derived.items()}

    def next(self, snapshot: Snapshot, now: int, without: Container[int] = ()) -> tuple[Pump, Due] | None:
        """The pump that has reached the least instant, among the pumps with a due step. None if no step is due.

        `without`: the stream IDs of pumps that rest.
        """
        self.follow(snapshot)
        looked = [(pump, pump.due(snapshot, now)) for i, pump in self.by_id.items() if i not in without]
        due = [(pump, due) for pump, due in looked if due is not None]
        return min(due, key=lambda each: _order(each[0]), default=None)

    def run(
        self, snapshot: Callable[[], Snapshot], submit: Submit, now: Callable[[], int], budget: Callable[[], ReadBudget]
    ) -> int:
        """Do all steps that are due. Returns their number. For a process without threads (`psoup.local`)."""
        count = 0
        while (following := self.next(snapshot(), now())) is not None:
            count += 1
            if not advance(*following, snapshot, submit, budget()):
                break
        return count


def advance(
    pump: Pump,
    due: Due,
    snapshot: Callable[[], Snapshot],
    submit: Submit,
    budget: ReadBudget,
    *,
    instant: bool = False,
) -> bool:
    """Do one step of a pump. Returns whether its position has moved: not if a stream was dropped meanwhile.

    Raises the errors of `Pump.step`, and of `submit` apart from refusals of an outdated step.
    """
    before, promised = pump.reached, 0
    try:
        if due.promise:
            closed = submit(CloseInstants(due.promise, pump.tenant))
            assert isinstance(closed, ClosedAcknowledgement)
            promised = closed.at
        command = pump.step(snapshot(), promised, budget, instant=instant)
        if command is not None:
            pump.pushed(command, submit(command).sequence)
    except NotFound:
        return False
    except FailedPrecondition as problem:
        view = snapshot().by_id.get(pump.stream_id)
        if problem.reason != "STEP_OUTDATED" or view is None:
            raise
        pump.again(view)
        return True
    return pump.reached != before


def _order(pump: Pump) -> int:
    return -(2**63) if pump.reached is None else pump.reached

"""All pumps of a service or of a process: each derived stream of the snapshot has one.

follow(snapshot)   makes a pump for each new derived stream, and ends the pumps of dropped streams.
due(snapshot)      finds the pumps with a due step. Of one tenant, the pump that lags most is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from psoup.errors import FailedPrecondition, Internal, NotFound, PSoupError, ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement, ClosedAcknowledgement
from psoup.events.commands import CloseInstants, PumpCommand, PushDerived, ReleasePins, StopPump
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.equal_plans import EqualPlans
from psoup.pumps.instants import NO_PROMISE, Promise
from psoup.pumps.pump import Due, Pump
from psoup.pumps.room import NO_ROOM, STATE_LIMIT, Room
from psoup.pumps.ticks import TickPump
from psoup.pumps.waits import expired_waits
from psoup.work.read_budget import ReadBudget

Submit = Callable[[PumpCommand], Acknowledgement]
"""Prepares, logs and applies a command, and returns once readers see its event."""


def mark_of(streams: Mapping[int, StreamView]) -> tuple[int, ...]:
    """A value that changes with each CREATE and DROP. `streams`: by ID, the newest last. O(1) for a dict."""
    order = streams if isinstance(streams, dict) else list(streams)
    return len(order), next(iter(order), 0), next(reversed(order), 0)


class Pumps:
    """The pumps by stream ID; see the module. Only one thread at a time uses it."""

    def __init__(self) -> None:
        self._known: tuple[int, ...] = ()
        self._promises, self._plans = dict[int, Promise](), EqualPlans()
        self._room = Room({})
        self._above = list[int]()
        """The streams over derived streams."""
        self._counted = False
        """Whether the quota `kept_bytes` of tenants counts the states."""
        self.by_id: dict[int, Pump] = {}
        self.failed: dict[int, PSoupError] = {}
        """The errors of the pumps whose steps failed in the last `run`, by stream ID."""

    def follow(self, snapshot: Snapshot) -> None:
        """Make a pump for each new derived stream, and end the pumps of dropped ones. O(streams) after a change, else
        O(1)."""
        present = mark_of(snapshot.by_id)
        if present == self._known:
            return
        self._known = present
        derived = {i: view for i, view in snapshot.by_id.items() if view.spec.derived is not None}
        for stream_id, pump in self.by_id.items():
            if stream_id not in derived:
                pump.leave()
        self.by_id = {i: self.by_id.get(i) or pump_of(view) for i, view in derived.items()}
        self._above = [i for i, pump in self.by_id.items() if any(source in derived for source in pump.source_ids)]
        self._room = Room({i: pump.tenant for i, pump in self.by_id.items()}, self._room)
        if derived and not self._counted:
            self._counted = True
            next(iter(derived.values())).folds.kept_bytes.add(lambda tenant: self._room.held_by(tenant))
        for pump in self.by_id.values():
            pump.promises, pump.plans, pump.room = self._promises, self._plans, self._room

    def due(
        self,
        snapshot: Snapshot,
        now: int,
        without: Container[int] = (),
        turn: Callable[[str], float] = lambda _: 0.0,
    ) -> list[tuple[Pump, Due]]:
        """The pumps with a due step, by the turns of their tenants, then by the instants that they have reached.

        `without`: the stream IDs of pumps that rest. `turn`: the tenant with the least value is first. O(pumps).
        """
        self.follow(snapshot)
        awaited = self._awaited(snapshot, now)
        pumps = [(i, pump) for i, pump in self.by_id.items() if i not in without]
        looked = [(pump, pump.due(snapshot, now, awaited=awaited.get(i))) for i, pump in pumps]
        due = [(pump, due) for pump, due in looked if due is not None]
        return _sources_first(sorted(due, key=lambda each: (turn(each[0].tenant), _order(each[0]))))

    def rest(self, now: int) -> int | None:
        """The least `Pump.rest` of all pumps. None if all have none. O(pumps)."""
        return min([rest for pump in self.by_id.values() if (rest := pump.rest(now)) is not None], default=None)

    def releases(self, snapshot: Snapshot, now: int) -> list[ReleasePins]:
        """The commands that release the pins of pumps that have not run for longer than LAG AT MOST. O(pumps).

        The same for pumps that have found no room for so long.
        """
        halted = [(i, snapshot.by_id[i]) for i, pump in self.by_id.items() if pump.halt and i in snapshot.by_id]
        late = [(i, view) for i, view in halted if view.spec.derived is not None and view.spec.derived.pins_may_go(now)]
        return [*(ReleasePins(i, now, view.tenant) for i, view in late), *expired_waits(snapshot, now)]

    def holding_back(self, snapshot: Snapshot, now: int) -> set[int]:
        """The derived streams that hold another one back, as their position is not logged yet. O(derived streams).

        Readers of the other stream wait for them: a change of it is closed in all sources, but it cannot know.
        """
        awaited = self._awaited(snapshot, now).items()
        return {i for i, at in awaited if (reached := self.by_id[i].reached) is not None and reached >= at}

    def _awaited(self, snapshot: Snapshot, now: int) -> dict[int, int]:
        """The derived streams that hold another one back, by ID, each with the instant of a change that waits.

        The result includes the derived streams that hold such a stream back. O(derived streams).
        """
        awaited = dict[int, int]()
        ahead = [(i, at) for i in self._above if (at := self.by_id[i].awaits(snapshot, now)) is not None]
        while ahead:
            stream_id, at = ahead.pop()
            for source in self.by_id[stream_id].source_ids if stream_id in self.by_id else ():
                view = snapshot.by_id.get(source)
                if view is None or view.spec.derived is None or (view.watermark is not None and view.watermark >= at):
                    continue
                if awaited.get(source, at + 1) > at:
                    awaited[source] = at
                    ahead.append((source, at))
        return awaited

    def run(
        self, snapshot: Callable[[], Snapshot], submit: Submit, now: Callable[[], int], budget: Callable[[], ReadBudget]
    ) -> int:
        """Do all steps that are due. Returns their number. For a process without threads (`psoup.local`).

        Afterwards `failed` has the error of each pump whose step failed. Raises Internal.
        """
        self.follow(snapshot())
        count, moved, self.failed = 0, bool(self.by_id), {}
        for release in self.releases(snapshot(), now()) if moved else ():
            submit(release)
            snapshot().waits.end(release.stream_id)
        while moved:
            moved = False
            for pump, due in self.due(snapshot(), now(), self.failed):
                count += 1
                try:
                    moved |= advance(pump, due, snapshot, submit, budget())
                    snapshot().waits.end(pump.stream_id)
                except Internal:
                    raise
                except PSoupError as problem:
                    if problem.reason == NO_ROOM:
                        snapshot().waits.begin(pump.stream_id, now(), problem.message)
                    self.failed[pump.stream_id] = problem.with_traceback(None)  # its frames have the rows of the step
        return count


def pump_of(view: StreamView) -> Pump:
    """A pump for a derived stream."""
    return Pump(view) if view.spec.derived is None or view.spec.derived.every is None else TickPump(view)


def advance(
    pump: Pump,
    due: Due,
    snapshot: Callable[[], Snapshot],
    submit: Submit,
    budget: ReadBudget,
) -> bool:
    """Do one step of a pump. Returns False if it had no effect, for example if a source was dropped.

    A step that is too large is tried again with fewer tuples. A pump whose state is too large is stopped. Raises the
    errors of `Pump.step`, and of `submit` apart from refusals of an outdated step.
    """
    before, promised = pump.reached, NO_PROMISE
    try:
        if due.promise:
            promised = pump.promised(snapshot(), due.promise) or promised
        if due.promise and promised is NO_PROMISE:
            closed = submit(CloseInstants(due.promise, pump.tenant))
            assert isinstance(closed, ClosedAcknowledgement)
            promised = Promise(closed.at, closed.sequence)
            pump.promises.update(dict.fromkeys(due.promise, promised))
        command = pump.step(snapshot(), promised, budget, instant=due.instant)
        if command is not None:
            _push(pump, command, snapshot(), submit)
    except NotFound:
        return False
    except ResourceExhausted as problem:
        if problem.reason == STATE_LIMIT:
            pump.give_up()
            submit(StopPump(pump.stream_id, problem.message, pump.tenant))
        elif problem.reason == NO_ROOM or not pump.shrink():
            raise
        return True
    except FailedPrecondition as problem:
        view = snapshot().by_id.get(pump.stream_id)
        if problem.reason != "STEP_OUTDATED" or view is None:
            raise
        pump.again(view)
        return True
    return command is not None or pump.reached != before


def _push(pump: Pump, command: PushDerived, snapshot: Snapshot, submit: Submit) -> None:
    """Push the rows of a step. If that fails, the next step makes them again."""
    try:
        pump.room.check_rows(snapshot, command)
        pump.pushed(command, submit(command).sequence)
    except ResourceExhausted as problem:
        if problem.reason == NO_ROOM:
            pump.hold(command, snapshot)
        else:
            pump.back()
        raise
    except BaseException:
        pump.back()
        raise


def _sources_first(due: Sequence[tuple[Pump, Due]]) -> list[tuple[Pump, Due]]:
    """The pumps in this order, but each after the pumps of its sources, unless these are behind. O(pumps and sources).

    Then a stream has read what its source pushed in the same round. Otherwise a reader of both would wait for as long
    as tuples come.
    """
    by_id, placed = {each[0].stream_id: each for each in due}, dict[int, tuple[Pump, Due]]()
    for pump, _ in due:
        ahead = [pump.stream_id]
        while ahead:
            stream_id = ahead[-1]
            before = [i for i in by_id[stream_id][0].source_ids if i in by_id and i not in placed]
            before = [i for i in before if not by_id[i][0].behind]
            if before:
                ahead += before
            else:
                placed[ahead.pop()] = by_id[stream_id]
    return list(placed.values())


def _order(pump: Pump) -> int:
    return -(2**63) if pump.reached is None else pump.reached

"""Commands of the host for derived streams, each by its decision."""

from __future__ import annotations

from typing import assert_never

from psoup.admission.budget import MemoryBudget
from psoup.admission.derivations import Streams, decide_close, decide_derived_push
from psoup.admission.halts import decide_release, decide_stop
from psoup.events.acknowledgements import Prepared
from psoup.events.commands import CloseInstants, PumpCommand, PushDerived, ReleasePins, StopPump


def decide_pump(command: PumpCommand, streams: Streams, budget: MemoryBudget, sequence: int, now: int) -> Prepared:
    """Decide on a command for a derived stream. `sequence`: the last event. Raises the errors of the decision."""
    match command:
        case CloseInstants():
            return decide_close(command, streams, sequence, now)
        case PushDerived():
            return decide_derived_push(command, streams, budget, sequence, now)
        case StopPump():
            return decide_stop(command, streams, sequence, now)
        case ReleasePins():
            return decide_release(command, streams, sequence, now)
        case _:
            assert_never(command)

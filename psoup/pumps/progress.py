"""The progress of a pump since the start of its process, as a record that other threads may read."""

from __future__ import annotations

from typing import NamedTuple


class Counts(NamedTuple):
    """The counts of some steps: tuples of the sources, values that could not be computed, rows of unknown versions."""

    tuples: int = 0
    errors: int = 0
    unknown: int = 0

    def plus(self, tuples: int, errors: int, unknown: int) -> Counts:
        """Return these counts after one more step."""
        return Counts(self.tuples + tuples, self.errors + errors, self.unknown + unknown)


class Progress(NamedTuple):
    """The counts of a pump.

    `reached`: the instant up to which it has looked at its sources, and has pushed the rows. None at the beginning.
    `tuples`: tuples of the sources that it has read. A step that is made again counts once, with its errors. So does a
    step that another stream has evaluated. `rows`: rows that it has pushed. `errors`: values that could not be
    computed. `unknown`: rows of unknown versions of a table. `state_rows`, `state_bytes`: of its operators with state.
    `rebuilding`: whether it reads its sources to rebuild that state. `failure`: why its last step failed, "" if it did
    not. `state_bound`: the bound of that state in words, "" before the pump has begun. `behind`: whether closed
    instants are left that may have rows. `clock`: the present time of the service, None if it is not known. `equal`:
    the number of other streams with an equal plan. Streams at one position share the state.
    """

    reached: int | None = None
    tuples: int = 0
    rows: int = 0
    errors: int = 0
    unknown: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    rebuilding: bool = False
    failure: str = ""
    state_bound: str = ""
    behind: bool = False
    clock: int | None = None
    equal: int = 0


NOT_BEGUN = Progress()
"""The progress of a pump that no thread has looked at yet."""

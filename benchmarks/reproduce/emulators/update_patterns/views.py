"""Result views of queries 1 to 5 of the update-pattern paper (SIGMOD 2005, section 6), kept up to date by a strategy.

    NT          each window makes a negative tuple for each expired tuple; states and view are HASH
    DIRECT      no negative tuples; the view and what DISTINCT puts out are LISTs that are searched at each arrival
    UPA(n)      the same in n partitions; DISTINCT stores no input, and a join reads its output; above a negation that
                takes back many results, negative tuples

    view = View(Query.JOIN, upa(10), [keys of link 1, of link 2], [which tuples pass, …], window=2_000)
    view.run(5_000)          to time 5,000: at each time a tuple arrives on each link
    view.rows()

States that are probed have an index by key in all strategies, so what is measured is how results expire. States of
joins and the input of DISTINCT in DIRECT expire lazily, after 5 % of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.reproduce.emulators.update_patterns.buffers import (
    FIFO,
    HASH,
    KEY,
    LEFT,
    LIST,
    PARTITIONED,
    RIGHT,
    Array,
    Buffer,
    State,
    cells_of,
    in_lists_of,
    remove_expired,
    state_of,
)
from benchmarks.reproduce.emulators.update_patterns.operators import (
    BUFFERS,
    EXPIRED,
    INPUTS,
    JOINED,
    LEFT_INPUT,
    PREMATURE,
    RESULT,
    RIGHT_INPUT,
    SEEN,
)
from benchmarks.reproduce.emulators.update_patterns.plans import Options, Query, run_plan

LAZY = 0.05
"""The interval after which states that may wait are cleaned, as a share of the window."""
_SHORT = 5_000
"""The partitions of a view that is filled."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to keep a view. `kind`: the buffer of the view and of what DISTINCT puts out."""

    name: str
    kind: int
    negative: bool = False
    keeps_input: bool = True
    partitions: int = 10
    explicit: bool = False
    """Whether a negation makes a negative tuple for each result that leaves."""


NT = Strategy("NT", HASH, negative=True, explicit=True)
DIRECT = Strategy("DIRECT", LIST)


def upa(partitions: int) -> Strategy:
    """UPA with this number of partitions."""
    return Strategy(f"UPA({partitions})", PARTITIONED, keeps_input=False, partitions=partitions)


UPA_NEGATIVE = Strategy("UPA", HASH, keeps_input=False, explicit=True)
"""UPA for results that mostly leave before their expiry: the negation makes negative tuples for all of them."""


class View:
    """A view. `keys`: for each link, the join attribute of its tuples; `passes`: which of them the selection lets by.

    Tuple i arrives at time i.
    """

    def __init__(
        self,
        query: Query,
        strategy: Strategy,
        keys: Sequence[Array] | Array,
        passes: Sequence[Array] | Array,
        window: int,
    ) -> None:
        self.query, self.strategy, self.window, self.now = query, strategy, window, 0
        self._keys, self._passes = np.array(keys, np.int64), np.array(passes, np.bool_)
        self.state = self._made()

    def fill(self) -> None:
        """Take the tuples of the first window. The state is the same as after `run`, but made faster.

        The tuples go into many short partitions, whose lists are then put together.
        """
        short = replace(self.strategy, partitions=_SHORT)
        view = View(self.query, short, self._keys, self._passes, self.window)
        view.run(self.window)
        self.state, self.now = in_lists_of(view.state, self.state), self.window

    def run(self, stop: int) -> None:
        """Take the tuples up to, and without, the time `stop`."""
        lazy = max(int(LAZY * self.window), 1)
        options = Options(self.strategy.negative, self.strategy.keeps_input, self.strategy.explicit)
        run_plan(int(self.query), options, self.window, lazy, self._keys, self._passes, self.state, self.now, stop)
        self.now = stop

    def rows(self) -> Array:
        """The view after the last tuples: int64[n, 3], key and IDs, sorted."""
        distinct = self.query == Query.DISTINCT
        at = SEEN if distinct else RESULT
        if not distinct:
            remove_expired(self.state, at, self.now - 1)
        rows = self.state.cells[cells_of(self.state, at)][:, [KEY, LEFT, RIGHT]].astype(np.int64)
        if distinct:
            rows[:, 2] = -1  # the youngest tuple does not belong to the result
        return rows[np.lexsort(rows.T[::-1])]

    @property
    def links(self) -> int:
        """The links of the query."""
        return len(self._keys)

    @property
    def stored(self) -> int:
        """The tuples in all buffers, with the youngest tuples beside the output of DISTINCT."""
        cells = [cells_of(self.state, at) for at in range(BUFFERS)]
        youngest = 0 if self.strategy.keeps_input else sum(self._have_right(cells[SEEN + side]) for side in range(2))
        return sum(map(len, cells)) + youngest

    def _have_right(self, cells: Array) -> int:
        return int((self.state.cells[cells, RIGHT] >= 0).sum())

    @property
    def premature(self) -> float:
        """The share of a negation's results that left before their expiry."""
        tally = self.state.tally
        return float(tally[PREMATURE] / max(tally[PREMATURE] + tally[EXPIRED], 1))

    def _made(self) -> State:
        query, strategy, negative = self.query, self.strategy, self.strategy.negative
        below = HASH if negative else FIFO
        waits = LIST if query == Query.DISTINCT_JOIN and not negative else below
        left = PARTITIONED if query == Query.NEGATED_JOIN and not negative else below
        buffers = [Buffer(FIFO)] * BUFFERS
        for at, kind in ((INPUTS, below), (SEEN, strategy.kind), (JOINED, waits)):
            buffers[at] = buffers[at + 1] = Buffer(kind, indexed=True)
        buffers[LEFT_INPUT] = Buffer(left, indexed=True, ordered=True)
        buffers[RIGHT_INPUT] = Buffer(below, indexed=True)
        buffers[RESULT] = Buffer(strategy.kind)
        size = int(self._keys.max(initial=0)) + 1
        counts = [
            np.bincount(keys[passes], minlength=size) for keys, passes in zip(self._keys, self._passes, strict=True)
        ]
        joins = query in (Query.JOIN, Query.NEGATED_JOIN, Query.JOIN_UP)
        results = int((counts[0] * counts[-1]).sum()) if joins else 0
        tuples = int(self.window * (1 + LAZY)) + 2
        capacity = 4 * len(self._keys) * tuples + (2 if query == Query.NEGATED_JOIN else 1) * results
        longest = 4 * int(np.max(counts)) + 64
        return state_of(buffers, self.window, strategy.partitions, capacity=capacity, keys=size, queue=longest)

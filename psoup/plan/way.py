"""Ways: the implementations of one step of a plan, and the loop that chooses among them.

    step      rows of a join
    ways      kept_pairs        not accepted: no pairs of this join are kept
              small_pairs       accepted, gives up: more pairs than one call may find
              key_join          accepted ──> rows

`psoup.execution.ways` is the list of all steps and their ways. A way has the name of the module that implements it, and
EXPLAIN prints that name. All ways of a step that accept a case give the same rows in the same order.

`serves` is asked once for each plan, and `accepts` at each execution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from psoup.invariants import corrupt
from psoup.plan.plan_facts import plan_fact

Case = TypeVar("Case")
Rows = TypeVar("Rows")


class TryNext(Exception):
    """Raised by a way that gives up while it runs. It has returned no row yet, and has released all that it held."""


def always(_: object) -> bool:
    """The default of `serves` and `accepts`: accept every plan and every case."""
    return True


@dataclass(frozen=True, slots=True)
class Way(Generic[Case, Rows]):
    """A way: one implementation of a step of a plan."""

    name: str
    """The name of the module that implements it."""
    needs: str
    """The conditions of `serves` and `accepts`, in words."""
    gives: str
    """The result, in words."""
    cost: str
    """The order of growth of the cost, in words."""
    run: Callable[[Case], Rows]
    """Compute the result. Raises TryNext only if `gives_up` says when."""
    serves: Callable[[Any], bool] = always
    """Whether the way can compute plans of this node. It depends only on the node, and is called once for each node."""
    accepts: Callable[[Case], bool] = always
    """Whether the way can compute this case. It looks at sizes and at what is in memory, in O(chunks) or less."""
    gives_up: str = ""
    """The condition, in words, on which it raises TryNext. "" if it never does."""


class Ways(Generic[Case, Rows]):
    """The ways of one step, the quickest first. The last way serves every plan, accepts every case and never gives
    up."""

    def __init__(self, step: str, *ways: Way[Case, Rows]) -> None:
        self.step = step
        self.ways = ways
        self.serving: Callable[[object], tuple[Way[Case, Rows], ...]] = plan_fact(self._serve)
        """Return the ways that serve plans of a node. O(1) after the first call for the node."""

    def _serve(self, node: object) -> tuple[Way[Case, Rows], ...]:
        return tuple([way for way in self.ways if way.serves(node)])

    def take(self, node: object, case: Case) -> Rows:
        """Run the first way that accepts the case. If it gives up, run the next one that accepts. Returns the result.

        Other exceptions of a way pass through.
        """
        for way in self.serving(node):
            if (accepts := way.accepts) is always or accepts(case):  # a call that says nothing takes 50 ns
                try:
                    return way.run(case)
                except TryNext:
                    continue
        raise corrupt(self.step, "no way accepts the case", ways=[way.name for way in self.ways])

    def expected(self, node: object, case: Case) -> list[Way[Case, Rows]]:
        """The ways that `take` would try, in order, up to the first that never gives up. Runs none of them."""
        chosen = list[Way[Case, Rows]]()
        for way in self.serving(node):
            if way.accepts(case):
                chosen.append(way)
                if not way.gives_up:
                    break
        return chosen

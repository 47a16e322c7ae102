"""The node of a partitioned window: the last n tuples of each key, of all tuples of a stream up to NOW.

    FROM trades [PARTITION BY sym ROWS 10] WHERE price > 5
      Project *
        LastRows PARTITION BY sym ROWS 10      counts all tuples, also those that WHERE removes
          Source trades                        the tuples that satisfy WHERE

The window comes before WHERE. Both only remove tuples, so their order does not change the rows. WHERE therefore stays
with the source, as for other windows, and its clause is in the index over all queries.

    FROM trades [PARTITION BY sym ROWS 10 WHERE price > 5] WHERE qty > 1
      Project *
        Filter qty > 1                                  after the window
          LastRows PARTITION BY sym ROWS 10 WHERE …     counts the tuples that satisfy the clause of the source
            Source trades                               the tuples that satisfy price > 5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup.plan.above import Above
from psoup.plan.inputs import Source
from psoup.plan.patterns import Operator
from psoup.plan.plan_facts import plan_fact

if TYPE_CHECKING:
    from psoup.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class LastRows(Above):
    """The tuples of a source that are among the last n of their key. `input`: a source with a `partition`."""

    input: Source

    @property
    def counts_matches(self) -> bool:
        """Whether the window counts only tuples that satisfy the clause of the source."""
        return self.input.partition is not None and self.input.partition.matching

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.STRICT

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        return f"LastRows {self.input.window_text}"


def windowed(source: Source) -> Node:
    """The node that gives the rows of a source in its window: a LastRows, or the source itself."""
    return source if source.partition is None else LastRows(source)


@plan_fact
def partitioned(plan: Node) -> Mapping[int, Source]:
    """The sources of a plan that have a partitioned window, by place. O(size of the plan), cached."""
    return {source.place: source for source in plan.sources if source.partition is not None}

"""The rows of a tree of joins and filters over leaves, as positions in the leaves (`psoup.execution.rows.leaf_rows`).

    Filter, PartnerJoin, Join ─ composition ─> pieces of positions ─> columns

The evaluation starts when the caller asks for the first piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from psoup.execution.partners.composition import Composition
from psoup.execution.partners.evaluation import Evaluation, Openers
from psoup.execution.partners.row_counts import counts_by_key
from psoup.execution.rows.leaf_rows import LeafPieces, LeafRows
from psoup.plan.nodes import Filter, Join, Node, PartnerJoin, as_leaf


def is_composed(node: Node) -> bool:
    """Whether the rows of a node are positions in leaves, found by joins and filters."""
    if isinstance(node, Filter | Join | PartnerJoin):
        return all(as_leaf(below) is not None or is_composed(below) for below in node.inputs)
    return False


@dataclass(slots=True)
class ComposedRows(LeafRows):
    """The rows of a node for which `is_composed` is true."""

    openers: Openers
    _evaluations: list[Evaluation] = field(default_factory=list)
    """The evaluations whose leaves are open."""

    def open(self) -> LeafPieces | None:
        """Start the evaluation. Raises ResourceExhausted (JOIN_BUDGET)."""
        if self.limit == 0:
            return None
        evaluation = Evaluation(self.reading, self.openers)
        self._evaluations.append(evaluation)
        return Composition(evaluation).pieces(self.node, few=self.limit is not None)

    def counts(self, at_once: int) -> Iterator[int]:
        """Yield counts that sum to the number of rows. `at_once`: the most rows of a piece.

        The rows of an outer join by equalities alone are counted by key.
        """
        if self.limit is not None or self.skip or not counts_by_key(self.node):
            yield from LeafRows.counts(self, at_once)
            return
        evaluation = Evaluation(self.reading, self.openers)
        try:
            yield Composition(evaluation).count(self.node)
            self.reading.join_errors += evaluation.errors
        finally:
            evaluation.close()

    def close(self) -> None:
        """Close the leaves and return all bytes. After that no row can be shown."""
        LeafRows.close(self)
        for evaluation in self._evaluations:
            evaluation.close()
        self._evaluations = []

"""The pairs of two inputs that satisfy all conditions of a join. They come in the order of FROM.

    keys, bands ─ a way of joining ─> candidates ─ other conditions ─> partners

Only a pair that satisfies all conditions makes its rows partners.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from psoup.budgets import JOIN_PAIRS
from psoup.errors import ResourceExhausted
from psoup.execution.join.join_case import JoinCase
from psoup.execution.partners.conditions import Conditions
from psoup.execution.partners.evaluation import Evaluation
from psoup.execution.partners.input_numbers import Numbered, numbered
from psoup.execution.partners.join_inputs import JoinInput
from psoup.execution.rows.source_rows import Reading
from psoup.plan.nodes import Join, PartnerJoin
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class FailedOperands:
    """A part of an evaluation. `errors`: the number of rows with a failed operand of a key or a band."""

    errors: int

    def close(self) -> None:
        """Do nothing, as the part holds no bytes."""


class Pairs:
    """The pairs of the inputs of one join. `form`: its factors, if they are not the factors of `node`.

    `bound`: the most candidates, if they are fewer than `join_pairs`.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        node: Join | PartnerJoin,
        inputs: Sequence[JoinInput],
        *,
        few: bool = False,
        form: Numbered | None = None,
        bound: int | None = None,
    ) -> None:
        self._evaluation = evaluation
        self._node = node
        self._inputs = inputs
        self._few = few
        self._form = form or numbered(node)
        self._reading = replace(evaluation.reading, pairs=None)
        if bound is not None:
            self._reading.joins = replace(self._reading.joins, pairs=bound)

    def pieces(self) -> Iterator[list[Array]]:
        """Find the rows of all inputs that satisfy the keys and bands, in pieces."""
        evaluation, reading = self._evaluation, self._evaluation.reading
        if not all(part.rows for part in self._inputs):
            return iter(())
        sides = [
            part.side(reads, reading, evaluation.room)
            for part, reads in zip(self._inputs, self._form.reads, strict=True)
        ]
        case = JoinCase(
            self._form.join,
            self._reading,
            evaluation.openers.ways,
            self._few,
            opened=sides,  # type: ignore[arg-type]  # only sides of streams in memory are asked for their chunks
        )
        found_pairs = case.pieces()
        evaluation.add(found_pairs)
        return iter(found_pairs)

    def partners(self) -> Iterator[tuple[Array, Array]]:
        """Find the pairs of two inputs that satisfy all conditions."""
        (left, right), node, evaluation = self._inputs, self._node, self._evaluation
        if not node.rest:
            yield from ((part, other) for part, other in self.pieces())
            return
        facts, leaves = left.facts.beside(right.facts), [*left.leaves, *right.leaves]
        conditions = Conditions(node.rest, facts, leaves, evaluation.reading)
        evaluation.add(conditions)
        for part, other in self.pieces():
            passed = conditions.passed([*left.at(part), *right.at(other)])
            if passed.all():
                yield part, other
            elif passed.any():
                yield part[passed], other[passed]


def refuse_product(node: PartnerJoin, left: JoinInput, right: JoinInput, reading: Reading, *, few: bool) -> None:
    """Refuse a join without keys and bands that has too many pairs, unless the caller reads only the first rows."""
    pairs, limit = left.rows * right.rows, reading.joins.pairs
    if node.keys or node.bands or few or pairs <= limit:
        return
    raise ResourceExhausted(
        f"this join has no key and no band between its inputs, so it has {left.rows:,} * {right.rows:,} = {pairs:,}"
        f" pairs of tuples; one invocation may look at {limit:,} (join_pairs); narrow the windows or the WHERE clause"
        " of a stream, or add a comparison of columns of both inputs",
        reason="JOIN_BUDGET",
        **JOIN_PAIRS.over(pairs, limit),
        factor="no factor",
    )

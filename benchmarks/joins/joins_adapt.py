"""Row `join.adapt.star4`: selectivities of a four-way join change places, and the order of its steps follows them.

    s0, first half     s1: a tenth has a partner    s2: each has    s3: each has four
    s0, second half    s1: each has four            s2: each has    s3: a tenth has a partner

PSoup's greedy policy over all of it. Its peer is the sum of the times of the best fixed order for each half.
`pieces_back`: pieces after the change until the new order is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.config import TextLimits
from psoup.execution.join.sides import MatchedSide
from psoup.execution.select.clause_matches import Side, sides_of_join
from psoup.joins.join_pieces import joined
from psoup.joins.policies import Fixed, Greedy, Policy
from psoup.joins.steps import Step
from psoup.local import LocalPSoup
from psoup.plan.nodes import Join
from psoup.work.read_budget import UNBOUNDED

NAME = "join.adapt.star4"
TUPLES = 1 << 19
AT_LEAST = 1 / 1.3


def rows(run: Run) -> Iterator[Row]:
    """The row; a quick one is the same over fewer tuples."""
    tuples = run.of(TUPLES, TUPLES // 4, 4_096)
    yield from run.part(lambda: [_measured(tuples, run.of(9, 5, 1))], NAME)


class Noted(Greedy):
    """Greedy, which notes the source of each first step."""

    def __init__(self) -> None:
        super().__init__()
        self.first: list[int] = []

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        """As Greedy."""
        step = super().choose(steps, rows)
        if len(steps) == 3:
            self.first.append(step.source)
        return step


def _measured(tuples: int, repeats: int) -> Row:
    node, whole, *halves = _star(tuples)
    orders, noted = [Fixed(order) for order in itertools.permutations((1, 2, 3))], Noted()
    counts = {_found(node, whole, policy) for policy in (noted, Fixed((1, 2, 3)), Fixed((3, 2, 1)))}
    if len(counts) > 1:
        raise AssertionError("the order of the steps changes what a join finds")
    ours = Sample.of([_time(node, whole, Greedy()) for _ in range(repeats)])
    best = [
        min(([_time(node, half, order) for _ in range(repeats)] for order in orders), key=np.median) for half in halves
    ]
    theirs = Sample.of([sum(both) for both in zip(*map(sorted, best), strict=True)])
    after = noted.first[len(noted.first) // 2 :]
    back = after.index(3) if 3 in after else len(after)
    target, details = Target(at_least=AT_LEAST), {"pieces_back": back, "pieces": len(noted.first)}
    return Row(NAME, ours, "us", "the best fixed order of each half", theirs, target, "", details)


def _time(node: Join, sides: list[MatchedSide], policy: Policy) -> float:
    return 1e6 * seconds(lambda: _found(node, sides, policy))


def _found(node: Join, sides: list[MatchedSide], policy: Policy) -> int:
    return sum(len(piece[0]) for piece in joined(node, sides, policy=policy))


def _star(tuples: int) -> tuple[Join, list[MatchedSide], list[MatchedSide], list[MatchedSide]]:
    """The join, its sides, and those with one half of the first."""
    rng, once = np.random.default_rng(9), tuples // 5
    keys = np.concatenate([np.arange(once), np.repeat(once + np.arange(once), 4)])
    few = np.where(rng.random(tuples) < 0.1, rng.integers(0, once, tuples), -1)
    four, each = once + rng.integers(0, once, tuples), rng.integers(0, once, tuples)
    before = np.arange(tuples) < tuples // 2
    columns = {"a": np.where(before, few, four), "b": each, "c": np.where(before, four, few)}
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s0 (a BIGINT, b BIGINT, c BIGINT)")
    soup.push("s0", pa.table(columns))
    for name, values in (("s1", keys), ("s2", np.arange(once)), ("s3", keys)):
        soup.execute(f"CREATE STREAM {name} (k BIGINT)")
        soup.push(name, pa.table({"k": rng.permutation(values)}))
    statement = "SELECT s0.a FROM s0, s1, s2, s3 WHERE s0.a = s1.k AND s0.b = s2.k AND s0.c = s3.k"
    query = soup.register(statement)
    snapshot = soup.engine.snapshot()
    record = snapshot.query(query, soup.tenant)
    (node,) = record.query.plan.inputs
    assert isinstance(node, Join)
    wanted = list[Side]()
    for side in snapshot.sides_of(record):
        view = snapshot.by_id[side.stream_id]
        wanted.append((view, snapshot.clause(side.sqc_id), view.first_id, view.next_id))
    (view, clause, *_), others = wanted[0], wanted[1:]
    whole, first, second = (
        [MatchedSide(values, TextLimits(), UNBOUNDED) for values in sides_of_join([(view, clause, *part), *others])]
        for part in ((0, tuples), (0, tuples // 2), (tuples // 2, tuples))
    )
    return node, whole, first, second

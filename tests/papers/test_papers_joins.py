"""PSoup (VLDB 2002), figures 4, 5 and 10: a join's hybrid structs, the steps they have left, and the pairs they end in.

    query 23   R.a < 5 AND R.a > S.b AND S.b > 1
    step 3     R tuples that satisfy R.a < 5        4: 3, 6: 4, 7: 2
    step 4     a hybrid of each: it has R, and S is left
    step 5     S tuples that satisfy S.b > 1 and R.a > S.b
    step 6     pairs (R tuple, S tuple)

Figure 4 has a hybrid for each tuple, which is a piece of one here; figure 10 puts them together: a piece of thousands.
Figure 10 (b) puts together the queries that a new tuple meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import JoinLimits
from psoup.execution.many import many_joins
from psoup.joins.budget import JoinBudget
from psoup.joins.eddy import Eddy, Routes
from psoup.joins.key_columns import keyed
from psoup.joins.sort_builds import Builds
from psoup.joins.steps import Step
from psoup.local import LocalPSoup
from psoup.model import BIGINT
from psoup.plan.amounts import Amount, Keeping
from psoup.plan.nodes import Join, walk
from psoup.values.columns import Column
from psoup.work.read_budget import UNBOUNDED
from psoup_testing.histories.join_sides import Side

QUERY = "SELECT r._id AS r, s._id AS s, a, b FROM r, s WHERE r.a < 5 AND r.a > s.b AND s.b > 1"
R = [9, 5, 8, 7, 3, 6, 4, 2]
S = [1, 2, 9, 3, 0, 2]
PAIRS = [(4, 1), (4, 5), (6, 1), (6, 3), (6, 5)]


class Recorded:
    """A policy that has no choice, and notes each: how many tuples a hybrid has, and the sources it has left."""

    def __init__(self) -> None:
        self.hybrids: list[tuple[int, list[int]]] = []

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        self.hybrids.append((rows, [step.source for step in steps]))
        return steps[0]

    def told(self, step: Step, rows_in: int, rows_out: int, cost: int) -> None:
        pass


@pytest.fixture
def soup() -> LocalPSoup:
    """PSoup with two streams and 22 queries."""
    made = LocalPSoup(verify="all")
    made.execute("CREATE STREAM r (a BIGINT)")
    made.execute("CREATE STREAM s (b BIGINT)")
    for number in range(22):
        made.register(f"SELECT * FROM r WHERE a = {number}")
    return made


def push(soup: LocalPSoup, stream: str, column: str, values: Sequence[int]) -> None:
    soup.push(stream, pa.table({column: list(values)}))


def pairs(soup: LocalPSoup, query_id: int) -> list[tuple[int, int]]:
    return [(row["r"], row["s"]) for row in soup.invoke(query_id).to_table().to_pylist()]


def hybrids_of(
    soup: LocalPSoup, query_id: int, together: int
) -> tuple[list[tuple[int, list[int]]], list[tuple[int, int]]]:
    """The hybrids that the tuples of R's side make, so many in one, and the tuple IDs that they end in."""
    query = soup.engine.snapshot().query(query_id, soup.tenant).query
    (join,) = [node for _, node in walk(query.plan) if isinstance(node, Join)]
    ids = [[i for i, a in enumerate(R) if a < 5], [i for i, b in enumerate(S) if b > 1]]
    values = [[R[i] for i in ids[0]], [S[i] for i in ids[1]]]
    sides = [Side([Column(BIGINT, np.array(own, np.int64))]) for own in values]
    room, policy = JoinBudget(JoinLimits(), UNBOUNDED), Recorded()
    keys = keyed(join, sides, room)
    routes = Routes(keys.edges, Builds([np.arange(side.rows, dtype=np.int32) for side in sides], room))
    found = []
    for start in range(0, sides[0].rows, together):
        stop = min(start + together, sides[0].rows)
        for left, right in Eddy(routes, policy, 8_192, 2).complete(slice(start, stop), stop - start):
            found += [(ids[0][one], ids[1][other]) for one, other in zip(left.tolist(), right.tolist(), strict=True)]
    return policy.hybrids, sorted(found)


def test_figure_4_a_new_join_query_makes_a_hybrid_of_each_tuple(soup: LocalPSoup) -> None:
    push(soup, "r", "a", R)
    push(soup, "s", "b", S)
    query_id = soup.register(QUERY)
    assert query_id == 23
    assert soup.matches("r", 4) == [4]  # the sides of a join are queries of nobody: a = 3 is the fourth of the others
    made, ends = hybrids_of(soup, query_id, together=1)
    assert made == [(1, [1])] * 3
    assert ends == PAIRS
    assert pairs(soup, query_id) == PAIRS


def test_figure_5_a_new_tuple_probes_the_queries_and_then_the_other_stream(soup: LocalPSoup) -> None:
    query_id = soup.register(QUERY)
    push(soup, "s", "b", S)
    assert pairs(soup, query_id) == []
    for number, a in enumerate(R):
        push(soup, "r", "a", [a])
        assert pairs(soup, query_id) == [pair for pair in PAIRS if pair[0] <= number]


def test_figure_5_an_eager_answer_has_the_pairs_of_a_new_tuple_before_it_is_asked(soup: LocalPSoup) -> None:
    """The paper finds these pairs on arrival. Here a thread of the service does, beside the writer."""
    query_id = soup.register(QUERY, keeping=Keeping(Amount.COMPLETE, eager=True))
    push(soup, "s", "b", S)
    for number, a in enumerate(R):
        push(soup, "r", "a", [a])
        soup.update_answers()  # the service does so after publications
        snapshot = soup.engine.snapshot()
        entry = snapshot.answers.look(query_id)
        assert entry is not None and entry.sequence == snapshot.sequence
        assert pairs(soup, query_id) == [pair for pair in PAIRS if pair[0] <= number]
        assert snapshot.answers.look(query_id) is entry, "the invocation had nothing left to do"


def test_figure_10_hybrids_go_together_and_the_shared_factor_is_applied_once(soup: LocalPSoup) -> None:
    push(soup, "r", "a", R)
    push(soup, "s", "b", S)
    query_id = soup.register(QUERY)
    made, ends = hybrids_of(soup, query_id, together=8_192)
    assert made == [(3, [1])]
    assert ends == PAIRS


def test_figure_10_b_the_queries_that_a_new_tuple_meets_probe_the_other_stream_together(
    soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper makes one composite tuple of the queries. Here joins by an equality share a pass if asked together."""
    passes: list[None] = []
    kernel = many_joins.pairs_of_sets

    def counted(*arguments: Any) -> int:
        passes.append(None)
        return int(kernel(*arguments))

    monkeypatch.setattr(many_joins, "pairs_of_sets", counted)
    bounds = list(range(40))  # fewer queries are answered one by one
    select = "SELECT r._id AS r, s._id AS s FROM r, s WHERE r.a < $most AND r.a = s.b AND s.b > 1"
    queries = soup.register_many(select, pa.table({"most": bounds}))
    push(soup, "s", "b", S)
    for number, a in enumerate(R):
        push(soup, "r", "a", [a])
        rows = soup.invoke_table(queries).to_table().to_pylist()
        alike = [(i, j) for i in range(number + 1) for j, b in enumerate(S) if R[i] == b > 1]
        expected = [(place, *pair) for place, bound in enumerate(bounds) for pair in alike if R[pair[0]] < bound]
        assert [(row["_query"], row["r"], row["s"]) for row in rows] == expected
    assert len(passes) == len(R), "one pass for all queries"


def test_pairs_are_the_same_in_both_orders_of_arrival(soup: LocalPSoup) -> None:
    before = soup.register(QUERY)
    for number in range(max(len(R), len(S))):
        push(soup, "s", "b", S[number : number + 1])
        push(soup, "r", "a", R[number : number + 1])
    assert pairs(soup, before) == pairs(soup, soup.register(QUERY)) == PAIRS

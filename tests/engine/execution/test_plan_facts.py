"""Facts about plan nodes are computed once for each node, in tables that are bounded and can be cleared."""

from psoup.plan import plan_facts
from psoup.plan.plan_facts import MOST_FACTS, plan_fact


class Node:
    """A node like any other: equal to its twins, and told from them by identity."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node)

    def __hash__(self) -> int:
        raise AssertionError("a node was hashed")


def test_a_fact_is_computed_once_for_each_node_and_arguments() -> None:
    computed = []

    @plan_fact
    def width(node: Node, timed: tuple[int, ...] = ()) -> int | None:
        computed.append(timed)
        return None if timed else 3

    first, second = Node(), Node()
    assert [width(first), width(first), width(second), width(first, (1,)), width(first, (1,))] == [3, 3, 3, None, None]
    assert computed == [(), (), (1,)]
    plan_facts.clear()
    assert width(first) == 3
    assert len(computed) == 4


def test_a_full_table_is_emptied_and_holds_its_nodes_until_then() -> None:
    @plan_fact
    def place(node: Node) -> list[Node]:
        return [node]

    nodes = [Node() for _ in range(MOST_FACTS)]
    kept = [place(node) for node in nodes]
    assert all(place(node) is fact for node, fact in zip(nodes, kept, strict=True))
    place(Node())
    assert place(nodes[0]) is not kept[0]
    assert place(nodes[0])[0] is nodes[0]

"""Plans for people and programs: a list of nodes with facts about each, and the same as lines of text.

    0  project  inputs 1                                       plan     Project sym, price [weakest]
    1  source   figures matches 12, facts window BEGIN …                  Source trades BEGIN … END … [weakest]

Lines are made from nodes, so a new operator only has to add its own figures and facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from psoup.plan.above import Above
from psoup.plan.canonical import describe_window, written_window
from psoup.plan.inputs import steps_back
from psoup.plan.nodes import Node, PartnerJoin, Relation, SetOperation, Source, walk
from psoup.plan.patterns import RULES, Pattern

_SHOWN = 160
"""The most characters of a node's text, or of a fact, in a line."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Facts about a node that EXPLAIN adds to its text.

    `lines`: text for people, printed under the node. `figures`, `facts`: the numbers and texts for programs.
    """

    figures: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[str] = ()


NOTHING = Findings()


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node of the plan. `id`: its index in the list, which begins with the last step. `inputs`: IDs of its inputs.

    `pattern`: the update pattern of its rows. `lines`: the most useful figures and facts as text.
    """

    id: int
    operator: str
    inputs: tuple[int, ...]
    text: str
    pattern: str
    figures: Mapping[str, float]
    facts: Mapping[str, str]
    depth: int
    lines: tuple[str, ...] = ()


def plan_nodes(plan: Node, findings: Callable[[Node], Findings]) -> tuple[PlanNode, ...]:
    """The nodes of a plan, each before its inputs. `findings`: the findings of a node."""
    walked = list(walk(plan))
    by_now = steps_back(plan.sources)
    return tuple(_made(number, walked, findings(node), by_now) for number, (_, node) in enumerate(walked))


def _made(number: int, walked: Sequence[tuple[int, Node]], findings: Findings, by_now: bool) -> PlanNode:
    """A node. `by_now`: whether NOW of the plan, and the end of each window with it, may step back."""
    depth, node = walked[number]
    pattern = _while_now_steps_back(node) if by_now else node.pattern
    below = takewhile(lambda place: walked[place][0] > depth, range(number + 1, len(walked)))
    return PlanNode(
        id=number,
        operator=_operator(node),
        inputs=tuple(place for place in below if walked[place][0] == depth + 1),
        text=_text(node),
        pattern=pattern.name.lower(),
        figures=findings.figures,
        facts=findings.facts,
        depth=depth,
        lines=tuple(findings.lines),
    )


def _while_now_steps_back(node: Node) -> Pattern:
    """The update pattern of a node in a plan with a NOW that may step back. Its sources are strict then."""
    if isinstance(node, Source):
        return Pattern.STRICT
    if isinstance(node, Relation):
        return _while_now_steps_back(node.input)
    if isinstance(node, Above):
        return RULES[node.operator]([_while_now_steps_back(node.input)])
    return max([node.pattern, *map(_while_now_steps_back, node.inputs)])


def _operator(node: Node) -> str:
    """The name of a node's operator: the words of SQL for its kind of join or set operation."""
    if isinstance(node, PartnerJoin):
        return node.kind.value.lower()
    if isinstance(node, SetOperation):
        return node.operator.value.lower()
    return type(node).__name__.lower()


def _text(node: Node) -> str:
    """The text of a node, with the window of a source as the statement has it."""
    if isinstance(node, Source):
        return node.label.replace(describe_window(node.window), written_window(node.window))
    return node.label


def plan_lines(nodes: Sequence[PlanNode]) -> list[str]:
    """The plan as lines, last step first, and the update pattern of the answer."""
    lines = []
    for node in nodes:
        head, indent = "" if node.id else "plan", "  " * node.depth
        lines.append(f"  {head:9}{indent}{_short(node.text)} [{node.pattern}]")
        lines += [f"  {'':9}{indent}  | {_short(line)}" for line in node.lines]
    pattern = Pattern[nodes[0].pattern.upper()]
    return [*lines, f"  updates  {pattern.title}: {pattern.meaning}"]


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

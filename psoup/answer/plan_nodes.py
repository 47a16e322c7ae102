"""Plans for people and programs: a list of nodes with facts about each, and the same as lines of text.

    0  project  inputs 1                                       plan     Project sym, price [weakest]
    1  source   figures matches 12, facts window BEGIN …                  Source trades BEGIN … END … [weakest]

Lines are made from nodes, so a new operator only has to add its own figures and facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from psoup.plan.canonical import describe_duration, describe_window, written_window
from psoup.plan.nodes import Node, PartnerJoin, SetOperation, Source, walk
from psoup.plan.patterns import NO_STATE, TIME, Pattern, StateBound, Updates
from psoup.plan.state_bounds import plan_bounds
from psoup.plan.updates import plan_updates

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

    `pattern`: the update pattern of its rows. `clocks`: the clocks by which they leave, by name: `time`, or `rows of`
    a stream. `settled`: the simpler pattern of rows that the answer has shown for more than `settled_after`
    microseconds; "" if there is none. `state`: the bound of the state that keeping its rows up to date takes. `lines`:
    the most useful figures and facts as text.
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
    clocks: tuple[str, ...] = ()
    settled: str = ""
    settled_after: int = 0
    state: StateBound = NO_STATE

    @property
    def updates(self) -> str:
        """The pattern, its clocks and the pattern of settled rows, in a few words."""
        words = ", ".join([self.pattern, *self.clocks])
        return f"{words}; {self.settled} {_later(self.settled_after)}" if self.settled else words


def plan_nodes(plan: Node, findings: Callable[[Node], Findings]) -> tuple[PlanNode, ...]:
    """The nodes of a plan, each before its inputs. `findings`: the findings of a node."""
    walked, updates, bounds = list(walk(plan)), plan_updates(plan), plan_bounds(plan)
    return tuple(
        _made(number, walked, findings(node), updates[id(node)], bounds[id(node)])
        for number, (_, node) in enumerate(walked)
    )


def _made(
    number: int, walked: Sequence[tuple[int, Node]], findings: Findings, updates: Updates, state: StateBound
) -> PlanNode:
    depth, node = walked[number]
    below = takewhile(lambda place: walked[place][0] > depth, range(number + 1, len(walked)))
    return PlanNode(
        id=number,
        operator=_operator(node),
        inputs=tuple(place for place in below if walked[place][0] == depth + 1),
        text=_text(node),
        pattern=updates.pattern.name.lower(),
        figures=findings.figures,
        facts=findings.facts,
        depth=depth,
        lines=tuple(findings.lines),
        clocks=updates.clock_texts,
        settled=updates.settled.pattern.name.lower() if updates.settled else "",
        settled_after=updates.after,
        state=state,
    )


def _operator(node: Node) -> str:
    """The name of a node's operator: the words of SQL for its kind of join or set operation."""
    if isinstance(node, PartnerJoin):
        return node.kind.value.lower()
    if isinstance(node, SetOperation):
        return node.operator.value.lower()
    return type(node).__name__.lower()


def _text(node: Node) -> str:
    """The text of a node, with the window of a source as the statement has it."""
    if isinstance(node, Source) and node.spec.table is None:
        return node.label.replace(describe_window(node.window), written_window(node.window))
    return node.label


def plan_lines(nodes: Sequence[PlanNode]) -> list[str]:
    """The plan as lines, last step first, and the update pattern of the answer."""
    lines = []
    for node in nodes:
        head, indent = "" if node.id else "plan", "  " * node.depth
        lines.append(f"  {head:9}{indent}{_short(node.text)} [{node.updates}]")
        state = [f"state: {node.state.text}"] if node.state.parts else []
        lines += [f"  {'':9}{indent}  | {_short(line)}" for line in (*node.lines, *state)]
    return [*lines, *_update_lines(nodes[0])]


def _update_lines(answer: PlanNode) -> list[str]:
    """The update pattern of the answer, its clocks, and the pattern of settled rows."""
    pattern = Pattern[answer.pattern.upper()]
    lines = [f"  updates  {pattern.title}: {pattern.meaning}"]
    if answer.clocks:
        lines.append(f"  clocks   rows leave {', and '.join(map(_passing, answer.clocks))}")
    if answer.settled:
        settled = Pattern[answer.settled.upper()]
        lines.append(f"  settled  {settled.title} {_later(answer.settled_after)}: {settled.meaning}")
    return lines


def _passing(clock: str) -> str:
    """The moments at which a clock ticks, in words."""
    return "as time passes" if clock == TIME.text else f"as {clock} come"


def _later(after: int) -> str:
    """The time until rows are settled, in words."""
    return f"{describe_duration(after)} later" if after else "once NOW moves on"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

"""Explanation of a query as the SDK shows it: lines for people, details and the nodes of the plan for programs.

    PlanNode 0 project, inputs 1 ──> PlanNode 1 source: figures (tuples, matches …), facts (stream, clause, window …)

Nothing here calls the service.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict

from psoup_client import html
from psoup_client.schema import ColumnInfo, columns_of, window_kind
from psoup_proto.v1 import queries_pb2


@dataclass(frozen=True, slots=True)
class PlanStep(html.Facts):
    """A step of what an answer makes of the tuples that satisfy WHERE; its inputs are below it, one deeper.

    `update_pattern` says how its rows come and leave: `monotonic` (rows only come), `weakest` (they leave in the order
    in which they came), `weak` (with the tuples that they are made of) or `strict` (at any time).
    """

    depth: int
    text: str
    update_pattern: str

    @staticmethod
    def of(message: queries_pb2.PlanStep) -> PlanStep:
        """From the wire."""
        return PlanStep(message.depth, message.text, _pattern(message.update_pattern))


@dataclass(frozen=True, slots=True)
class PlanNode(html.Facts):
    """A node of the plan. `id`: its place in the list; `inputs`: the IDs of those whose rows it takes.

    `operator`: `source`, `join`, `aggregate`, `having`, `project`, `distinct`, `sort` or `limit`. `figures` are counted
    or measured, `facts` are texts, by their names: a source has the tuples and the matches in its window, its stream
    and its clause; an aggregate has its groups, and how many aggregates it makes of how many states; over
    one stream how many folds of chunks (`leaves`) and of more chunks (`nodes`) an invocation combines, chunks that are
    `unfolded` yet, and tuples at the two `ends` of the window.
    """

    id: int
    operator: str
    inputs: tuple[int, ...]
    text: str
    figures: dict[str, float]
    facts: dict[str, str]
    update_pattern: str

    @staticmethod
    def of(message: queries_pb2.PlanNode) -> PlanNode:
        """From the wire."""
        return PlanNode(
            id=message.id,
            operator=message.operator,
            inputs=tuple(message.inputs),
            text=message.text,
            figures=_whole(dict(message.figures)),
            facts=dict(message.facts),
            update_pattern=_pattern(message.update_pattern),
        )


@dataclass(frozen=True, slots=True)
class Checked(html.Facts):
    """A statement that could be registered: what the query would be.

    `columns` are those of its answers, `nodes` its plan from the last step on: a source has the tuples in its window
    now (`tuples_in_window`), which a first invocation looks at, and how many of them are on disk (`tuples_on_disk`).
    `update_pattern` is that of the first node. The other fields are as in `QueryInfo`.
    """

    sql: str
    streams: tuple[str, ...]
    clause: str
    window: str
    window_kind: str
    columns: tuple[ColumnInfo, ...]
    update_pattern: str
    nodes: tuple[PlanNode, ...]

    @staticmethod
    def of(message: queries_pb2.CheckResponse) -> Checked:
        """From the wire."""
        query = message.query
        return Checked(
            sql=query.statement,
            streams=tuple(query.streams),
            clause=query.clause,
            window=query.window,
            window_kind=window_kind(query.window_kind),
            columns=columns_of(query.columns),
            update_pattern=_pattern(message.update_pattern),
            nodes=tuple(map(PlanNode.of, message.nodes)),
        )

    @property
    def tuples(self) -> int:
        """Tuples in the windows of all sources now."""
        return int(sum(node.figures.get("tuples_in_window", 0) for node in self.nodes))


class Explanation:
    """Explanation of how a query is kept: `lines` for people, `details` for programs.

    `plan` has the steps of an answer from the last one on, `nodes` the same with what is known of each. `str()` joins
    the lines.
    """

    def __init__(
        self, lines: list[str], details: dict[str, object], plan: list[PlanStep], nodes: list[PlanNode]
    ) -> None:
        self.lines = lines
        self.details = details
        self.plan = plan
        self.nodes = nodes

    @staticmethod
    def of(message: queries_pb2.ExplainResponse) -> Explanation:
        """From the wire."""
        details = _whole(MessageToDict(message.details))
        steps, nodes = [*map(PlanStep.of, message.plan)], [*map(PlanNode.of, message.nodes)]
        return Explanation([*message.lines], details, steps, nodes)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return f"<Explanation: {self.lines[0] if self.lines else 'nothing'}>"

    def _repr_html_(self) -> str:
        """Show the lines in a notebook."""
        return html.lines(self.lines)


def _pattern(value: int) -> str:
    """Name an update pattern."""
    return queries_pb2.UpdatePattern.Name(value).removeprefix("UPDATE_PATTERN_").lower()  # type: ignore[arg-type]


def _whole(value: Any) -> Any:
    """Make whole numbers int again: a protobuf Struct knows only doubles."""
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

"""The explanation of a query: lines for people, and details and plan nodes for programs.

    PlanNode 0 project, inputs 1 ──> PlanNode 1 source: figures (tuples, matches …), facts (stream, clause, window …)

Nothing here calls the service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from google.protobuf.json_format import MessageToDict

from psoup_client import html
from psoup_client.schema import ColumnInfo, columns_of, window_kind
from psoup_proto.v1 import queries_pb2


@dataclass(frozen=True, slots=True)
class PlanStep(html.Facts):
    """A step of an answer's plan, after WHERE. Its inputs follow it, one level deeper.

    `update_pattern`: how rows come and leave. `monotonic`: rows only come. `weakest`: rows leave in the order in which
    they came. `weak`: rows leave with their tuples. `strict`: rows may leave at any time.
    """

    depth: int
    text: str
    update_pattern: str

    @staticmethod
    def of(message: queries_pb2.PlanStep) -> PlanStep:
        """Convert the message on the wire."""
        return PlanStep(message.depth, message.text, _pattern(message.update_pattern))


@dataclass(frozen=True, slots=True)
class StateBound(html.Facts):
    """The bound of the state that keeping the rows of a node up to date takes.

    `rows`: the most rows. None if the number is not known beforehand, as for a window in time. `nbytes`: the most bytes
    of the values of these rows, None also if a value has no fixed size. `text`: the bound in words. `unbounded`: the
    reason why nothing bounds the state, "" if something does.
    """

    rows: int | None
    nbytes: int | None
    text: str
    unbounded: str = ""

    @staticmethod
    def of(message: queries_pb2.StateBound) -> StateBound:
        """Convert the message on the wire."""
        rows = message.rows if message.HasField("rows") else None
        nbytes = message.bytes if message.HasField("bytes") else None
        return StateBound(rows, nbytes, message.text, message.unbounded)


@dataclass(frozen=True, slots=True)
class PlanNode(html.Facts):
    """A node of the plan. `id`: its place in the list. `inputs`: the IDs of its input nodes.

    `operator`: `source`, `join`, `aggregate`, `hop`, `having`, `project`, `distinct`, `sort`, `limit`, `filter`,
    `over`, `values`; `relation` is a subselect that is evaluated whole. Outer joins and their like have the words of
    SQL, such as `left join` or `not in`. Set operations are `union`, `intersect` or `except`. `figures` are numbers,
    and `facts` are texts, by their names. A source has the tuples and the matches in its window, its stream and its
    clause. An aggregate has the numbers of its groups, aggregates and states. Over one stream it also has the numbers
    of folds that an invocation combines: of single chunks (`leaves`) and of several chunks (`nodes`). Then come chunks
    without a fold (`unfolded`), and tuples at the two `ends` of the window. A hop has the number of `panes` of a
    bucket, and the number of `buckets` that contain a tuple.

    `update_pattern`: as in `PlanStep`. `clocks`: the clocks by which rows leave, `time` or `rows of` a stream.
    `settled_pattern`: the simpler pattern of rows that the answer has shown for more than `settled_after`. An
    example is an absence whose time has passed. None if time settles nothing. `state`: the bound of the state that
    keeping its rows up to date takes. None from a service that does not send it.
    """

    id: int
    operator: str
    inputs: tuple[int, ...]
    text: str
    figures: dict[str, float]
    facts: dict[str, str]
    update_pattern: str
    clocks: tuple[str, ...] = ()
    settled_pattern: str | None = None
    settled_after: timedelta | None = None
    state: StateBound | None = None

    @property
    def updates(self) -> str:
        """The pattern, the clocks and the pattern of settled rows, in words."""
        words = ", ".join([self.update_pattern, *self.clocks])
        if self.settled_pattern is None:
            return words
        later = f"after {self.settled_after}" if self.settled_after else "once NOW moves on"
        return f"{words}; {self.settled_pattern} {later}"

    @staticmethod
    def of(message: queries_pb2.PlanNode) -> PlanNode:
        """Convert the message on the wire."""
        return PlanNode(
            id=message.id,
            operator=message.operator,
            inputs=tuple(message.inputs),
            text=message.text,
            figures=_whole(dict(message.figures)),
            facts=dict(message.facts),
            update_pattern=_pattern(message.update_pattern),
            clocks=tuple(message.clocks),
            settled_pattern=_pattern(message.settled_pattern) if message.settled_pattern else None,
            settled_after=message.settled_after.ToTimedelta() if message.HasField("settled_after") else None,
            state=StateBound.of(message.state) if message.HasField("state") else None,
        )


@dataclass(frozen=True, slots=True)
class Checked(html.Facts):
    """The description of a valid statement as a standing query.

    `columns`: columns of its answers. `nodes`: its plan from the last step on. A source has the tuples in its window
    now (`tuples_in_window`), which a first invocation reads, and how many of them are on disk (`tuples_on_disk`).
    `update_pattern`: that of the first node. `notes`: remarks for the author. The other fields are as in `QueryInfo`.
    """

    sql: str
    streams: tuple[str, ...]
    clause: str
    window: str
    window_kind: str
    columns: tuple[ColumnInfo, ...]
    update_pattern: str
    nodes: tuple[PlanNode, ...]
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(message: queries_pb2.CheckResponse) -> Checked:
        """Convert the message on the wire."""
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
            notes=tuple(message.notes),
        )

    @property
    def tuples(self) -> int:
        """Tuples in the windows of all sources now."""
        return int(sum(node.figures.get("tuples_in_window", 0) for node in self.nodes))


class Explanation:
    """Explanation of a query's state in the service: `lines` for people, `details` for programs.

    `plan` has the steps of an answer from the last one on, `nodes` the same with figures and facts. `notes`: remarks
    for the author of the statement. `str()` joins the lines.
    """

    def __init__(
        self,
        lines: list[str],
        details: dict[str, object],
        plan: list[PlanStep],
        nodes: list[PlanNode],
        notes: Sequence[str] = (),
    ) -> None:
        self.lines = lines
        self.details = details
        self.plan = plan
        self.nodes = nodes
        self.notes = tuple(notes)

    @staticmethod
    def of(message: queries_pb2.ExplainResponse) -> Explanation:
        """Convert the message on the wire."""
        details = _whole(MessageToDict(message.details))
        steps, nodes = [*map(PlanStep.of, message.plan)], [*map(PlanNode.of, message.nodes)]
        return Explanation([*message.lines], details, steps, nodes, message.notes)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return f"<Explanation: {self.lines[0] if self.lines else 'nothing'}>"

    def _repr_html_(self) -> str:
        """Show the lines in a notebook."""
        return html.lines(self.lines)


def _pattern(value: int) -> str:
    """Return the name of an update pattern."""
    return queries_pb2.UpdatePattern.Name(value).removeprefix("UPDATE_PATTERN_").lower()  # type: ignore[arg-type]


def _whole(value: Any) -> Any:
    """Convert whole doubles to int, because a protobuf Struct has only doubles."""
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

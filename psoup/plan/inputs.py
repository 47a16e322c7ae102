"""The leaves of a plan: the sources of FROM, and their join. Also the columns and sort keys of nodes.

Output, OrderKey    a column of SELECT, a key of ORDER BY
Source              a stream, and its window
RowsPerKey          the window PARTITION BY … ROWS n of a stream
Join, PairFactor    the joined rows of several sources
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup.expressions.tree import ID_INDEX, AttributeRef, Expr, source_of
from psoup.model import BIGINT, ID_COLUMN, DataType, StreamSpec, WindowClause
from psoup.plan.canonical import SYMBOLS, describe_window, exact_name, expr_text, written_window
from psoup.plan.patterns import Operator
from psoup.plan.written_text import written_expr

if TYPE_CHECKING:
    from psoup.plan.nodes import Leaf, Node


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the SELECT list."""

    name: str
    expr: Expr

    @property
    def type(self) -> DataType:
        """The column's type."""
        return self.expr.type

    def text(self, names: Sequence[str] = ()) -> str:
        """The column as text. `names`: as in `expr_text`."""
        expr, text = self.expr, written_expr(self.expr, names)
        if names:
            return f"{text} AS {exact_name(self.name)}"
        same = isinstance(expr, AttributeRef) and expr.name == self.name
        return text if same else f"{text} AS {exact_name(self.name)}"


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A key of ORDER BY. NULLs come last, in both directions, unless `nulls_first` is set."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False

    def text(self, names: Sequence[str] = ()) -> str:
        """The key as text. `names`: as in `expr_text`."""
        return f"{written_expr(self.expr, names)}{' DESC' * self.descending}{' NULLS FIRST' * self.nulls_first}"


ROWS_NOW = "the rows that hold now"
"""The rows of a table that a query reads, in words."""
VERSIONS_THEN = "the version at the time of each row"
"""The rows of a table AS OF a stream, in words."""


@dataclass(frozen=True, slots=True)
class RowsPerKey:
    """The window `PARTITION BY keys ROWS rows`: for each combination of keys, the last `rows` tuples up to NOW.

    NULL is a key like any other. The last tuples are those with the greatest tuple IDs. `keys`: columns of the source.
    With none, all tuples have one key. `matching`: the window counts only tuples that satisfy the clause of the source,
    as with WHERE in the brackets.
    """

    keys: tuple[AttributeRef, ...]
    rows: int
    matching: bool = False

    @property
    def text(self) -> str:
        """The window as the statement has it in brackets. The clause of the source has the condition of its WHERE."""
        keys = f"PARTITION BY {', '.join(exact_name(key.name) for key in self.keys)} " if self.keys else ""
        return f"{keys}ROWS {self.rows}{' WHERE …' * self.matching}"


@dataclass(frozen=True, slots=True)
class Source:
    """A source of a query: the stream at a `place` in FROM, with its window."""

    place: int
    spec: StreamSpec
    """The stream's definition when the query was bound. The query does not see columns that were added later."""
    window: WindowClause
    alias: str = ""
    """The name of the source in the statement of a join. "" for the only source of a query."""
    as_of: int | None = None
    """For a table AS OF a stream: the place of the stream. The source then has all versions, not the present ones."""
    partition: RowsPerKey | None = None
    """The rows for each key to which `LastRows` above the source cuts the window. The window itself is unbounded."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The input nodes: none."""
        return ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """The source itself."""
        return (self,)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The source itself."""
        return (self,)

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the stream."""
        attributes = enumerate(self.spec.schema.attributes)
        refs = [(a, AttributeRef(a.type, position, a.name, self.place)) for position, a in attributes]
        return tuple(Output(a.name, ref) for a, ref in refs if not a.hidden)

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """The order of the rows, which is the order of their tuple IDs."""
        return (OrderKey(AttributeRef(BIGINT, ID_INDEX, ID_COLUMN, self.place)),)

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return True

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        named = f" AS {exact_name(self.alias)}" if self.alias else ""
        bounds = describe_window(self.window) if self.spec.table is None else f"({self.window_text})"
        return f"Source {exact_name(self.spec.name)}{named} {bounds}"

    @property
    def window_text(self) -> str:
        """The window for people. A table has none: the text says which of its rows are read."""
        if self.partition is not None:
            return self.partition.text
        if self.spec.table is None:
            return written_window(self.window)
        return ROWS_NOW if self.as_of is None else VERSIONS_THEN

    @property
    def window_kind(self) -> str:
        """As `WindowClause.kind`, or `table` for the rows of a table that hold. Versions AS OF a stream only come."""
        if self.partition is not None:
            return "sliding"
        return "table" if self.spec.table is not None and self.as_of is None else self.window.kind


@dataclass(frozen=True, slots=True)
class PairFactor:
    """A comparison of two sources: `left` reads one of them, and `right` the other. `operator` is eq, lt, le, gt or ge.

    `implied`: the statement lacks the comparison, but it follows from other comparisons. For example, a = b and b = c
    imply a = c.
    """

    operator: str
    left: Expr
    right: Expr
    implied: bool = False

    @property
    def sources(self) -> tuple[int, int]:
        """The places in FROM of the sources of `left` and `right`."""
        return source_of(self.left), source_of(self.right)

    def text(self, names: Sequence[str] = ()) -> str:
        """The canonical text of the comparison. `names`: as in `expr_text`."""
        return f"{expr_text(self.left, names)} {SYMBOLS[self.operator]} {expr_text(self.right, names)}"

    def written(self, names: Sequence[str] = ()) -> str:
        """The text of the comparison for people. `names`: as in `expr_text`."""
        return f"{written_expr(self.left, names)} {SYMBOLS[self.operator]} {written_expr(self.right, names)}"


@dataclass(frozen=True, slots=True)
class Join:
    """The join of several inputs. Each result is one row of each input, and satisfies all conditions over several
    inputs.

    The results are in the order of their tuple IDs, source by source as in FROM. `keys`: equalities of two sources.
    `bands`: other comparisons of two sources. `rest`: other conditions over several sources. Conditions on a single
    source are in its `Selection`.
    """

    inputs: tuple[Node, ...]
    keys: tuple[PairFactor, ...]
    bands: tuple[PairFactor, ...]
    rest: tuple[Expr, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources in the node's subtree, in the order of FROM."""
        return tuple(source for node in self.inputs for source in node.sources)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves that later nodes can read, in the order of FROM."""
        return tuple(leaf for node in self.inputs for leaf in node.leaves)

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the rows: the columns of all inputs, one after the other."""
        return tuple(output for node in self.inputs for output in node.schema)

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """The order of the rows: by the tuple IDs of the first source, then of the second, and so on."""
        return tuple(key for node in self.inputs for key in node.order)

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def joins_streams(self) -> bool:
        """Whether all inputs are streams."""
        return all(isinstance(node, Source) for node in self.inputs)

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.WEAK

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        names = names_of(self)
        stated = [factor.written(names) for factor in (*self.keys, *self.bands) if not factor.implied]
        rest = [written_expr(condition, names) for condition in self.rest]
        return f"Join {' AND '.join([*stated, *rest])}".rstrip()


def steps_back(sources: Sequence[Source]) -> bool:
    """Whether NOW of a statement over `sources` may step back.

    NOW ignores an idle stream, and steps back when that stream goes on.
    """
    specs = [source.spec for source in sources]
    several = len({spec.name.lower() for spec in specs}) > 1
    return several and any(spec.event_time and spec.idle_after is not None for spec in specs)


def names_of(*nodes: Node) -> tuple[str, ...]:
    """The names of the leaves that expressions over `nodes` can read, by place, as prefixes of columns.

    A place without a leaf has the name "". Returns () for a single source, which has no name.
    """
    leaves = [leaf for node in nodes for leaf in node.leaves]
    if not leaves or not all(leaf.alias for leaf in leaves):
        return ()
    names = [""] * (max(leaf.place for leaf in leaves) + 1)
    for leaf in leaves:
        names[leaf.place] = exact_name(leaf.alias)
    return tuple(names)

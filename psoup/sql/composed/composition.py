"""The parts of a composed statement that all its SELECTs share: sides, relations, windows and named subselects.

    place    0  1  2  …  15      a side for each stream that the statement names, each time it names it
            16 17 …              a relation for each subselect that is computed as a whole

A side's conditions are texts. At the end, each side becomes a statement of its own: SELECT * FROM stream WHERE ….
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp

from psoup.errors import SqlError
from psoup.expressions.tree import Expr, Literal, of_source
from psoup.model import StreamSpec, WindowClause
from psoup.plan.canonical import literal_text
from psoup.plan.inputs import RowsPerKey
from psoup.plan.nodes import Node, Project, Relation, Source
from psoup.plan.sides import FIRST_RELATION, MOST_SOURCES
from psoup.sql.binder import Binder
from psoup.sql.composed.scope import Hidden
from psoup.sql.composed.with_items import WithItem, with_items
from psoup.sql.from_list import Lookup, refuse_window_of_table
from psoup.sql.join_conditions import Written, filled, selection_text
from psoup.sql.last_rows import bounds_of, rows_per_key
from psoup.sql.names import NamedStream, Names
from psoup.sql.parser.grammar import EXTENT
from psoup.sql.select import check_conjuncts
from psoup.sql.source import StatementText
from psoup.sql.windows import window

_NAMING = {"partition": "PARTITION BY", "where": "WHERE"}
"""The parts of a window in brackets that name columns."""

MOST_RELATIONS = 64
"""The most subselects of a statement that are computed as a whole. An item of WITH counts each time it is used."""

MOST_LEVELS = 20
"""The most subselects inside of one another. An item of WITH is inside of the items and SELECTs that read it."""


@dataclass(slots=True)
class Draft:
    """A side before its statement is written. `alias`: the name that its conditions use. `texts`, `conditions`: its
    conditions as they are written, and bound. `extents`: their places in the statement."""

    leaf: Source
    alias: str
    texts: list[str] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    extents: list[tuple[int, int]] = field(default_factory=list)

    def text(self) -> str:
        """The text of the side's statement."""
        return selection_text(NamedStream(self.leaf.spec, self.alias), self.leaf.window, self.texts)


class Mark(NamedTuple):
    """The number of parts that a composition has at one moment."""

    drafts: int
    notes: int
    unnamed: int
    relations: int
    aliases: frozenset[str]


@dataclass(slots=True)
class Composition:
    """The state of binding one statement. `lookup`, `names`: as for `psoup.sql.standing_query`.

    `parameters`: the constants of placeholders, by their offsets. `shown`: their texts in the conditions of sides; the
    constants, if there is none. `windows`: see `Windows`. `notes`: sentences for
    EXPLAIN about outer joins that are answered in a simpler form. `visible`: the items of WITH that the present SELECT
    may read. `seen`: the names of all items of WITH so far. `enclosing`: the window in brackets of the subselect around
    the present SELECT. `hidden`: the scope around it that it cannot read. `looking_up`: whether a scalar subselect is
    being bound that reads the scope around it.
    """

    source: StatementText
    lookup: Lookup
    names: Sequence[str]
    windows: Windows
    parameters: Mapping[int, Literal] = field(default_factory=dict)
    shown: Mapping[int, str] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    visible: Mapping[str, WithItem] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    enclosing: exp.Expr | None = None
    hidden: Hidden | None = None
    looking_up: bool = False
    _level: int = 0
    _unnamed: int = 0
    _relations: int = 0
    _aliases: set[str] = field(default_factory=set)
    _written: Written | None = None

    @property
    def written(self) -> Written:
        """A function that returns a part of the statement, with constants instead of parameters."""
        if self._written is None:
            constants = {start: literal_text(literal) for start, literal in self.parameters.items()}
            self._written = filled(self.source.text, {**constants, **self.shown})
        return self._written

    def add_side(self, spec: StreamSpec, alias: str, table: exp.Expr) -> Source:
        """Add a side for a stream in FROM. Raises SqlError if there are too many."""
        if len(self.drafts) >= MOST_SOURCES:
            raise self.source.error(
                f"the statement names more than {MOST_SOURCES} sources",
                table,
                hint="split the query; a WITH item counts each time it is used",
                reason="TOO_MANY_SOURCES",
            )
        place, bounds = len(self.drafts), self._window(spec, table)
        partition = self._partition(NamedStream(spec, alias), table, place)
        leaf = Source(place, spec, bounds, self._unique(alias), partition=partition)
        self.drafts.append(Draft(leaf, alias))
        self._add_inner_where(self.drafts[-1], table)
        return leaf

    def _add_inner_where(self, draft: Draft, table: exp.Expr) -> None:
        """Add the condition of WHERE in the brackets of a source, if there is one, to its side. Raises SqlError."""
        node = own_window(self.source, table)
        where = None if node is None else node.args.get("where")
        if where is None:
            return
        names = Names(self.source, [NamedStream(draft.leaf.spec, draft.alias)])
        check_conjuncts(self.source, where)
        condition = Binder(self.source, names, self.parameters).condition(where)
        draft.texts.append(self.written(*where.meta[EXTENT]))
        draft.conditions.append(of_source(condition, draft.leaf.place))
        draft.extents.append(where.meta[EXTENT])

    def _window(self, spec: StreamSpec, table: exp.Expr) -> WindowClause:
        """The window of a source; a table has none."""
        if spec.table is None:
            return self.windows.of(self.source, table, self.enclosing)
        node = own_window(self.source, table)
        if node is not None:
            raise refuse_window_of_table(self.source, spec, node)
        return WindowClause()

    def _partition(self, stream: NamedStream, table: exp.Expr, place: int) -> RowsPerKey | None:
        """The rows for each key in the window of a source. Raises SqlError, also if the source has new names for its
        columns."""
        node, alias = own_window(self.source, table), table.args.get("alias")
        named = [] if node is None else [word for part, word in _NAMING.items() if node.args.get(part)]
        if node is not None and named and alias is not None and alias.args.get("columns"):
            hint = "rename the columns in SELECT: SELECT k AS key"
            raise self.source.unsupported(f"{named[0]} of a window beside new names for columns", node, hint=hint)
        return rows_per_key(self.source, node, stream, place)

    def add_relation(self, plan: Node, alias: str, names: Sequence[str], *, single: bool = False) -> Relation:
        """Add a relation for a subselect that is computed as a whole. Raises SqlError if there are too many."""
        if self._relations >= MOST_RELATIONS:
            raise self.source.error(
                f"the statement has more than {MOST_RELATIONS} subselects that are computed as a whole",
                hint="split the query; a WITH item counts each time it is used",
                reason="TOO_MANY_SOURCES",
            )
        plan = _without_copy(plan)
        place = FIRST_RELATION + self._relations
        self._relations += 1
        return Relation(place, plan, self._unique(alias), tuple(names), single)

    def mark(self) -> Mark:
        """The present state, for `undo`."""
        return Mark(len(self.drafts), len(self.notes), self._unnamed, self._relations, frozenset(self._aliases))

    def undo(self, mark: Mark) -> None:
        """Forget the sides and relations that were added after a mark. Items of WITH stay seen."""
        del self.drafts[mark.drafts :], self.notes[mark.notes :]
        self._unnamed, self._relations, self._aliases = mark.unnamed, mark.relations, set(mark.aliases)

    @contextmanager
    def look_up(self) -> Iterator[None]:
        """Bind a subselect in the `with` block that reads the scope around it. No subselect in it may do so again."""
        before, self.looking_up = self.looking_up, True
        try:
            yield
        finally:
            self.looking_up = before

    @contextmanager
    def reading(self, query: exp.Expr, visible: Mapping[str, WithItem] | None = None) -> Iterator[None]:
        """Let the `with` block read the items of WITH of a query, and those in `visible`: by default the present."""
        before = self.visible
        self.visible = with_items(query, before if visible is None else visible)
        self.seen |= self.visible.keys()
        try:
            yield
        finally:
            self.visible = before

    @contextmanager
    def beside(self, hidden: Hidden) -> Iterator[None]:
        """Bind a subselect in the `with` block that cannot read the scope around it."""
        before, self.hidden = self.hidden, hidden
        try:
            yield
        finally:
            self.hidden = before

    @contextmanager
    def entered(self, table: exp.Expr) -> Iterator[None]:
        """Bind the subselect of an item of FROM in the `with` block: one level deeper, and in the item's window."""
        inner, before = own_window(self.source, table), self.enclosing
        if self._level >= MOST_LEVELS:
            raise self.source.error(
                f"subselects nest deeper than {MOST_LEVELS} levels", table, hint="split the query", reason="TOO_DEEP"
            )
        if inner is not None:
            self._check_window(inner)
        self._level, self.enclosing = self._level + 1, inner or before
        try:
            yield
        finally:
            self._level, self.enclosing = self._level - 1, before

    def _check_window(self, node: exp.Expr) -> None:
        if self.enclosing is not None:
            raise _two_windows(self.source, node)
        clause = window(self.source, node.args.get("begin"), node.args.get("end"))
        if node.args.get("partition"):
            hint = "write it in the subselect, after the stream: FROM s [PARTITION BY k ROWS 10]"
            raise self.source.unsupported("a window for each key (PARTITION BY) of a subselect", node, hint=hint)
        if (where := node.args.get("where")) is not None:
            hint = "write it in the subselect, after the stream: FROM s [ROWS 50 WHERE …]"
            raise self.source.unsupported("WHERE in the window of a subselect", where, hint=hint)
        if clause.begin.rows is not None or clause.end.rows is not None:
            hint = "write it in the subselect, after the stream: FROM s [ROWS 10]"
            raise self.source.unsupported("a window of rows of a subselect", node, hint=hint)

    def unnamed(self, name: str) -> str:
        """A name for a subselect of FROM without a name: `name`, and from the second one on with a number."""
        self._unnamed += 1
        return f"{name}{self._unnamed}" if self._unnamed > 1 else name

    def note(self, sentence: str) -> None:
        """Add a sentence for EXPLAIN."""
        self.notes.append(sentence)

    def _unique(self, alias: str) -> str:
        """The alias, with a number if another side or relation of the statement has it."""
        name, number = alias, 1
        while name.lower() in self._aliases:
            number += 1
            name = f"{alias}_{number}"
        self._aliases.add(name.lower())
        return name


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a statement: one BEGIN and END for all sources, or a window in brackets for each.

    `bracketed`: whether a source has its window in brackets. Sources without one are then unbounded.
    """

    begin: exp.Expr | None
    end: exp.Expr | None
    bracketed: bool

    def of(self, source: StatementText, table: exp.Expr, enclosing: exp.Expr | None) -> WindowClause:
        """The window of a stream in FROM. `enclosing`: the window of the subselect around it. Raises SqlError."""
        if not self.bracketed:
            return window(source, self.begin, self.end)
        node = own_window(source, table)
        if node is not None and enclosing is not None:
            raise _two_windows(source, node)
        return bounds_of(source, node or enclosing)


def _two_windows(source: StatementText, node: exp.Expr) -> SqlError:
    return source.error(
        "the window of a subselect holds for all its sources, and this source has a window of its own",
        node,
        hint="write one of the two windows",
        reason="TWO_WINDOWS",
    )


def _without_copy(plan: Node) -> Node:
    """The plan without a Project at the top that only copies the columns of a relation."""
    while isinstance(plan, Project) and isinstance(plan.input, Relation) and plan.outputs == plan.input.schema:
        plan = plan.input.input
    return plan


def own_window(source: StatementText, table: exp.Expr) -> exp.Expr | None:
    """The window in brackets of an item of FROM, or None. Raises SqlError if it has two."""
    alias = table.args.get("alias")
    windows = [node for node in (table.args.get("window"), alias and alias.args.get("window")) if node is not None]
    if len(windows) > 1:
        raise source.error("a source has one window", windows[1], reason="TWO_WINDOWS")
    return windows[0] if windows else None


def windows_of(source: StatementText, statement: exp.Expr) -> Windows:
    """The windows of a whole statement. Raises SqlError if it has windows in brackets, and BEGIN or END as well."""
    begin, end = statement.args.get("begin"), statement.args.get("end")
    tables = statement.find_all(exp.Table, exp.Subquery)
    bracketed = next((node for table in tables if (node := own_window(source, table)) is not None), None)
    if bracketed is not None and (begin is not None or end is not None):
        raise source.error(
            "a window in brackets and BEGIN or END do not go together",
            bracketed,
            hint="give each source its window in brackets, or all of them one after WHERE",
            reason="TWO_WINDOWS",
        )
    return Windows(begin, end, bracketed is not None)

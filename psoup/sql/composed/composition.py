"""The parts of a composed statement that all its SELECTs share: sides, relations, windows and named subselects.

    place    0  1  2  …  15      a side for each stream that the statement names, each time it names it
            16 17 …              a relation for each subselect that is computed as a whole

A side's conditions are texts. At the end, each side becomes a statement of its own: SELECT * FROM stream WHERE ….
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from psoup.expressions.tree import Literal
from psoup.model import StreamSpec, WindowClause
from psoup.plan.canonical import literal_text
from psoup.plan.nodes import Node, Relation, Source
from psoup.plan.sides import FIRST_RELATION, MOST_SOURCES
from psoup.sql.from_list import Lookup
from psoup.sql.join_conditions import Written, filled, selection_text
from psoup.sql.names import NamedStream
from psoup.sql.source import StatementText
from psoup.sql.windows import window


@dataclass(slots=True)
class Draft:
    """A side before its statement is written. `alias`: the name that its conditions use."""

    leaf: Source
    alias: str
    texts: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The text of the side's statement."""
        return selection_text(NamedStream(self.leaf.spec, self.alias), self.leaf.window, self.texts)


@dataclass(slots=True)
class Composition:
    """The state of binding one statement. `lookup`, `names`: as for `psoup.sql.standing_query`.

    `parameters`: the constants of placeholders, by their offsets. `windows`: see `Windows`. `notes`: sentences for
    EXPLAIN about outer joins that are answered in a simpler form.
    """

    source: StatementText
    lookup: Lookup
    names: Sequence[str]
    windows: Windows
    parameters: Mapping[int, Literal] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _relations: int = 0
    _aliases: set[str] = field(default_factory=set)
    _written: Written | None = None

    @property
    def written(self) -> Written:
        """A function that returns a part of the statement, with constants instead of parameters."""
        if self._written is None:
            constants = {start: literal_text(literal) for start, literal in self.parameters.items()}
            self._written = filled(self.source.text, constants)
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
        leaf = Source(len(self.drafts), spec, self.windows.of(self.source, table), self._unique(alias))
        self.drafts.append(Draft(leaf, alias))
        return leaf

    def add_relation(self, plan: Node, alias: str, names: Sequence[str], *, single: bool = False) -> Relation:
        """Add a relation for a subselect that is computed as a whole."""
        place = FIRST_RELATION + self._relations
        self._relations += 1
        return Relation(place, plan, self._unique(alias), tuple(names), single)

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

    def of(self, source: StatementText, table: exp.Expr) -> WindowClause:
        """The window of an item of FROM. Raises SqlError."""
        if not self.bracketed:
            return window(source, self.begin, self.end)
        node = own_window(source, table)
        return window(source, None, None) if node is None else window(source, node.args.get("begin"), node.args["end"])


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

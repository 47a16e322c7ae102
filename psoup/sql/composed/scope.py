"""The columns that a name may mean in one SELECT of a composed statement, and in the SELECTs around it.

    SELECT … FROM flights f LEFT JOIN weather w USING (origin) WHERE EXISTS (SELECT 1 FROM alerts WHERE at = origin)
      inner scope   alerts: at, …
      outer scope   f: origin, …    w: wind, …        origin is a column of USING: of the source whose rows are kept

A name means a column of the inner scope, or else a column of the scope around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from psoup.errors import InvalidInput, NotSupported, SqlError
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, Expr
from psoup.model import BIGINT, ID_COLUMN, TIME_COLUMN, TIMESTAMP, StreamSpec
from psoup.phrases import quoted
from psoup.plan.column_names import unique_names
from psoup.plan.nodes import Leaf, Output, Source
from psoup.plan.sides import FIRST_RELATION
from psoup.sql.composed.shapes import QUERIES
from psoup.sql.names import NamedStream, Names, advice_of, listed, pseudo_index
from psoup.sql.output_names import output_names
from psoup.sql.source import Place, StatementText, nearest, offset_of

_PSEUDO = {ID_COLUMN: (BIGINT, ID_INDEX), TIME_COLUMN: (TIMESTAMP, TIME_INDEX)}


Renamed = tuple[tuple[int, int, str], ...]
"""Parts of a text, from an offset to an offset, each with the name that replaces it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A source of FROM: its name in the statement, and its columns. `places`: the leaves that its columns read.

    `spec`: the stream, if the item is one. Only a stream has `_id` and `_time`. `renamed`: whether columns of the
    stream have other names here. `repeated`: the names, in lower case, that the item's SELECT list has for several
    columns with different values.
    """

    alias: str
    columns: tuple[Output, ...]
    places: frozenset[int]
    spec: StreamSpec | None = None
    repeated: frozenset[str] = frozenset()
    renamed: bool = False

    def with_different_names(self) -> Item:
        """The item with a different name for each column."""
        names = unique_names([output.name for output in self.columns])
        if (self.spec is not None and not self.renamed) or len({output.name.lower() for output in self.columns}) == len(
            names
        ):
            return self
        columns = tuple([Output(name, output.expr) for name, output in zip(names, self.columns, strict=True)])
        repeated = [name for name, exprs in output_names(self.columns).items() if len(exprs) > 1]
        return replace(self, columns=columns, repeated=frozenset(repeated))

    def column(self, folded: str) -> Expr | None:
        """The column with a name in lower case, or None."""
        return next((output.expr for output in self.columns if output.name.lower() == folded), None)

    def pseudo(self, folded: str) -> Expr | None:
        """The column `_id` or `_time` of a stream, or None."""
        if self.spec is None or folded not in _PSEUDO:
            return None
        kind, index = _PSEUDO[folded]
        (place,) = self.places
        return AttributeRef(kind, pseudo_index(self.spec, index), folded, place)


@dataclass(frozen=True, slots=True)
class Hidden:
    """A scope around a subselect whose columns the subselect cannot read: the refused feature, and the way out."""

    scope: Scope
    feature: str
    way: str


OUTSIDE = "a subselect as a value that reads a source outside of it"
"""The feature of a scalar subselect that reads the scope around it."""


def hidden_from_value(scope: Scope) -> Hidden:
    """The scope around a subselect that is a value."""
    way = "join its groups: JOIN (SELECT k, avg(x) AS m FROM s GROUP BY k) t ON a.k = t.k WHERE a.x > t.m"
    return Hidden(scope, OUTSIDE, way)


def hidden_from_item(scope: Scope) -> Hidden:
    """The scope of a FROM with a subselect as an item."""
    way = "join the streams of the subselect themselves, with its conditions in ON or WHERE"
    return Hidden(scope, "a subselect in FROM that reads a source outside of it", way)


def hidden_from_groups(scope: Scope) -> Hidden:
    """The scope around a subselect of EXISTS or IN with groups, DISTINCT or first rows."""
    way = "read the outer source in the WHERE of a subselect without GROUP BY, aggregates, UNION and LIMIT"
    return Hidden(scope, "EXISTS or IN with a computed subselect that reads a source outside of it", way)


def item_of(leaf: Leaf, alias: str) -> Item:
    """The item of FROM for a leaf. `alias`: its name in the statement."""
    return Item(alias, leaf.schema, frozenset({leaf.place}), leaf.spec if isinstance(leaf, Source) else None)


def renamed_item(item: Item, names: Sequence[str]) -> Item:
    """The item of a stream with other names for its columns."""
    if [output.name for output in item.columns] == list(names):
        return item
    columns = tuple(Output(name, output.expr) for name, output in zip(names, item.columns, strict=True))
    return replace(item, columns=columns, renamed=True)


class Scope(Names):
    """The items of one FROM, and the scope around it.

    `merged`: the columns of USING and NATURAL, by their names in lower case. `optional`: places whose tuple may be
    missing in a row. `hidden`: a scope around the SELECT whose columns it cannot read, and why.
    """

    def __init__(self, source: StatementText, outer: Scope | None = None, hidden: Hidden | None = None) -> None:
        super().__init__(source, [])
        self.items: list[Item] = []
        self.merged_columns: dict[str, Output] = {}
        self.optional: set[int] = set()
        self.outer = outer
        self.hidden = hidden

    def add(self, item: Item, at: exp.Expr) -> None:
        """Add an item of FROM. Raises SqlError if another item has its name."""
        if any(item.alias.lower() == other.alias.lower() for other in self.items):
            raise self._source.error(
                f"two sources of FROM are called {item.alias!r}",
                at,
                hint=f"name one with AS: {item.alias} AS {item.alias[:1]}2",
                reason="DUPLICATE_SOURCE",
            )
        self.items.append(item.with_different_names())

    def place(self, node: exp.Expr) -> int | None:
        """Check the source x of a name `x.name`, and return None. Raises SqlError."""
        self._item(node)
        return None

    def is_given(self, column: AttributeRef) -> bool:
        """Whether a column cannot be NULL in any row."""
        if column.source in self.optional:
            return False
        for item in self.items:
            if item.spec is not None and column.source in item.places:
                return column.index < 0 or not item.spec.schema.attributes[column.index].nullable
        return self.outer is not None and self.outer.is_given(column)

    def find(self, node: exp.Expr) -> Expr | None:
        """The column of a name, in this scope or in a scope around it. None if there is none.

        Raises SqlError if several items of one scope have the column.
        """
        folded = node.name.lower()
        named = self._item(node)
        if named is not None:
            if folded in named.repeated:
                raise self._repeated(node, named)
            return named.column(folded) or named.pseudo(folded)
        scope: Scope | None = self
        while scope is not None:
            if (column := scope._own(node, folded)) is not None:
                return column
            scope = scope.outer
        return None

    def called(self, node: exp.Expr) -> str:
        """The name that a column has in its item of FROM. "" if `node` is not a column of an item."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return ""
        folded, named = node.name.lower(), self._item(node)
        scope: Scope | None = self
        while scope is not None:
            for item in scope.items if named is None else (named,):
                for output in item.columns:
                    if output.name.lower() == folded:
                        return output.name
            scope = scope.outer
        return ""

    def renamed(self, node: exp.Expr) -> Renamed | None:
        """The names of columns in the text of a condition that their stream does not have, each with the stream's name.

        () if all columns are written as their streams have them. None if the condition has no text for a side, because
        a column is not a column of a stream.
        """
        if self._streams_only:
            return ()
        places: list[tuple[int, int, str]] = []
        if node.find(*QUERIES) is not None:
            return None
        for column in node.find_all(exp.Column):
            expr = self.find(column)
            if not isinstance(expr, AttributeRef) or not 0 <= expr.source < FIRST_RELATION:
                return None
            places.append((offset_of(column), int(column.this.meta["end"]) + 1, quoted(expr.name)))
        return tuple(sorted(places))

    @property
    def _streams_only(self) -> bool:
        """Whether all items of this scope, and of those around it, are streams with their own column names."""
        outer = self.outer
        plain = all(item.spec is not None and not item.renamed for item in self.items)
        return plain and (outer is None or outer._streams_only)

    def star(self, node: exp.Expr) -> list[Output]:
        """The columns of `*` or `x.*`. Raises SqlError."""
        named = self._item(node)
        if named is not None:
            return list(named.columns)
        columns, seen = list[Output](), set[str]()
        for item in self.items:
            for output in item.columns:
                folded = output.name.lower()
                merged = self.merged_columns.get(folded)
                if merged is None:
                    columns.append(output)
                elif folded not in seen:
                    columns.append(merged)
                    seen.add(folded)
        return columns

    def unknown(self, node: exp.Expr, at: Place, *, quoted: bool) -> InvalidInput:
        """The error for a name that no column has."""
        if (correlated := self._correlated(node)) is not None:
            return correlated
        named = self._item(node)
        items = self._around() if named is None else [named]
        if named is None and any(item.alias.lower() == node.name.lower() for item in items):
            return self.row_as_value(node)
        names = list(dict.fromkeys(output.name for item in items for output in item.columns))
        hint = advice_of(node) or nearest(node.name, [*names, TIME_COLUMN, ID_COLUMN])
        if quoted:
            hint = f"{hint} " * bool(hint) + f"a text stands in single quotes: '{node.name[:40]}'"
        hint = hint or f"the columns are {listed(names)}"
        whose = ", ".join(item.alias for item in items)
        verb = f"{whose} has no" if len(items) == 1 else f"none of {whose} has a"
        return self._source.error(f"{verb} column {node.name[:128]!r}", at, hint=hint, reason="UNKNOWN_COLUMN")

    def _around(self) -> list[Item]:
        """The items of this scope, and of all scopes around it."""
        return self.items if self.outer is None else [*self.items, *self.outer._around()]

    def columns_called(self, folded: str) -> list[Expr]:
        """The columns of this scope with a name in lower case. A column of USING counts once."""
        if (merged := self.merged_columns.get(folded)) is not None:
            return [merged.expr]
        return [column for item in self.items if (column := item.column(folded)) is not None]

    def _own(self, node: exp.Expr, folded: str) -> Expr | None:
        columns = self.columns_called(folded)
        if not columns:
            columns = [column for item in self.items if (column := item.pseudo(folded)) is not None]
        if len(columns) > 1:
            raise self._several(node, folded)
        for item in self.items if folded not in self.merged_columns else ():
            if folded in item.repeated:
                raise self._repeated(node, item)
        return columns[0] if columns else None

    def _item(self, node: exp.Expr) -> Item | None:
        """The item x of a node `x.name`, in this scope or around it. None for a name alone. Raises SqlError."""
        table = node.args.get("table")
        if node.args.get("db") is not None:
            raise self._source.error("a name has at most two parts: stream.column", node)
        if table is None:
            return None
        folded, scope, items = table.name.lower(), self, list[Item]()
        while True:
            for item in scope.items:
                if item.alias.lower() == folded:
                    return item
            items += scope.items
            if scope.outer is None:
                raise self._not_in_from(node, table, items)
            scope = scope.outer

    def _correlated(self, node: exp.Expr) -> SqlError | None:
        """The error for a column of a scope that cannot be read. None if no such scope has the column."""
        scope: Scope | None = self
        while scope is not None:
            if scope.hidden is not None:
                try:
                    readable = scope.hidden.scope.find(node) is not None
                except SqlError as problem:
                    readable = isinstance(problem, NotSupported)
                if readable:
                    return self._source.unsupported(scope.hidden.feature, node, hint=scope.hidden.way)
            scope = scope.outer
        return None

    def _not_in_from(self, node: exp.Expr, table: exp.Expr, items: Sequence[Item]) -> SqlError:
        if (correlated := self._correlated(node)) is not None:
            return correlated
        aliases = [item.alias for item in items]
        called = next((item.alias for item in items if item.spec and item.spec.name.lower() == table.name.lower()), "")
        hint = f"FROM calls it {called}: write {called}.{node.name[:128] or '*'}" if called else ""
        return self._source.error(
            f"{table.name[:128]!r} is not in FROM; the sources are called {', '.join(aliases)}",
            table,
            hint=hint or nearest(table.name, aliases),
            reason="UNKNOWN_COLUMN",
        )

    def _repeated(self, node: exp.Expr, item: Item) -> SqlError:
        name = node.name[:128]
        return self._source.error(
            f"{item.alias} has several columns {name!r}, so the name is ambiguous",
            node,
            hint=f"name them with AS in the subselect; * has the repetitions as {name}_1, ...",
            reason="AMBIGUOUS_COLUMN",
        )

    def _several(self, node: exp.Expr, folded: str) -> SqlError:
        aliases = [item.alias for item in self.items if item.column(folded) is not None or item.pseudo(folded)]
        return self._source.error(
            f"{node.name[:128]!r} is a column of {' and of '.join(aliases)}",
            node,
            hint=f"say whose: {aliases[0]}.{node.name[:128]}",
            reason="AMBIGUOUS_COLUMN",
        )


def streams_of(items: Iterable[Item]) -> list[NamedStream]:
    """The streams among some items, with their names."""
    return [NamedStream(item.spec, item.alias) for item in items if item.spec is not None]

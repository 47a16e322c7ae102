"""The resolution of names in a statement: the column that each name means, and the source of that column.

    FROM flights f, weather w        f.origin   ->   flights, place 0, column 3
                                     wind       ->   the only source with this column; refused if there are several
                                     _time      ->   f._time or w._time: each source has a time, so f. or w. is required

With one source, a name may begin with that source, but need not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlglot import exp

from psoup.errors import InvalidInput
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, Expr
from psoup.model import BIGINT, ID_COLUMN, TIME_COLUMN, TIMESTAMP, DataType, StreamSpec
from psoup.plan.nodes import Output
from psoup.sql.elsewhere.columns import COLUMNS, OF_PARTS, PARTS
from psoup.sql.source import Place, StatementText, nearest

_PSEUDO = {TIME_COLUMN: (TIMESTAMP, TIME_INDEX), ID_COLUMN: (BIGINT, ID_INDEX)}


def pseudo_index(spec: StreamSpec, index: int) -> int:
    """The place of the column that `_id` or `_time` of a source means. In a table, `_time` is its TIMESTAMP BY."""
    timed = None if spec.table is None else spec.table.timed
    return timed if timed is not None and index == TIME_INDEX else index


_SHOWN = 12
"""The most columns listed in an error."""


class NamedStream(NamedTuple):
    """A stream and its name in the statement."""

    spec: StreamSpec
    alias: str


class Names:
    """The sources of a statement, in the order of FROM, and a search for the column of a name.

    `merged`: the columns of USING by their names in lower case, each with the place of its first source.
    """

    def __init__(
        self, source: StatementText, sources: Sequence[NamedStream], merged: Mapping[str, int] | None = None
    ) -> None:
        self.sources = sources
        self._source = source
        self._merged = merged or {}

    def place(self, node: exp.Expr) -> int | None:
        """The place in FROM of the source x of a node `x.name`. None for a name alone. Raises SqlError."""
        table = node.args.get("table")
        if node.args.get("db") is not None:
            raise self._source.error("a name has at most two parts: stream.column", node)
        if table is None:
            return None
        folded = table.name.lower()
        for place, (_, alias) in enumerate(self.sources):
            if alias.lower() == folded:
                return place
        aliases = [alias for _, alias in self.sources]
        if len(aliases) == 1:
            aliases_shown = f"the stream is called {aliases[0]!r} here"
        else:
            aliases_shown = f"the sources are called {', '.join(aliases)}"
        raise self._source.error(
            f"{table.name!r} is not in FROM; {aliases_shown}",
            table,
            hint=self._called(node, table.name) or nearest(table.name, aliases),
            reason="UNKNOWN_COLUMN",
        )

    def find(self, node: exp.Expr) -> Expr | None:
        """The column of a name. None if no source has it. Raises SqlError if several sources have it."""
        folded = node.name.lower()
        place = self.place(node) if node.args.get("table") is not None else self._merged.get(folded)
        if place is None and len(self.sources) == 1:
            place = 0
        if place is not None and (ref := self._of(place, folded)) is not None:
            return ref
        places = range(len(self.sources)) if place is None else (place,)
        columns = [ref for at in places if (ref := self._of(at, folded)) is not None]
        if not columns and folded in _PSEUDO:
            kind, index = _PSEUDO[folded]
            columns = [_reference(kind, pseudo_index(self.sources[at].spec, index), folded, at) for at in places]
        if len(columns) > 1:
            raise self._ambiguous(node, columns)
        return columns[0] if columns else None

    def called(self, node: exp.Expr) -> str:
        """The name of an item of the SELECT list without AS. "" if it is the name of the bound column, or its text."""
        return ""

    def star(self, node: exp.Expr) -> list[Output]:
        """The columns of `*` or `x.*`. Raises SqlError."""
        place = self.place(node)
        refs = self._all(place) if place is not None else self._whole()
        return [Output(ref.name, ref) for ref in refs]

    def is_given(self, column: AttributeRef) -> bool:
        """Whether a column cannot be NULL in any row."""
        return column.index < 0 or not self.sources[column.source].spec.schema.attributes[column.index].nullable

    def unknown(self, node: exp.Expr, at: Place, *, quoted: bool) -> InvalidInput:
        """The error for a name that no column has."""
        name, place = node.name, self.place(node)
        if place is None and any(alias.lower() == name.lower() for _, alias in self.sources):
            return self.row_as_value(node)
        specs = [spec for spec, _ in self.sources] if place is None else [self.sources[place].spec]
        names = list(dict.fromkeys(name for spec in specs for name in spec.schema.names))
        hint = advice_of(node) or nearest(name, [*names, TIME_COLUMN, ID_COLUMN])
        if quoted:
            hint = f"{hint} " * bool(hint) + f"a text stands in single quotes: '{name[:40]}'"
        if not hint:
            hint = f"{'its' if len(specs) == 1 else 'their'} columns are {listed(names)}"
        whose = ", ".join(repr(spec.name) for spec in dict.fromkeys(specs))
        verb = f"{specs[0].noun} {whose} has" if len(specs) == 1 else f"none of {whose} has"
        no = "no" if len(specs) == 1 else "a"
        return self._source.error(f"{verb} {no} column {name[:128]!r}", at, hint=hint, reason="UNKNOWN_COLUMN")

    def row_as_value(self, node: exp.Expr) -> InvalidInput:
        """The error for the name of a source where a value is needed."""
        name = node.name[:128]
        hint = f"name a column: {name}.column; count(*) counts rows"
        return self._source.unsupported(f"the row of {name!r} as a value", node, hint=hint)

    def _called(self, node: exp.Expr, stream: str) -> str:
        """A hint to write the alias, for a stream that has one in FROM."""
        alias = next((alias for spec, alias in self.sources if spec.name.lower() == stream.lower()), None)
        return (
            ""
            if alias is None
            else f"FROM calls {stream[:128]} by the name {alias}: write {alias}.{node.name[:128] or '*'}"
        )

    def _of(self, place: int, folded: str) -> AttributeRef | None:
        schema = self.sources[place].spec.schema
        position = schema.index(folded)
        if position is None:
            return None
        attribute = schema.attributes[position]
        return _reference(attribute.type, position, attribute.name, place)

    def _whole(self) -> list[AttributeRef]:
        """The columns of all sources. A column of USING comes once."""
        columns = [ref for at in range(len(self.sources)) for ref in self._all(at)]
        return [ref for ref in columns if self._merged.get(ref.name.lower(), ref.source) == ref.source]

    def _all(self, place: int) -> list[AttributeRef]:
        attributes = enumerate(self.sources[place].spec.schema.attributes)
        return [_reference(a.type, position, a.name, place) for position, a in attributes if not a.hidden]

    def _ambiguous(self, node: exp.Expr, columns: Sequence[AttributeRef]) -> InvalidInput:
        aliases = [self.sources[ref.source].alias for ref in columns]
        return self._source.error(
            f"{node.name[:128]!r} is a column of {' and of '.join(aliases)}",
            node,
            hint=f"say whose: {aliases[0]}.{node.name[:128]}",
            reason="AMBIGUOUS_COLUMN",
        )


def advice_of(node: exp.Expr) -> str:
    """A hint for a name that is a built-in value in other systems, or a part of time without quotes."""
    name, call = node.name.lower(), node.parent
    if name in PARTS and isinstance(call, exp.Anonymous) and call.name.lower() in OF_PARTS:
        return f"a part of time stands in quotes: {call.name.lower()}('{name}', ...)"
    return COLUMNS.get(name, "")


def listed(names: Sequence[str]) -> str:
    """The names of columns in a message, at most twelve."""
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


@lru_cache(maxsize=1_024)
def _reference(kind: DataType, position: int, name: str, place: int) -> AttributeRef:
    """A reference to a column, shared by all queries of the column. With fewer objects, Python's collector takes
    less time."""
    return AttributeRef(kind, position, name, place)

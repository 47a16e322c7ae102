"""The names of a statement: what its columns are called, and whose they are.

    FROM flights f, weather w        f.origin   ->   flights, place 0, column 3
                                     wind       ->   the only source that has it; refused if there are several
                                     _time      ->   f._time or w._time: it must say whose

With one source a name may say whose it is, and need not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlglot import exp

from psoup.errors import InvalidInput
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef
from psoup.model import BIGINT, ID_COLUMN, TIME_COLUMN, TIMESTAMP, DataType, StreamSpec
from psoup.sql.elsewhere.columns import COLUMNS, OF_PARTS, PARTS
from psoup.sql.source import Place, StatementText, nearest

_PSEUDO = {TIME_COLUMN: (TIMESTAMP, TIME_INDEX), ID_COLUMN: (BIGINT, ID_INDEX)}
_SHOWN = 12
"""Columns that an error lists."""


class Named(NamedTuple):
    """A stream and its name in the statement."""

    spec: StreamSpec
    alias: str


class Names:
    """The sources of a statement, in the order of FROM. `merged`: columns of USING, each that of the first source.

    These are by their names in small letters, with the place of that source.
    """

    def __init__(
        self, source: StatementText, sources: Sequence[Named], merged: Mapping[str, int] | None = None
    ) -> None:
        self.sources = sources
        self._source = source
        self._merged = merged or {}

    def place(self, node: exp.Expr) -> int | None:
        """The place of the source that the name says, in `x.name`; None if it says none. Raises SqlError."""
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
            known = f"the stream is called {aliases[0]!r} here"
        else:
            known = f"the sources are called {', '.join(aliases)}"
        raise self._source.error(
            f"{table.name!r} is not in FROM; {known}",
            table,
            hint=self._called(node, table.name) or nearest(table.name, aliases),
            reason="UNKNOWN_COLUMN",
        )

    def find(self, node: exp.Expr) -> AttributeRef | None:
        """The column that a name means; None if no source has one. Raises SqlError if several have."""
        folded = node.name.lower()
        place = self.place(node) if node.args.get("table") is not None else self._merged.get(folded)
        if place is None and len(self.sources) == 1:
            place = 0
        if place is not None and (ref := self._of(place, folded)) is not None:
            return ref
        places = range(len(self.sources)) if place is None else (place,)
        found = [ref for at in places if (ref := self._of(at, folded)) is not None]
        if not found and folded in _PSEUDO:
            kind, index = _PSEUDO[folded]
            found = [_reference(kind, index, folded, at) for at in places]
        if len(found) > 1:
            raise self._ambiguous(node, found)
        return found[0] if found else None

    def star(self, node: exp.Expr) -> list[AttributeRef]:
        """The columns that `*` or `x.*` stands for. Raises SqlError."""
        place = self.place(node)
        if place is not None:
            return self._all(place)
        columns = [ref for at in range(len(self.sources)) for ref in self._all(at)]
        return [ref for ref in columns if self._merged.get(ref.name.lower(), ref.source) == ref.source]

    def unknown(self, node: exp.Expr, at: Place, *, quoted: bool) -> InvalidInput:
        """The error for a name that no source has."""
        name, place = node.name, self.place(node)
        specs = [spec for spec, _ in self.sources] if place is None else [self.sources[place].spec]
        names = list(dict.fromkeys(name for spec in specs for name in spec.schema.names))
        hint = _advice(node) or nearest(name, [*names, TIME_COLUMN, ID_COLUMN])
        if quoted:
            hint = f"{hint} " * bool(hint) + f"a text stands in single quotes: '{name[:40]}'"
        if not hint:
            hint = f"{'its' if len(specs) == 1 else 'their'} columns are {listed(names)}"
        whose = ", ".join(repr(spec.name) for spec in dict.fromkeys(specs))
        verb = f"stream {whose} has" if len(specs) == 1 else f"none of {whose} has"
        no = "no" if len(specs) == 1 else "a"
        return self._source.error(f"{verb} {no} column {name[:128]!r}", at, hint=hint, reason="UNKNOWN_COLUMN")

    def _called(self, node: exp.Expr, stream: str) -> str:
        """A hint for a stream that FROM gives another name: that one must be written."""
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

    def _all(self, place: int) -> list[AttributeRef]:
        attributes = self.sources[place].spec.schema.attributes
        return [_reference(a.type, position, a.name, place) for position, a in enumerate(attributes)]

    def _ambiguous(self, node: exp.Expr, found: Sequence[AttributeRef]) -> InvalidInput:
        aliases = [self.sources[ref.source].alias for ref in found]
        return self._source.error(
            f"{node.name[:128]!r} is a column of {' and of '.join(aliases)}",
            node,
            hint=f"say whose: {aliases[0]}.{node.name[:128]}",
            reason="AMBIGUOUS_COLUMN",
        )


def _advice(node: exp.Expr) -> str:
    """A hint for a word that stands like a column in other systems, or for a part of time without quotes."""
    name, call = node.name.lower(), node.parent
    if name in PARTS and isinstance(call, exp.Anonymous) and call.name.lower() in OF_PARTS:
        return f"a part of time stands in quotes: {call.name.lower()}('{name}', ...)"
    return COLUMNS.get(name, "")


def listed(names: Sequence[str]) -> str:
    """The names of columns in a message, the first twelve of them."""
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


@lru_cache(maxsize=1_024)
def _reference(kind: DataType, position: int, name: str, place: int) -> AttributeRef:
    """An object for all queries that read a column: Python's collector, which stops all threads, walks fewer."""
    return AttributeRef(kind, position, name, place)

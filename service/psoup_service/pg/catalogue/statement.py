"""Reads a statement over the catalogue, and runs it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from psoup.errors import SqlError
from psoup_service.pg.catalogue.refusals import refused
from psoup_service.pg.catalogue.relations import SCHEMAS, relation_of
from psoup_service.pg.catalogue.store import Store, arrow_of
from psoup_service.pg.catalogue.translation import Translator
from psoup_service.pg.catalogue.types import REGISTERED, oid_of
from psoup_service.pg.contract import Argument, Column, Description, Sink

_ARRAYS_OF_OIDS = re.compile(r"\b(oid|regclass|regtype|regproc|regnamespace|regrole)(\s*)\[\s*\]", re.IGNORECASE)


def reads(expression: exp.Expression) -> bool:
    """Whether a statement belongs to the catalogue: it has no FROM, or a relation of the catalogue in it."""
    if not isinstance(expression, exp.Query):
        return False
    named = {entry.alias.lower() for entry in expression.find_all(exp.CTE)}
    tables = [table for table in expression.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    tables = [table for table in tables if table.db or table.name.lower() not in named]
    return not tables or any(map(_belongs, tables))


def reads_text(text: str) -> bool:
    """Whether the text of a statement belongs to the catalogue. False for a text that cannot be read."""
    try:
        return reads(parsed(text))
    except SqlError:
        return False


def _belongs(table: exp.Table) -> bool:
    schema, name = table.db.lower(), table.name.lower()
    return schema in SCHEMAS or (not schema and relation_of("", name) is not None)


def parsed(text: str) -> exp.Expression:
    """The tree of a statement, with its names in lower case unless they are quoted. Raises SqlError."""
    try:
        tree: exp.Expression = exp.maybe_parse(_ARRAYS_OF_OIDS.sub(r"_\1\2", text), dialect="postgres")
    except SqlglotError as problem:
        raise SqlError(str(problem).split("\n")[0]) from None
    for name in tree.find_all(exp.Identifier):
        if not name.quoted:
            name.set("this", name.name.lower())
            name.set("quoted", True)
    return tree


@dataclass(slots=True)
class Prepared:
    """A translated statement. `names`: its columns with their types."""

    tree: exp.Expression
    columns: list[tuple[str, str]]
    parameters: list[str]
    strange: set[str]


def prepared(text: str, store: Store, values: dict[str, str], parameters: Sequence[str]) -> Prepared:
    """Translate a statement. Raises SqlError."""
    tree = parsed(text)
    if not isinstance(tree, exp.Query):
        raise refused(text, tree)
    holder = exp.Subquery(this=tree)
    translator = Translator(text, store.filled, values, list(parameters))
    columns = translator.query(holder, None)
    return Prepared(holder.this, columns, translator.parameters, translator.strange)


def rendered(statement: Prepared, arguments: Sequence[Argument]) -> str:
    """The text for DuckDB."""
    inner = statement.tree.sql(dialect="duckdb", identify=True)
    names = [f"c{at}" for at in range(len(statement.columns))]
    shown = [
        f"f_{kind}_text({name}) AS {name}" if kind in REGISTERED else name
        for name, (_, kind) in zip(names, statement.columns, strict=True)
    ]
    return f"SELECT {', '.join(shown)} FROM ({inner}) AS q({', '.join(names)})"


class CatalogueStatement:
    """See `contract.Statement`. `prepare`: translates it over the present catalogue; `run`: runs a text."""

    def __init__(
        self,
        prepare: Callable[[], Awaitable[tuple[Store, Prepared]]],
        execute: Callable[[Store, str], Awaitable[pa.Table]],
    ) -> None:
        self._prepare = prepare
        self._execute = execute

    async def describe(self) -> Description:
        """The types of its parameters and columns."""
        _, statement = await self._prepare()
        return Description(tuple(map(oid_of, statement.parameters)), _columns(statement))

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """Run it, and hand over the rows."""
        store, statement = await self._prepare()
        table = await self._execute(store, rendered(statement, arguments))
        columns = _columns(statement)
        kinds = [pa.string() if kind in REGISTERED else arrow_of(kind) for _, kind in statement.columns]
        arrays = [array.cast(kind) for array, kind in zip(table.columns, kinds, strict=True)]
        table = pa.table(arrays, names=[column.name for column in columns])
        await sink.begin(columns)
        for batch in table.to_batches(max_chunksize=4_096):
            await sink.batch(batch)
        return f"SELECT {table.num_rows}"


def _columns(statement: Prepared) -> tuple[Column, ...]:
    return tuple(Column(name, oid_of(kind)) for name, kind in statement.columns)

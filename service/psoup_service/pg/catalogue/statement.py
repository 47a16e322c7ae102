"""Reads a statement over the catalogue, and runs it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from psoup.errors import ResourceExhausted, SqlError
from psoup_service.pg.catalogue.arguments import supplied
from psoup_service.pg.catalogue.filled_store import MOST_BYTES, MOST_VIEWS
from psoup_service.pg.catalogue.growth import Growth, bounded
from psoup_service.pg.catalogue.guards import check_size, checked
from psoup_service.pg.catalogue.long_lists import shortened
from psoup_service.pg.catalogue.relations import SCHEMAS, relation_of
from psoup_service.pg.catalogue.special_calls import Change, seconds_of
from psoup_service.pg.catalogue.store import arrow_of
from psoup_service.pg.catalogue.stores import Stores, Visitor
from psoup_service.pg.catalogue.translation import Translator
from psoup_service.pg.catalogue.types import REGISTERED, oid_of
from psoup_service.pg.contract import Argument, Column, Description, Notice, Sink
from psoup_service.pg.statements.completeness import CODE
from psoup_service.pg.statements.settings import SessionSettings

Variables = Mapping[str, str | Mapping[str, str]]

_ARRAYS_OF_OIDS = re.compile(r"\b(oid|regclass|regtype|regproc|regnamespace|regrole)(\s*)\[\s*\]", re.IGNORECASE)
_LABELS = re.compile(r"(\bAS\s+)(select|insert|update|delete|references|default|order|table)\b(?!\s*\()", re.IGNORECASE)
"""Words that PostgreSQL takes as names after AS, and sqlglot does not."""

_OF_CATALOGUE = re.compile(r"\bpg_catalog\b|\binformation_schema\b|\bpg_\w+", re.IGNORECASE)
_TEXTS = REGISTERED | {"interval"}
"""Types whose values are converted to texts within DuckDB."""

_ROWS_OF_A_BATCH = 4_096


def reads(expression: exp.Expr) -> bool:
    """Whether a statement belongs to the catalogue: it has no FROM, or a relation of the catalogue in it."""
    if not isinstance(expression, exp.Query):
        return False
    named = {entry.alias.lower() for entry in expression.find_all(exp.CTE)}
    tables = [table for table in expression.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    tables = [table for table in tables if table.db or table.name.lower() not in named]
    return not tables or any(map(_belongs, tables))


def _belongs(table: exp.Table) -> bool:
    schema, name = table.db.lower(), table.name.lower()
    return schema in SCHEMAS or (not schema and relation_of("", name) is not None)


def _tree(text: str) -> exp.Expression:
    try:
        tree: exp.Expression = exp.maybe_parse(text, dialect="postgres")
    except SqlglotError as problem:
        raise SqlError(f"this cannot be read as SQL: {str(problem).splitlines()[0]}") from None
    return tree


def _parsed(text: str) -> exp.Expression:
    """The tree of a statement, with its names in lower case unless they are quoted. Raises SqlError."""
    checked(text)
    text = _ARRAYS_OF_OIDS.sub(r"_\1\2", text)
    try:
        tree = _tree(text)
    except SqlError:
        quoted = _LABELS.sub(r'\1"\2"', text)
        if quoted == text:
            raise
        tree = _tree(quoted)
    for name in tree.find_all(exp.Identifier):
        if not name.quoted:
            name.set("this", name.name.lower())
            name.set("quoted", True)
    return tree


@dataclass(slots=True)
class Prepared:
    """A translated statement. `columns`: names and types. `parameters`: types. `strange`: unknown relations.

    `changes`: the settings that it changes. `sleeps`: the seconds that it waits. `lists`: its long lists. `growth`:
    limits of its texts and arrays.
    """

    tree: exp.Expression
    columns: list[tuple[str, str]]
    parameters: list[str]
    strange: set[str]
    changes: list[Change]
    sleeps: list[exp.Expression]
    lists: list[list[str]]
    growth: Growth

    @property
    def lists_objects(self) -> bool:
        """Whether it reads a relation of the catalogue."""
        return any(table.db in {"cat", "info"} for table in self.tree.find_all(exp.Table))


def prepared(text: str, values: Mapping[str, str], parameters: Sequence[str]) -> Prepared | None:
    """Translate a statement; None for a text that does not read the catalogue. O(length), some milliseconds.

    `values`: constants of the session. Raises SqlError and ResourceExhausted.
    """
    with _bounded():
        return _prepared(text, values, parameters)


@contextmanager
def _bounded() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise ResourceExhausted(
            "the statement over the catalogue has too long a chain of operators; make it shorter", reason="TOO_DEEP"
        ) from None


def _prepared(text: str, values: Mapping[str, str], parameters: Sequence[str]) -> Prepared | None:
    short, lists = shortened(text)
    try:
        tree = _parsed(short)
    except (SqlError, RecursionError):
        if _OF_CATALOGUE.search(text) is None:
            return None
        raise
    cut = isinstance(tree, exp.Select) and not tree.expressions  # a SELECT alone: PSoup's parser says what it lacks
    if cut or not reads(tree):
        return None
    holder = exp.Subquery(this=tree)
    translator = Translator(short, values, list(parameters), lists)
    columns = translator.statement(holder)
    check_size(holder)
    growth, effects = bounded(holder, translator.parameters), translator.expressions
    parts = translator.parameters, translator.strange, effects.changes, effects.sleeps
    return Prepared(holder.this, columns, *parts, lists, growth)


class Rendering(NamedTuple):
    """The text of a statement for DuckDB, with the limits of its texts and arrays."""

    text: str
    growth: Growth


def rendered(statement: Prepared, arguments: Sequence[Argument]) -> Rendering:
    """The text for DuckDB. Raises ResourceExhausted."""
    with _bounded():
        return Rendering(_rendered(statement, arguments), statement.growth)


def _rendered(statement: Prepared, arguments: Sequence[Argument]) -> str:
    """The text. DuckDB collects the rows first (MATERIALIZED): its memory limit covers only collected rows."""
    tree = supplied(statement.tree, statement.parameters, arguments, statement.lists)
    names = [f"c{at}" for at in range(len(statement.columns))]
    shown = [_shown(name, kind) for name, (_, kind) in zip(names, statement.columns, strict=True)]
    inner = tree.sql(dialect="duckdb", identify=True)
    return f"WITH q({', '.join(names)}) AS MATERIALIZED ({inner}) SELECT {', '.join(shown)} FROM q"


def _shown(name: str, kind: str) -> str:
    """The column of the result for a column: names and intervals leave DuckDB as texts."""
    if kind == "interval":
        return f"replace(CAST({name} AS VARCHAR), 'month', 'mon') AS {name}"
    return f"f_{kind}_text({name}) AS {name}" if kind in REGISTERED else name


@dataclass(slots=True)
class Reading:
    """The parts of a connection that its statements share. `variables`: returns the values of the session.

    `noticed`: whether the client knows that its catalogue does not show all streams and views.
    """

    stores: Stores
    visitor: Visitor
    tenant: str
    settings: SessionSettings
    variables: Callable[[], Variables]
    noticed: bool = False


class CatalogueStatement:
    """See `contract.Statement`."""

    def __init__(self, reading: Reading, statement: Prepared) -> None:
        self._reading = reading
        self._statement = statement
        self._columns = tuple(Column(name, oid_of(kind)) for name, kind in statement.columns)

    async def describe(self) -> Description:
        """The types of its parameters and columns."""
        return Description(tuple(map(oid_of, self._statement.parameters)), self._columns)

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """Run the statement, and send its rows."""
        reading, statement = self._reading, self._statement
        size = sum(len(argument.raw or b"") for argument in arguments)
        work = lambda: rendered(statement, arguments)  # noqa: E731
        text, growth = await reading.stores.read(reading.tenant, size, work)
        self._change(arguments)
        await self._sleep(arguments)
        async with reading.stores.answer(reading.visitor, text, growth, reading.variables()) as answer:
            rows = typed(answer.rows, statement.columns)
            if answer.hidden and statement.lists_objects and reading.settings.notices and not reading.noticed:
                reading.noticed = True
                sink.notice(_hidden(answer.hidden))
            await sink.begin(self._columns)
            for batch in rows.to_batches(max_chunksize=_ROWS_OF_A_BATCH):
                await sink.batch(batch)
            return f"SELECT {rows.num_rows}"

    async def _sleep(self, arguments: Sequence[Argument]) -> None:
        """Wait for the seconds in the statement's calls of pg_sleep. Raises ResourceExhausted at the deadline."""
        seconds = 0.0
        for value in self._statement.sleeps:
            constant = supplied(value, self._statement.parameters, arguments)
            seconds += seconds_of(constant)
        longest = self._reading.visitor.calls.answering.limits.default_deadline_s
        await asyncio.sleep(min(seconds, longest))
        if seconds > longest:
            raise ResourceExhausted(
                f"pg_sleep ended at the deadline of a statement, after {longest:g} s (default_deadline_s)",
                reason="DEADLINE_EXCEEDED",
            )

    def _change(self, arguments: Sequence[Argument]) -> None:
        """Change the settings in the statement's calls of set_config. Raises InvalidInput."""
        for name, value, local in self._statement.changes:
            constants = supplied(value, self._statement.parameters, arguments)
            constant = constants.find(exp.Literal)
            self._reading.settings.set(name, "" if constant is None else constant.name, local=local)


def typed(table: pa.Table, columns: Sequence[tuple[str, str]]) -> pa.Table:
    """The rows, cast to the types of the described columns."""
    kinds = [pa.string() if kind in _TEXTS else arrow_of(kind) for _, kind in columns]
    arrays = [array.cast(kind) for array, kind in zip(table.columns, kinds, strict=True)]
    return pa.table(arrays, names=[name for name, _ in columns])


def _hidden(count: int) -> Notice:
    subject = "1 stream or view" if count == 1 else f"{count:,} streams or views"
    return Notice(
        "NOTICE",
        CODE,
        f"the catalogue does not show {subject}: it shows the oldest {MOST_VIEWS:,} views, within"
        f" {MOST_BYTES >> 20} MiB",
        hint='Each of them can be read by its name: SELECT * FROM queries."key". The command psoup queries lists all.',
    )

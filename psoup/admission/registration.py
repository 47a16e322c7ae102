"""Registration: a text, or a whole block of them, to bound queries that their streams can answer.

    RegisterMany(statements)          each parsed
    RegisterMany([template], rows)    parsed once, then only values are put in
                    └─ the first that is wrong refuses the block, and says which it is

Looks only: what is returned has changed nothing that a decision depends on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from psoup.admission.catalog import Tenant
from psoup.admission.windows import check_window
from psoup.collector import without_collector
from psoup.config import EngineConfig
from psoup.errors import InvalidInput, OutOfRange
from psoup.events import RegisterMany
from psoup.model import StreamSpec
from psoup.query import Parameter, StandingQuery
from psoup.sql import Template, prepare
from psoup.sql.bound import BoundBlock
from psoup.sql.values import (
    Columns,
    column_bytes,
    columns_of_rows,
    columns_of_table,
    numbers_of_text,
    rows_of_columns,
)


def bind_one(tenant: Tenant, sql: str) -> StandingQuery:
    """The query of a text, checked against its stream. Raises InvalidInput or OutOfRange."""

    def lookup(name: str) -> StreamSpec | None:
        found = tenant.find(name)
        return None if found is None else found.spec

    query = tenant.forms.query(sql, lookup, tenant.names())
    if query.text != sql:  # a retry is recognised by the text as it was sent
        query = replace(query, text=sql)
    check_window(query.window, tenant.stream(query.stream).spec)
    return query


def check_block(command: RegisterMany, config: EngineConfig) -> None:
    """Raise InvalidInput for a block that is empty, too large or of two kinds."""
    if command.rows is not None and len(command.statements) != 1:
        raise InvalidInput(
            f"rows of parameters belong to one statement, not to {len(command.statements)}", reason="BLOCK"
        )
    if not command.count:
        raise InvalidInput("the block holds no queries; give at least one", reason="BLOCK")
    if command.count > config.block_queries:
        raise InvalidInput(
            f"the block holds {command.count:,} queries; {config.block_queries:,} is the most, send it in parts",
            reason="BLOCK_TOO_LARGE",
            found=command.count,
            limit=config.block_queries,
        )


_TEMPLATES = 16
"""Prepared statements that are kept for a tenant."""

Rows = Sequence[Sequence[Parameter]]


def bind_many(tenant: Tenant, command: RegisterMany, columnar: int) -> tuple[Sequence[StandingQuery], Rows]:
    """The queries of a block, in order, and the rows that they were made of, as tuples.

    From `columnar` rows on they are a `BoundBlock` where that can be, which has the rows itself. An error says which
    query it is of, counted from 1.
    """
    if command.rows is None:
        queries = []
        for number, sql in enumerate(command.statements, command.number):
            try:
                queries.append(bind_one(tenant, sql))
            except (InvalidInput, OutOfRange) as problem:
                raise _of(number, problem) from problem
        return queries, []

    template = _template(tenant, command.statements[0])
    rows, columns = command.rows, None
    if isinstance(rows, pa.Table):
        columns = columns_of_table(rows)
    elif command.count >= columnar:
        columns = columns_of_rows(rows, len(template.names))
    if columns is not None and command.count >= columnar:
        block = _block(template, columns, command.names)
        if block is not None:
            return block, ()
    if isinstance(rows, pa.Table) and columns is not None:
        rows = rows_of_columns(columns, rows.column_names)
    with without_collector():
        return _bind_rows(template, replace(command, rows=rows))


def _block(template: Template, columns: Columns, names: Sequence[str]) -> BoundBlock | None:
    """The queries as columns; None if they must be looked at one by one."""
    if len(columns) != len(template.names):
        return None
    if names:
        columns = tuple(columns[position] for position in template.order(names))
    return template.block(tuple(map(numbers_of_text, columns, template.types)))


def _template(tenant: Tenant, sql: str) -> Template:
    """The statement, prepared now or by an earlier call: blocks of one statement share what they have in common."""

    def lookup(name: str) -> StreamSpec | None:
        found = tenant.find(name)
        return None if found is None else found.spec

    known = tenant.templates.pop(sql, None)
    if known is None or lookup(known[0].stream) is not known[1]:
        template = prepare(sql, lookup, tenant.names())
        spec = tenant.stream(template.stream).spec
        check_window(template.window, spec)
        known = (template, spec)
    tenant.templates[sql] = known
    while len(tenant.templates) > _TEMPLATES:
        del tenant.templates[next(iter(tenant.templates))]
    return known[0]


def _bind_rows(template: Template, command: RegisterMany) -> tuple[list[StandingQuery], Rows]:
    assert command.rows is not None
    rows = [template.row(values, number) for number, values in enumerate(command.rows, command.number)]
    if command.names:
        order = template.order(command.names)
        rows = [tuple([row[position] for position in order]) for row in rows]
    return [template.bind(row, number) for number, row in enumerate(rows, command.number)], rows


def block_digest(command: RegisterMany) -> bytes:
    """16 bytes that identify what is asked for, without the request ID. O(bytes)."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr(command.names).encode())
    for sql in command.statements:
        digest.update(sql.encode("utf-8", "surrogatepass") + b"\0")
    if isinstance(command.rows, pa.Table):
        for column in columns_of_table(command.rows):
            for part in column_bytes(column):
                digest.update(part)
        return digest.digest()
    for row in command.rows or ():
        digest.update(repr(row).encode("utf-8", "surrogatepass") + b"\1")
    return digest.digest()


def is_digest(command: RegisterMany, digest: bytes) -> bool:
    """Whether a `digest` is that of what is asked for, or what logs of earlier releases have for it."""
    if digest == block_digest(command):
        return True
    if not isinstance(command.rows, pa.Table):
        return False
    rows = rows_of_columns(columns_of_table(command.rows), command.rows.column_names)
    return digest == block_digest(replace(command, rows=rows))


def _of(number: int, problem: InvalidInput | OutOfRange) -> InvalidInput | OutOfRange:
    """The same error, with the query in its message and facts."""
    problem.message = f"query {number}: {problem.message}"
    problem.args = (problem.message,)
    problem.facts["query"] = str(number)
    return problem

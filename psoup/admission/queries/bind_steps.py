"""Binding of statements and values to queries, in steps. This is the slow part of a registration.

    RegisterMany(statements)          each parsed: a step each
    RegisterMany([template], rows)    parsed once, then values are filled in: as columns, or a step for each row
                    └─ the first wrong query refuses the block, with its number

Another thread, the binder, may make a binding while the sequencer prepares other commands. A binding depends only on
the streams that the names in its statements mean. `stands` checks that these have not changed before the registration.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext

import numpy as np
import pyarrow as pa

from psoup.admission.budget import MemoryBudget, block_charge, charged_less, tags_charge, text_charge
from psoup.admission.catalog import KnownTenant
from psoup.admission.queries.tags import check_tags, tags_of
from psoup.clauses.factor_table import Preparation
from psoup.config import EngineConfig
from psoup.data.windows import check_window
from psoup.errors import Internal, InvalidInput, OutOfRange, PSoupError
from psoup.events.commands import Command, Register, RegisterMany
from psoup.events.tags import TagColumns, content_of
from psoup.invariants import ensure
from psoup.model import StreamSpec
from psoup.plan.standing_query import Parameter, StandingQuery
from psoup.sql import PreparedStatement, prepare
from psoup.sql.lifetime import lifetime_days
from psoup.sql.parser.guards import check_budget
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.ladder import ParameterValues, Rows, bind_text, bind_values
from psoup.sql.templates.values import column_bytes, columns_of_table
from psoup.work.gc_pause import without_collector

LONG_TEXT = 256
"""If statements have more characters, another thread binds them. A new form takes 10 us for each character."""
LONG_BLOCK = 256
"""If a block has more queries, another thread binds it."""

_TEMPLATES = 16
"""The most prepared statements that are kept for a tenant."""


def takes_long(command: Command) -> bool:
    """Whether a command should be bound on another thread."""
    if isinstance(command, Register):
        return len(command.sql) > LONG_TEXT
    if isinstance(command, RegisterMany):
        return command.count > LONG_BLOCK or sum(map(len, command.statements)) > LONG_TEXT
    return False


class Binding:
    """The binding of one command, in progress. Only one thread may use it at a time.

    `beside`: whether the binder's thread makes it, with its own statement caches. For many queries it then also
    prepares the engine's data. `budget`: is checked at each step, so that a block without room ends early.
    """

    def __init__(
        self,
        tenant: KnownTenant,
        command: Register | RegisterMany,
        config: EngineConfig,
        budget: MemoryBudget,
        *,
        beside: bool = False,
    ) -> None:
        self.command = command
        self.queries: Sequence[StandingQuery] = ()
        self.rows: Rows = ()
        """The values of each query of a template, as tuples. Empty if the queries are a `BoundBlock`."""
        count = command.count if isinstance(command, RegisterMany) else 1
        self.charge = -count * charged_less(np.array([command.keeping.code], np.uint8))
        """Bytes charged for the queries."""
        self._digest = b""
        self._tags: TagColumns | None = None
        self._tenant = tenant
        self._columnar = config.columnar_queries
        self._budget = budget
        self._beside = beside
        self._statements = tenant.statements_beside if beside else tenant.statements
        self._specs: dict[str, StreamSpec | None] = {}
        """The stream that each name meant when it was bound."""
        self._problem: PSoupError | None = None
        self._done = self._tagged = False
        self._values = isinstance(command, RegisterMany) and command.rows is not None
        self._steps = self._work()

    def advance(self, go_on: Callable[[], bool] = lambda: True) -> bool:
        """Do steps while `go_on` returns true. Returns whether the work is done. Keeps an error for `check`."""
        try:
            # Values leave no cycles. Syntax trees do; a collection of many at once would stop all threads for 20 ms.
            with without_collector() if self._values else nullcontext():
                for _ in self._steps:
                    if not go_on():
                        return False
        except PSoupError as problem:
            self._problem = problem
        except Exception as problem:  # a defect, or too little memory, costs one command
            self._problem = Internal(f"{type(self.command).__name__} failed inside PSoup: {type(problem).__name__}")
            self._problem.__cause__ = problem
        self._done = True
        return True

    def check(self) -> None:
        """Raise the error of the command, if it has one."""
        ensure(self._done, self, "it is asked before it has ended")
        if self._problem is not None:
            raise self._problem

    def tags(self) -> TagColumns | None:
        """The keys and labels of a block, if it has any. Raises InvalidInput for invalid ones. O(bytes), once."""
        command = self.command
        assert isinstance(command, RegisterMany)
        if not self._tagged:
            tags = command.tags
            if command.key or command.labels:
                if not isinstance(command.rows, pa.Table):
                    raise InvalidInput("keys and labels are columns of a table of parameters; there is none")
                tags = tags_of(command.rows, command.key, command.labels, command.number)
            if tags is not None:
                check_tags(tags, command.tenant, command.number)
            self._tags = tags
            self._tagged = True
        return self._tags

    def query(self, row: int) -> StandingQuery | None:
        """The query of a row. Binds the rest of the command first. None if the command will be refused."""
        self.advance()
        return self.queries[row] if self._problem is None else None

    def stands(self, tenant: KnownTenant) -> bool:
        """Whether all names still mean the same streams. Also True if the binding has failed, as `check` then raises.

        False for a binding without queries, as a repeated command is not bound.
        """
        if self._problem is not None:
            return True
        return bool(len(self.queries)) and all(_spec(tenant, name) is spec for name, spec in self._specs.items())

    def digest(self) -> bytes:
        """The digest of a block's content without its request ID, 16 bytes. Computed once, in O(bytes)."""
        assert isinstance(self.command, RegisterMany)
        self._digest = self._digest or block_digest(self.command)
        return self._digest

    def is_digest(self, digest: bytes) -> bool:
        """Whether `digest` belongs to the block."""
        return digest == self.digest()

    # Inside ---------------------------------------------------------------------------------------------------

    def _work(self) -> Iterator[None]:
        command = self.command
        if isinstance(command, RegisterMany):
            self.charge += tags_charge(self.tags()) * command.count
            if command.request_id or command.keyed:
                self.digest()
            yield
        keyed = command.keyed if isinstance(command, RegisterMany) else bool(command.tag.key)
        if self._beside and not keyed and self._tenant.requests.knows(command.request_id):
            return  # the command is repeated, so admission repeats its answer
        if isinstance(command, Register):
            yield from self._bind_texts([command.sql], None)
        elif command.rows is None:
            yield from self._bind_texts(command.statements, command.number)
        else:
            yield from self._bind_rows(command, command.rows)

    def _lookup(self, name: str) -> StreamSpec | None:
        spec = self._specs[name] = _spec(self._tenant, name)
        return spec

    def _bind_texts(self, texts: Sequence[str], number: int | None) -> Iterator[None]:
        queries, made = [], Preparation() if self._beside and number is not None else None
        for place, sql in enumerate(texts):
            try:
                queries.append(self._bind(sql))
            except (InvalidInput, OutOfRange) as problem:
                if number is not None:
                    _name(number + place, problem)
                raise
            self._count(text_charge(queries[-1]), len(texts))
            if made is not None:
                made = _with(made, queries[-1])
            yield
        self.queries = queries if made is None else made.done(queries)

    def _bind(self, sql: str) -> StandingQuery:
        check_budget(sql)
        query = bind_text(self._statements.forms, sql, self._lookup, self._tenant.names())
        for selection in query.selections:
            check_window(selection.source.window, self._tenant.stream(selection.source.spec.name).spec)
        return query

    def _bind_rows(self, command: RegisterMany, rows: Rows | pa.Table) -> Iterator[None]:
        template = self._template(command.statements[0])
        yield
        if isinstance(rows, pa.Table):
            values = _values_of(template, command, rows)
        else:
            values = ParameterValues(rows=rows, names=command.names)
        yield
        queries, taken = list[StandingQuery](), list[Sequence[Parameter]]()
        made = Preparation() if self._beside else None
        for step in bind_values(template, values, columnar=self._columnar, number=command.number):
            if isinstance(step, BoundBlock):
                template.check_numbers(step.columns, command.number)
                self._count(block_charge(step), len(step))
                self.queries = step
                return
            if step is not None:
                row, query = step
                template.check_row(row, command.number + len(queries))
                taken.append(row)
                queries.append(query)
                self._count(text_charge(query), command.count)
                if made is not None:
                    made = _with(made, query)
            yield
        self.queries = queries if made is None else made.done(queries)
        self.rows = taken

    def _template(self, sql: str) -> PreparedStatement:
        """The prepared statement of a template. Calls with the same statement share it."""
        templates = self._statements.templates
        template = templates.pop(sql, None)
        if template is None or not all(self._lookup(source.spec.name) is source.spec for source in template.sources):
            check_budget(sql)
            template = prepare(sql, self._lookup, self._tenant.names())
            for source in template.sources:
                check_window(source.window, source.spec)
        templates[sql] = template
        while len(templates) > _TEMPLATES:
            del templates[next(iter(templates))]
        return template

    def _count(self, charge: int, count: int) -> None:
        self.charge += charge
        self._budget.check_queries(self.charge, count)


def _with(made: Preparation, query: StandingQuery) -> Preparation | None:
    """Add a query to the preparation. Returns None for a join, as its sides are not queries of the block."""
    if query.sides:
        return None
    made.add(query)
    return made


def _spec(tenant: KnownTenant, name: str) -> StreamSpec | None:
    stream = tenant.find(name)
    return None if stream is None else stream.spec


def _values_of(template: PreparedStatement, command: RegisterMany, rows: pa.Table) -> ParameterValues:
    """The columns of parameters. Leaves out columns of keys and labels, unless the statement names them."""
    tagged = {command.key, *command.labels} - {""}
    if command.names:
        places = [place for place, name in enumerate(command.names) if name not in tagged or template.takes(name)]
    else:
        places = [place for place, name in enumerate(rows.column_names) if name not in tagged]
    table = rows.select(places) if tagged else rows
    names = tuple(table.column_names) if command.names else ()
    if not names:
        template.check_columns(table.column_names)
    return ParameterValues(columns_of_table(table), names=names, titles=table.column_names)


def _name(number: int, problem: PSoupError) -> None:
    """Add the number of the query to the error's message and facts."""
    problem.message = f"query {number}: {problem.message}"
    problem.args = (problem.message,)
    problem.facts["query"] = str(number)


def block_digest(command: RegisterMany) -> bytes:
    """The digest of a block's content without its request ID, 16 bytes. O(bytes)."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr(command.names).encode())
    if command.key or command.labels:
        digest.update(repr((command.key, *sorted(command.labels))).encode())
    for part in () if command.tags is None else content_of(command.tags):
        digest.update(part)
    if command.expires_after:
        digest.update(b"expires %d" % lifetime_days(command.expires_after))
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

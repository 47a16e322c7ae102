"""Translates a SELECT over the catalogue for DuckDB, and finds the types of its columns.

    SELECT c.oid, relname FROM pg_class c     ─>  SELECT c.oid, c.relname FROM cat.pg_class AS c
                                                  columns: oid oid, relname name

Only nodes of an allow-list pass. Each is visited once, with the scope in which its names are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from psoup_service.pg.catalogue.content import FILLED
from psoup_service.pg.catalogue.expressions import Expressions
from psoup_service.pg.catalogue.functions import ROWS
from psoup_service.pg.catalogue.guards import check_columns
from psoup_service.pg.catalogue.output_names import name_of
from psoup_service.pg.catalogue.refusals import refused, unknown
from psoup_service.pg.catalogue.relations import SCHEMAS, relation_of
from psoup_service.pg.catalogue.scope import Scope, Source
from psoup_service.pg.catalogue.special_calls import series
from psoup_service.pg.catalogue.types import element_of, is_array, storage_of
from psoup_service.pg.catalogue.views import views

Columns = list[tuple[str, str]]

_SELECT_PARTS = frozenset(
    {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_"}
    | {"laterals", "windows", "kind", "hint", "operation_modifiers", "exclude"}
)
_LIMITS = (exp.Limit, exp.Offset, exp.Fetch)


@dataclass(slots=True)
class Translator:
    """Translates one statement. `values`: constants of the session. `parameters`: their types, "" if unknown."""

    text: str
    values: Mapping[str, str]
    parameters: list[str] = field(default_factory=list)
    lists: Sequence[Sequence[str]] = ()
    strange: set[str] = field(default_factory=set)
    """The names of relations that PostgreSQL 15 does not have."""
    unknown: list[tuple[exp.Table, dict[str, str]]] = field(default_factory=list)
    """The places of these relations in the tree, and the columns that the statement reads of each."""
    expressions: Expressions = field(init=False)

    def __post_init__(self) -> None:
        self.expressions = Expressions(self.text, self.values, self.parameters, self.lists, self.query)

    def statement(self, node: exp.Expression) -> Columns:
        """Translate a whole statement in place. Returns its columns."""
        columns = self.query(node, None)
        for table, read in self.unknown:
            _empty(table, read or {"?": "text"})
        return columns

    def query(self, node: exp.Expression, outer: Scope | None) -> Columns:
        """Translate a query in place. Returns its columns."""
        if isinstance(node, exp.Subquery):
            scope = Scope(outer)
            self._with(node, scope)
            columns = self.query(node.this, scope)
            self._tail(node, Scope(scope, {"": Source(columns)}))
            return columns
        if isinstance(node, exp.SetOperation):
            scope = Scope(outer)
            self._with(node, scope)
            left = self.query(node.this, scope)
            right = self.query(node.expression, scope)
            columns = [(name, _either(kind, right, at)) for at, (name, kind) in enumerate(left)]
            self._tail(node, Scope(scope, {"": Source(columns)}))
            return columns
        if isinstance(node, exp.Values):
            return self._values(node, Scope(outer))
        if isinstance(node, exp.Select):
            return self._select(node, outer)
        raise refused(self.text, node)

    def _select(self, node: exp.Select, outer: Scope | None) -> Columns:
        for part, value in node.args.items():
            if value and part not in _SELECT_PARTS and part != "locks":
                raise refused(self.text, node, part.rstrip("_").upper())
        node.set("locks", None)
        scope = Scope(outer)
        self._with(node, scope)
        start = node.args.get("from_")
        if start is not None:
            self._source(start.this, scope)
            self._joined(start.this, scope)
        self._joined(node, scope)
        self._expand(node, scope)
        check_columns(len(node.expressions))
        columns = self._projections(node, scope)
        scope.output = dict(columns)
        for part in ("where", "group", "having", "distinct", "windows"):
            self._part(node.args.get(part), scope)
        self._tail(node, scope)
        return columns

    def _with(self, node: exp.Expression, scope: Scope) -> None:
        clause = node.args.get("with_")
        if clause is None:
            return
        for entry in clause.expressions:
            query, alias = entry.this, entry.args["alias"]
            if clause.args.get("recursive") and isinstance(query, exp.SetOperation):
                left = self.query(query.this.copy(), scope)
                scope.named[alias.name] = _renamed(left, alias)
            columns = self.query(query, scope)
            scope.named[alias.name] = _renamed(columns, alias)

    def _joined(self, node: exp.Expression, scope: Scope) -> None:
        """Translate the joins of a SELECT, or of a source in brackets."""
        for join in node.args.get("joins") or []:
            before = {name for source in scope.sources.values() for name, _ in source.columns}
            alias = self._source(join.this, scope)
            self._joined(join.this, scope)
            if join.args.get("method") == "NATURAL":
                scope.shared += [name for name, _ in scope.sources[alias].columns if name in before]
            scope.shared += [column.name for column in join.args.get("using") or []]
            condition = join.args.get("on")
            if condition is not None:
                self.expressions.type_of(condition, scope)

    def _source(self, node: exp.Expression, scope: Scope) -> str:
        """Translate a source of FROM, and add it to the scope. Returns its alias."""
        if isinstance(node, exp.Lateral):
            node = node if node.this is None else self._lateral(node)
        inner = node.this if isinstance(node, exp.Lateral) else node
        alias = node.args.get("alias") or inner.args.get("alias")
        if isinstance(inner, exp.Table) and isinstance(inner.this, exp.Identifier):
            return self._table(inner, scope)
        if isinstance(inner, exp.Subquery) and isinstance(inner.this, exp.Table | exp.Subquery) and alias is None:
            name = self._source(inner.this, scope)  # joins in brackets
            self._joined(inner.this, scope)
            return name
        if isinstance(inner, exp.Subquery):
            columns = self.query(inner.this, scope)
        elif isinstance(inner, exp.Values):
            columns = self._values(inner, scope)
        else:
            if alias is None or not alias.name:
                alias = _alias(inner.this.name or "unnest" if isinstance(inner, exp.Table) else "unnest")
                node.set("alias", alias)
            columns = self._function(inner, scope)
        if alias is None or not alias.name:
            name = f"s{len(scope.sources)}"
            node.set("alias", _alias(name))
        else:
            name = alias.name
            columns = _renamed(columns, alias)
        scope.sources[name] = Source(columns)
        return name

    def _lateral(self, node: exp.Lateral) -> exp.Expression:
        if node.args.get("view") or not isinstance(node.this, exp.Subquery | exp.Unnest | exp.Anonymous | exp.Func):
            raise refused(self.text, node)
        return node

    def _function(self, node: exp.Expression, scope: Scope) -> Columns:
        """The columns of a function in FROM: generate_series, unnest, or one that returns a row."""
        if isinstance(node, exp.Unnest):
            columns = [("unnest", element_of(self.expressions.type_of(part, scope))) for part in node.expressions]
            offset = node.args.get("offset")
            if offset:
                columns.append((offset.name if isinstance(offset, exp.Identifier) else "ordinality", "int8"))
            return columns
        call: Any = node.this if isinstance(node, exp.Table | exp.Lateral) else node
        if isinstance(call, exp.Anonymous):
            if call.name.lower() == "pg_get_keywords":
                table = exp.table_("keywords", db="known", quoted=True)
                table.set("alias", node.args["alias"].copy())
                node.replace(table)
                return [("word", "text"), ("catcode", "char")]
            row_columns = ROWS.get(call.name.lower())
            if row_columns is not None:
                _empty(node, row_columns)
                return list(row_columns.items())
            call = exp.func(call.name, *call.expressions, dialect="postgres")
        alias = node.args.get("alias")
        name = alias.name if alias is not None and alias.name else call.sql_name().lower()
        if isinstance(call, exp.ExplodingGenerateSeries):
            self._inner(call, scope)
            _unnested(node, exp.Explode(this=series(call)), name)
            return [(name, "int4")]
        if isinstance(call, exp.Explode | exp.Unnest):
            array = call.this if isinstance(call, exp.Explode) else call.expressions[0]
            holder = exp.Paren(this=array.copy())
            kind = element_of(self.expressions.type_of(holder, scope))
            _unnested(node, exp.Explode(this=holder.this), name)
            return [(name, kind)]
        if isinstance(call, exp.Func):
            holder = exp.Paren(this=call.copy())
            kind = self.expressions.type_of(holder, scope)
            _unnested(node, holder.this, name)
            return [(name, kind)]
        raise refused(self.text, node)

    def _inner(self, node: exp.Expression, scope: Scope) -> None:
        for part in list(node.iter_expressions()):
            self.expressions.type_of(part, scope)

    def _table(self, node: exp.Table, scope: Scope) -> str:
        schema, name = node.db, node.name
        alias = node.alias or name
        extra = [part for part in ("sample", "pivots", "version", "when", "hints", "changes") if node.args.get(part)]
        if extra or (node.args.get("catalog") and not schema):
            raise refused(self.text, node, extra[0].upper() if extra else "")
        node.set("only", None)
        columns = None if schema else scope.with_query(name)
        if columns is not None:
            renamed = node.args.get("alias")
            scope.sources[alias] = Source(columns if renamed is None else _renamed(columns, renamed))
            return alias
        relation = relation_of(schema, name)
        if relation is None and schema not in SCHEMAS:
            raise refused(self.text, node, f"the stream or view {f'{schema}.' if schema else ''}{name}")
        node.set("catalog", None)
        if node.args.get("alias") is None:
            node.set("alias", _alias(alias))
        if relation is None:
            self.strange.add(f"{schema}.{name}")
            read = dict[str, str]()
            scope.sources[alias] = Source([], read=read)
            self.unknown.append((node, read))
            return alias
        if (relation.schema, relation.name) in FILLED or (relation.schema, relation.name) in views():
            node.set("db", exp.to_identifier("cat" if relation.schema == "pg_catalog" else "info", quoted=True))
        else:
            _empty(node, relation.columns)
        columns = list(relation.columns.items())
        renamed = node.args.get("alias")
        scope.sources[alias] = Source(columns if renamed is None else _renamed(columns, renamed), relation.oid)
        return alias

    def _expand(self, node: exp.Select, scope: Scope) -> None:
        """Replace the stars of a SELECT list by columns."""
        listed = list[exp.Expression]()
        for item in node.expressions:
            if isinstance(item, exp.Star):
                if item.args.get("except_") or item.args.get("replace"):
                    raise refused(self.text, item)
                seen = set(scope.shared)
                listed += [exp.column(exp.to_identifier(name, quoted=True)) for name in dict.fromkeys(scope.shared)]
                for alias, source in scope.sources.items():
                    listed += [_column(alias, name) for name, _ in source.columns if name not in seen]
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                named = scope.source(item.table)
                if named is None:
                    raise unknown(
                        self.text, item, f"missing FROM-clause entry for table {item.table!r}", "UNKNOWN_STREAM"
                    )
                listed += [_column(item.table, name) for name, _ in named.columns]
            else:
                listed.append(item)
        node.set("expressions", listed)

    def _projections(self, node: exp.Select, scope: Scope) -> Columns:
        """Translate the SELECT list, and give each of its items the name that PostgreSQL gives it."""
        columns: Columns = []
        for item in list(node.expressions):
            name = name_of(item)
            kind = self.expressions.type_of(item, scope)
            columns.append((name, kind))
        for at, item in enumerate(node.expressions):
            if not isinstance(item, exp.Alias):
                alias = exp.to_identifier(columns[at][0], quoted=True)
                node.expressions[at] = exp.Alias(this=item.copy(), alias=alias)
        node.set("expressions", node.expressions)
        return columns

    def _values(self, node: exp.Values, scope: Scope) -> Columns:
        kinds = list[str]()
        for row in node.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            row_kinds = [self.expressions.type_of(cell, scope) for cell in list(cells)]
            kinds = (
                row_kinds if not kinds else [b if a == "unknown" else a for a, b in zip(kinds, row_kinds, strict=True)]
            )
        return [(f"column{at + 1}", kind) for at, kind in enumerate(kinds)]

    def _part(self, node: exp.Expression | Sequence[exp.Expression] | None, scope: Scope) -> None:
        for part in node if isinstance(node, list) else [node]:
            if isinstance(part, exp.Expression):
                for child in list(part.iter_expressions()):
                    self.expressions.type_of(child, scope)

    def _tail(self, node: exp.Expression, scope: Scope) -> None:
        """Translate ORDER BY, LIMIT and OFFSET."""
        self._part(node.args.get("order"), scope)
        for part in ("limit", "offset"):
            limit = node.args.get(part)
            if limit is None:
                continue
            if not isinstance(limit, _LIMITS):
                raise refused(self.text, limit)
            if isinstance(limit.expression, exp.Var | exp.Null):
                node.set(part, None)
            elif isinstance(limit.expression, exp.Expression):
                self.expressions.type_of(limit.expression, scope, "int8")


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name.lower(), quoted=True))


def _column(alias: str, name: str) -> exp.Column:
    table = exp.to_identifier(alias, quoted=True) if alias else None
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=table)


def _either(kind: str, right: Columns, at: int) -> str:
    return right[at][1] if kind == "unknown" and at < len(right) else kind


def _renamed(columns: Columns, alias: exp.Expression) -> Columns:
    """The columns with the names of an alias: `v(a, b)`."""
    names = [name.name for name in alias.args.get("columns") or []]
    kinds = [kind for _, kind in columns]
    if len(columns) == 1 and not names and columns[0][0] in {"unnest", "generate_series"}:
        names = [alias.name]
    return list(zip([*names, *(name for name, _ in columns[len(names) :])], kinds, strict=False))


def _empty(node: exp.Expression, columns: dict[str, str]) -> None:
    """Put a relation without rows, with its columns, in the place of a table."""
    items = [
        exp.alias_(exp.Cast(this=exp.Null(), to=exp.DataType.build(_built(kind), dialect="duckdb")), name, quoted=True)
        for name, kind in columns.items()
    ]
    select = exp.Select(expressions=items, where=exp.Where(this=exp.false()))
    alias = node.args.get("alias")
    node.replace(exp.Subquery(this=select, alias=None if alias is None else alias.copy()))


def _unnested(node: exp.Expression, values: exp.Expression, name: str) -> None:
    """Put a subselect over the elements of an array in the place of a function of FROM."""
    items = [exp.alias_(values, name, quoted=True)]
    alias = node.args.get("alias")
    node.replace(exp.Subquery(this=exp.Select(expressions=items), alias=None if alias is None else alias.copy()))


def _built(kind: str) -> str:
    return storage_of(kind) if not is_array(kind) else storage_of(element_of(kind)) + "[]"

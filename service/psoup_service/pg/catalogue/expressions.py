"""Translates expressions over the catalogue for DuckDB in place, and finds their types.

    relname ~ '^a' COLLATE pg_catalog.default  ─>  REGEXP_MATCHES(relname, '^a')       bool
    'trades'::regclass                         ─>  f_to_regclass('trades')             regclass
    indkey[0]                                  ─>  indkey[1]                           int2

Each kind of node has an entry in a table. A node without an entry is refused, with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from psoup_service.pg.catalogue import comparisons, special_calls
from psoup_service.pg.catalogue.casts import type_name
from psoup_service.pg.catalogue.functions import MACROS, NODES, PLAIN, REFUSED
from psoup_service.pg.catalogue.refusals import refused, unknown
from psoup_service.pg.catalogue.relations import SCHEMAS
from psoup_service.pg.catalogue.scope import SYSTEM_COLUMNS, Scope, Source
from psoup_service.pg.catalogue.types import (
    NUMBERS,
    REGISTERED,
    UNKNOWN,
    array_of,
    element_of,
    is_array,
    oid_of,
    storage_of,
)

_MATCHES = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.ArrayContainsAll, exp.ArrayOverlaps)
_LOGIC = (exp.Escape, exp.And, exp.Or, exp.Not, exp.Is, exp.Between)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_SHIFTS = (exp.BitwiseLeftShift, exp.BitwiseRightShift)
_QUERIES = (exp.Subquery, exp.Select, exp.SetOperation, exp.Values)
_PARTS = (exp.Ordered, exp.Order, exp.Where, exp.Distinct, exp.If, exp.WindowSpec, exp.Var, exp.Star, exp.Tuple)
_CONSTANTS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.CurrentUser: ("user", "name"),
    exp.SessionUser: ("user", "name"),
    exp.CurrentDatabase: ("database", "name"),
    exp.CurrentCatalog: ("database", "name"),
    exp.CurrentSchema: ("schema", "name"),
    exp.CurrentVersion: ("version", "text"),
}
_NAMED_CONSTANTS = {"user": "user", "current_role": "user", "current_catalog": "database"}


MOST_PARAMETERS = 65_535
"""The most parameters of a statement: the protocol counts them in 16 bits."""


_DIGITS = 19
"""The digits of the greatest BIGINT. Python refuses to read thousands of digits."""


class Expressions:
    """Translates the expressions of a statement. `query`: translates a subselect, and returns its columns."""

    def __init__(
        self,
        text: str,
        values: Mapping[str, str],
        parameters: list[str],
        lists: Sequence[Sequence[str]],
        query: Callable[[exp.Expression, Scope | None], list[tuple[str, str]]],
    ) -> None:
        self.text = text
        self.values = values
        self._parameters = parameters
        self.lists = lists
        self.query = query
        self.changes = list[special_calls.Change]()
        """The settings that the statement changes by set_config."""
        self.sleeps = list[exp.Expression]()
        """The seconds that the statement waits by pg_sleep."""

    def type_of(self, node: exp.Expression, scope: Scope, wanted: str = "") -> str:
        """Translate an expression in place. Returns its type. `wanted`: the type that its place expects."""
        kind = type(node)
        special = _SPECIAL.get(kind)
        if special is not None:
            return special(self, node, scope)
        if kind in _CONSTANTS:
            value, result = _CONSTANTS[kind]
            node.replace(exp.Literal.string(self.values[value]))
            return result
        if kind is exp.Parameter:
            return self.parameter(node, wanted)
        if isinstance(node, _QUERIES):
            columns = self.query(node, scope)
            return columns[0][1] if columns else UNKNOWN
        if isinstance(node, comparisons.COMPARISONS):
            return comparisons.comparison(self, node, scope)
        if isinstance(node, (*_MATCHES, *_LOGIC)):
            self.children(node, scope)
            return "bool"
        if isinstance(node, _PARTS):
            kinds = self.children(node, scope)
            return kinds[0] if kind in (exp.Order, exp.Distinct) and kinds else "record"
        if isinstance(node, (*_ARITHMETIC, *_SHIFTS)):
            return self._arithmetic(node, scope)
        if kind in NODES:
            return self._result(NODES[kind], self.children(node, scope))
        raise refused(self.text, node)

    def children(self, node: exp.Expression, scope: Scope) -> list[str]:
        """Translate the parts of an expression. Returns their types."""
        return [self.type_of(child, scope) for child in list(node.iter_expressions())]

    def _result(self, result: str, arguments: list[str]) -> str:
        if not result.startswith("@"):
            return result
        first = next((kind for kind in arguments if kind not in {UNKNOWN, "record"}), UNKNOWN)
        return array_of(first) if result == "@[]" else element_of(first) if result == "@1" else first

    def _first(self, node: exp.Expression, scope: Scope) -> str:
        kinds = self.children(node, scope)
        return kinds[0] if kinds else UNKNOWN

    def _literal(self, node: exp.Expression, scope: Scope) -> str:
        if node.is_string:
            return UNKNOWN
        text = node.name
        if not text.isdecimal() or len(text) > _DIGITS or int(text) >= 1 << 63:
            return "numeric"
        return "int4" if int(text) < 1 << 31 else "int8"

    def _escaped(self, node: exp.Expression, scope: Scope) -> str:
        """A text constant with escapes: E'\\n'."""
        node.replace(exp.Literal.string(node.name))
        return UNKNOWN

    def parameter(self, node: exp.Expression, wanted: str) -> str:
        """The type of a parameter. `wanted`: the type that its place expects."""
        number = int(node.name) if node.name.isdecimal() and len(node.name) <= _DIGITS else 0
        if not 1 <= number <= MOST_PARAMETERS:
            raise refused(self.text, node)
        while len(self._parameters) < number:
            self._parameters.append("")
        if not self._parameters[number - 1] and wanted:
            self._parameters[number - 1] = wanted
        return self._parameters[number - 1] or UNKNOWN

    def _column(self, node: exp.Column, scope: Scope) -> str:
        name, alias = node.name, node.table
        for part in ("db", "catalog"):
            node.set(part, None)
        if alias:
            source = scope.source(alias)
            if source is None:
                raise unknown(self.text, node, f'missing FROM-clause entry for table "{alias}"', "UNKNOWN_STREAM")
            kind = source.type_of(name)
            return kind if kind is not None else self._hidden(node, source, f"{alias}.{name}")
        if name in scope.output and isinstance(node.parent, exp.Ordered):
            return scope.output[name]
        match = scope.column(name)
        if match is not None:
            if match[0] and name not in scope.shared:
                node.set("table", exp.to_identifier(match[0], quoted=True))
            return match[1]
        if name in scope.output:
            return scope.output[name]
        if name in _NAMED_CONSTANTS:
            node.replace(exp.Literal.string(self.values[_NAMED_CONSTANTS[name]]))
            return "name"
        source = scope.unknown() or next(iter(scope.sources.values()), Source([]))
        return self._hidden(node, source, name)

    def _hidden(self, node: exp.Column, source: Source, shown: str) -> str:
        """The type of a column that `*` does not show: a system column, or a column of an unknown relation."""
        if source.read is not None:
            source.read[node.name] = "text"
            return "text"
        if node.name in SYSTEM_COLUMNS and source.oid:
            node.replace(exp.Literal.number(source.oid if node.name == "tableoid" else 0))
            return SYSTEM_COLUMNS[node.name]
        raise unknown(self.text, node, f"column {shown} does not exist", "UNKNOWN_COLUMN")

    def _cast(self, node: exp.Cast, scope: Scope) -> str:
        kind = type_name(node.to)
        if not kind:
            raise refused(self.text, node.to, f"type {node.to.sql(dialect='postgres')}")
        before = self.type_of(node.this, scope, kind)
        inner = node.this
        if is_array(kind) and isinstance(inner, exp.Literal):
            node.replace(comparisons.array_of_text(self, inner, kind))
        elif kind in REGISTERED and before not in {"oid", "int4", "int8", "int2"} | REGISTERED:
            node.replace(exp.Anonymous(this=f"f_to_{kind}", expressions=[inner]))
        elif before in REGISTERED and kind in {"text", "varchar", "name"}:
            node.replace(exp.Anonymous(this=f"f_{before}_text", expressions=[inner]))
        elif is_array(before) and kind in {"text", "varchar"}:
            node.replace(exp.Anonymous(this="f_array_text", expressions=[inner]))
        else:
            stored = storage_of(kind)
            if kind == "numeric" and node.to.expressions:
                stored = node.to.sql(dialect="duckdb")
            node.set("to", exp.DataType.build(stored, dialect="duckdb"))
        return kind

    def _exists(self, node: exp.Exists, scope: Scope) -> str:
        self.query(node.this, scope)
        return "bool"

    def _case(self, node: exp.Case, scope: Scope) -> str:
        if node.this is not None:
            self.type_of(node.this, scope)
        kinds = list[str]()
        for branch in node.args["ifs"]:
            self.type_of(branch.this, scope)
            kinds.append(self.type_of(branch.args["true"], scope))
        default = node.args.get("default")
        if default is not None:
            kinds.append(self.type_of(default, scope))
        return self._result("@", kinds)

    def _arithmetic(self, node: exp.Expression, scope: Scope) -> str:
        left, right = self.type_of(node.this, scope), self.type_of(node.expression, scope)
        kinds = [kind for kind in (left, right) if kind in NUMBERS]
        if isinstance(node, exp.Div) and left in NUMBERS[:3] and right in NUMBERS[:3]:
            node.replace(exp.IntDiv(this=node.this, expression=node.expression))
        if len(kinds) == 2:
            return max(kinds, key=NUMBERS.index)
        return self._result("@", [kind for kind in (left, right) if kind not in NUMBERS] or kinds)

    def _joined(self, node: exp.Expression, scope: Scope) -> str:
        """`||` of texts, or of arrays."""
        left, right = self.type_of(node.this, scope), self.type_of(node.expression, scope)
        if not is_array(left) and not is_array(right):
            node.replace(special_calls.concatenated([node.this, node.expression]))
            return "text"
        kind = left if is_array(left) else right
        end = "concat" if is_array(left) == is_array(right) else "append" if is_array(left) else "prepend"
        node.replace(exp.Anonymous(this=special_calls.joiner(kind, end), expressions=[node.this, node.expression]))
        return kind

    def _bracket(self, node: exp.Bracket, scope: Scope) -> str:
        kind = self.type_of(node.this, scope)
        for index in list(node.expressions):
            if isinstance(index, exp.Slice):
                self.children(index, scope)
                return kind
            self.type_of(index, scope)
            if kind in {"int2vector", "oidvector"}:
                node.set("expressions", [exp.Add(this=exp.Paren(this=index.copy()), expression=exp.Literal.number(1))])
        return element_of(kind)

    def _array(self, node: exp.Array, scope: Scope) -> str:
        if len(node.expressions) == 1 and isinstance(node.expressions[0], _QUERIES):
            columns = self.query(node.expressions[0], scope)
            return array_of(columns[0][1] if columns else UNKNOWN)
        return array_of(self._result("@", [self.type_of(item, scope) for item in list(node.expressions)]))

    def _dot(self, node: exp.Dot, scope: Scope) -> str:
        """A function with its schema before it, or a field of a row."""
        if isinstance(node.expression, exp.Func):
            if not isinstance(node.this, exp.Identifier) or node.this.name not in SCHEMAS:
                raise refused(self.text, node)
            function: Any = node.expression
            node.replace(function)
            return self.type_of(function, scope)
        if not isinstance(node.this, exp.Paren) or node.expression.name not in {"n", "x"}:
            raise refused(self.text, node)
        self.type_of(node.this, scope)
        return "int4" if node.expression.name == "n" else "int2"

    def _call(self, node: exp.Anonymous, scope: Scope) -> str:
        """A function that sqlglot does not know, or knows only without its schema."""
        name = node.name.lower()
        arguments = list(node.expressions)
        if name == "pg_typeof":
            node.replace(exp.Literal.number(oid_of(self.type_of(arguments[0], scope))))
            return "regtype"
        if name in {"current_user", "session_user", "current_database", "current_schema"}:
            node.replace(exp.Literal.string(self.values[name.removeprefix("current_").removeprefix("session_")]))
            return "name"
        if name in {"all", "any", "some"} and len(arguments) == 1 and isinstance(node.parent, comparisons.COMPARISONS):
            quantified: Any = (exp.All if name == "all" else exp.Any)(this=arguments[0])
            node.replace(quantified)
            return comparisons.quantified(self, quantified, scope)
        if name in _WRITTEN:
            return _WRITTEN[name](self, node, scope)
        if name == "_pg_expandarray":
            self.children(node, scope)
            node.set("this", "f__pg_expandarray")
            return "record"
        if name in MACROS:
            for argument in arguments:
                self.type_of(argument, scope)
            node.set("this", f"f_{name}")
            return MACROS[name]
        if name in REFUSED:
            raise refused(self.text, node, f"{name}()")
        if name in PLAIN:
            self.children(node, scope)
            return PLAIN[name]
        builtin: Any = exp.func(name, *arguments, dialect="postgres")
        if isinstance(builtin, exp.Anonymous):
            raise unknown(self.text, node, f"function {name} does not exist in this catalogue", "UNKNOWN_FUNCTION")
        node.replace(builtin)
        return self.type_of(builtin, scope)

    def _collate(self, node: exp.Expression, scope: Scope) -> str:
        inner = node.this
        node.replace(inner)
        return self.type_of(inner, scope)

    def _alias(self, node: exp.Expression, scope: Scope) -> str:
        return self.type_of(node.this, scope)

    def _window(self, node: exp.Window, scope: Scope) -> str:
        kind = self.type_of(node.this, scope)
        for part in ("partition_by", "order", "spec"):
            value = node.args.get(part)
            for child in value if isinstance(value, list) else [value]:
                if child is not None:
                    self.type_of(child, scope)
        return kind

    def _interval(self, node: exp.Expression, scope: Scope) -> str:
        return "interval"

    def _extreme(self, node: exp.Expression, scope: Scope) -> str:
        kind = self._first(node, scope)
        return "text" if kind in {"name", "char", "varchar"} else kind


_SPECIAL: dict[type[exp.Expression], Callable[[Expressions, Any, Scope], str]] = {
    exp.Column: Expressions._column,
    exp.Literal: Expressions._literal,
    exp.ByteString: Expressions._escaped,
    exp.RawString: Expressions._escaped,
    exp.UnicodeString: Expressions._escaped,
    exp.Boolean: lambda *_: "bool",
    exp.Null: lambda *_: UNKNOWN,
    exp.Paren: Expressions._first,
    exp.Neg: Expressions._first,
    exp.BitwiseNot: Expressions._first,
    exp.Alias: Expressions._alias,
    exp.Collate: Expressions._collate,
    exp.Cast: Expressions._cast,
    exp.TryCast: Expressions._cast,
    exp.Any: comparisons.quantified,
    exp.All: comparisons.quantified,
    exp.In: comparisons.membership,
    exp.Exists: Expressions._exists,
    exp.Case: Expressions._case,
    exp.DPipe: Expressions._joined,
    exp.Bracket: Expressions._bracket,
    exp.Array: Expressions._array,
    exp.Dot: Expressions._dot,
    exp.Anonymous: Expressions._call,
    exp.Window: Expressions._window,
    exp.Filter: Expressions._first,
    exp.Interval: Expressions._interval,
    exp.Operator: special_calls.operator,
    exp.Format: special_calls.formatted,
    exp.CurrentSchemas: special_calls.schemas,
    exp.ArraySize: special_calls.macro,
    exp.Concat: special_calls.strung,
    exp.Replace: special_calls.macro,
    exp.ArrayToString: special_calls.macro,
    exp.StringToArray: special_calls.macro,
    exp.ArrayAppend: special_calls.appended,
    exp.ArrayConcat: special_calls.appended,
    exp.ExplodingGenerateSeries: special_calls.generated,
    exp.RegexpReplace: special_calls.macro,
    exp.Min: Expressions._extreme,
    exp.Max: Expressions._extreme,
}

_WRITTEN: dict[str, Callable[[Expressions, Any, Scope], str]] = {
    "generate_subscripts": special_calls.subscripts,
    "json_build_object": special_calls.object,
    "format": special_calls.formatted,
    "set_config": special_calls.set,
    "pg_sleep": special_calls.sleep,
    "string_agg": special_calls.aggregated,
}
"""Functions that become several expressions."""

"""The binder: turns names into attributes, operators and functions into typed calls, and constants into values.

    price * 2 > volume   ->   gt(mul(price, 2), volume) : BOOLEAN

`psoup.expressions.functions` has the types of operators and functions. This module finds the attributes of names, adds
the place to errors, and refuses unknown names. It computes parts without attributes (constant folding).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlglot import exp

from psoup.errors import InvalidInput
from psoup.expressions import functions
from psoup.expressions.conversion import is_null_literal, truth
from psoup.expressions.evaluate import constant
from psoup.expressions.tree import ID_INDEX, AttributeRef, Call, Expr, Literal, Now
from psoup.model import BIGINT, BOOLEAN, MAX_DECIMAL_PRECISION, MAX_WIDE_PRECISION, TEXT, TIMESTAMP
from psoup.sql import spans
from psoup.sql.aggregates import AGGREGATES, ARGUMENT, HAVING, WHERE, Measures, aggregate_of, measured
from psoup.sql.elsewhere.advice import advised_arguments
from psoup.sql.elsewhere.refused_functions import refuse_function
from psoup.sql.hop import bind_hop, is_hop
from psoup.sql.names import Names
from psoup.sql.output_names import OutputNames, output_of
from psoup.sql.over import INSIDE, QUALIFY, Windows
from psoup.sql.refusals import refuse_node
from psoup.sql.row_values import compared_rows, in_list
from psoup.sql.source import StatementText
from psoup.sql.spans import Operand, Span
from psoup.sql.special_forms import BUCKETS, SPANNED, SPELLED, bucket, position_arguments, refuse_bare, spanned
from psoup.sql.types import bits_of, data_type, interval, number
from psoup.work.rest_points import may_rest

_MAX_FOLDED = 64 * 1024
"""The most bytes of text that folding may compute for one statement, as replace('xx', 'x', ...) makes a long text.
Longer constants are computed at each evaluation."""

_CLOCKS = frozenset({"now", "current_timestamp", "transaction_timestamp", "get_current_timestamp"})
_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.IntDiv: "intdiv",
    exp.Mod: "mod",
    exp.DPipe: "concat_op",
    exp.BitwiseAnd: "bits_and",
    exp.BitwiseOr: "bits_or",
    exp.BitwiseLeftShift: "shift_left",
    exp.BitwiseRightShift: "shift_right",
}


class Binder:
    """Binds the expressions of one statement, whose columns are `names`.

    `part`: the part of the statement that is being bound, "" for the SELECT list and ORDER BY. In HAVING, expressions
    read groups. The other parts are about tuples: WHERE, GROUP BY, and the inside of an aggregate. They refuse NOW and
    aggregates, and WHERE also refuses `_id`. `parameters`: the constants for placeholders in conditions, by their
    offset in the text. `measures`: the aggregates that have been bound so far.
    """

    def __init__(self, source: StatementText, names: Names, parameters: Mapping[int, Literal] | None = None) -> None:
        self._parameters = parameters or {}
        self._text_left = _MAX_FOLDED
        self.source = source
        self.names = names
        self.measures = Measures()
        self.windows = Windows()
        self.part = ""
        self._aliases: OutputNames = {}
        self._first: Collection[str] = ()

    @contextmanager
    def within(self, part: str) -> Iterator[None]:
        """Set `part` for the expressions that the `with` block binds. In an aggregate, a name means a column only."""
        before, self.part = (self.part, self._aliases, self._first), part
        if part == ARGUMENT:
            self._aliases = {}
            self._first = ()
        try:
            yield
        finally:
            self.part, self._aliases, self._first = before

    @property
    def single_values(self) -> Mapping[Expr, Collection[Expr]]:
        """The columns of the scalar subselects that were bound so far, each with the expressions that it depends on."""
        return {}

    @property
    def _about_tuples(self) -> bool:
        return self.part not in ("", HAVING, INSIDE, QUALIFY)

    def condition(self, node: exp.Expr) -> Expr:
        """Bind the WHERE clause as a BOOLEAN."""
        with self.within(WHERE):
            bound = self.bind(node)
        with self.source.placed(node):
            return truth(bound, WHERE)

    def operand(self, node: exp.Expr) -> Expr:
        """Bind a part of the WHERE clause."""
        with self.within(WHERE):
            return self.bind(node)

    def constant(self, node: exp.Expr) -> Literal | None:
        """Bind a constant. Returns None if `node` is not constant."""
        if node.find(exp.Column, exp.Placeholder) is not None:
            return None
        bound = self.bind(node)
        return bound if isinstance(bound, Literal) else None

    def order_key(self, node: exp.Expr, outputs: OutputNames) -> Expr:
        """Bind an ORDER BY expression. `outputs`: the SELECT list by names in lower case. A name alone means an
        output, or else a column."""
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in outputs:
            return output_of(self.source, outputs, node)
        return self.with_aliases(node, outputs)

    def with_aliases(self, node: exp.Expr, outputs: OutputNames, first: Collection[str] = ()) -> Expr:
        """Bind an expression that may also use the names of `outputs`. A name means a column, or else an output. A
        name in `first` means an output."""
        self._aliases = outputs
        self._first = first
        try:
            return self._key(node)
        finally:
            self._aliases = {}
            self._first = ()

    def is_given(self, column: Expr) -> bool:
        """Whether an expression is a column that cannot be NULL."""
        return isinstance(column, AttributeRef) and column.source >= 0 and self.names.is_given(column)

    def _key(self, node: exp.Expr) -> Expr:
        """Bind a sort key, or an operand of IS NULL. An INTERVAL becomes its microseconds."""
        key = self.operand_of(node)
        return key.micros if isinstance(key, Span) else key

    def bind(self, node: exp.Expr) -> Expr:
        """Bind one expression to its typed tree. Raises SqlError with the place."""
        may_rest()
        name = _BINARY.get(type(node))
        if name is not None:
            bound = self._binary(name, node)
            if isinstance(bound, Span):
                raise spans.refused(self.source, node)
            return bound
        rule = _RULES.get(type(node))
        if rule is None:
            raise refuse_node(self.source, node)
        return rule(self, node)

    def operand_of(self, node: exp.Expr) -> Operand:
        """Bind an expression that may be an INTERVAL."""
        kind = type(node)
        if kind is exp.Paren:
            return self.operand_of(node.this)
        if kind is exp.Sub or kind is exp.Add:
            return self._binary(_BINARY[kind], node)
        if kind is exp.Interval:
            return spans.constant(self.source, node)
        if kind is exp.Neg and type(node.this) in (exp.Paren, exp.Interval):
            value = self.operand_of(node.this)
            if isinstance(value, Span):
                return spans.negative(self, node, value)
            return self.call("neg", node, [value])
        return self.bind(node)

    # Leaves ------------------------------------------------------------------------------------------------

    def _column(self, node: exp.Expr) -> Expr:
        if isinstance(node.this, exp.Star):
            self.names.place(node)
            raise self.source.error("* can only be an item of the SELECT list", node)
        folded = node.name.lower()
        if folded in self._first and node.args.get("table") is None:
            return output_of(self.source, self._aliases, node)
        column = self.names.find(node)
        if column is not None:
            if isinstance(column, AttributeRef) and column.index == ID_INDEX and self.part == WHERE:
                raise self.source.unsupported("_id in WHERE", node, hint="select it, or use _time in WHERE")
            return column
        if folded in self._aliases:
            return output_of(self.source, self._aliases, node)
        if folded in _CLOCKS and node.args.get("table") is None and not node.this.quoted:
            return self._now(node)
        raise self.names.unknown(node, node, quoted=bool(node.this.args.get("quoted")))

    def _now(self, node: exp.Expr) -> Expr:
        if self._about_tuples:
            hint = "bound the time with BEGIN (NOW - ...) END (NOW)"
            raise self.source.unsupported(f"NOW in {self.part}", node, hint=hint)
        return Now(TIMESTAMP)

    def _literal(self, node: exp.Expr) -> Expr:
        if node.args.get("is_string"):
            return Literal(TEXT, str(node.this))
        return number(self.source, str(node.this), node)

    def _parameter(self, node: exp.Expr) -> Expr:
        if self.part not in (WHERE, HAVING, QUALIFY):
            hint = "write the constant itself"
            raise self.source.unsupported("a parameter outside of WHERE, HAVING and QUALIFY", node, hint=hint)
        return self._parameters[int(node.meta["start"])]

    def _negative(self, node: exp.Expr) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return number(self.source, "-" + str(inner.this), node)
        return self.call("neg", node, [self.bind(inner)])

    # Operators ---------------------------------------------------------------------------------------------

    def _binary(self, name: str, node: exp.Expr) -> Operand:
        if (rows := compared_rows(self, node)) is not None:
            return rows
        refuse_bare(self.source, node.this, node.expression)
        if isinstance(node.expression, exp.BitwiseNot):
            hint = "put parentheses around ~ and what it is for"
            raise self.source.error("it is not clear what belongs together here", node.expression, hint=hint)
        if isinstance(node, exp.Add | exp.Sub):
            for shift, other in ((node.expression, node.this), (node.this, node.expression)):
                if isinstance(shift, exp.Interval) and (shift is node.expression or isinstance(node, exp.Add)):
                    return self._shift(name, node, other, shift)
        return self._combined(name, node, self.operand_of(node.this), self.operand_of(node.expression))

    def _combined(self, name: str, node: exp.Expr, left: Operand, right: Operand) -> Operand:
        if isinstance(left, Span) or isinstance(right, Span):
            return spans.combined(self, name, node, left, right)
        span = spans.difference(self, node, left, right) if name == "sub" else None
        return span or self.call(name, node, [left, right])

    def _compared(self, name: str, node: exp.Expr, left: Operand, right: Operand) -> Expr:
        condition = self._combined(name, node, left, right)
        assert isinstance(condition, Expr)
        return condition

    def _shift(self, name: str, node: exp.Expr, time: exp.Expr, shift: exp.Expr) -> Operand:
        value, sign = self.operand_of(time), -1 if name == "sub" else 1
        if isinstance(value, Span):
            return spans.combined(self, name, node, value, spans.constant(self.source, shift))
        months, micros = interval(self.source, shift)
        return self.call("add_interval", node, [value, *(Literal(BIGINT, sign * part) for part in (months, micros))])

    def _connective(self, node: exp.Expr) -> Expr:
        """Bind AND or OR with a loop, not with recursion: sqlglot's chains lean to the left and may be long."""
        kind, parts = type(node), []
        at: exp.Expr = node
        while isinstance(at, kind):
            parts.append(at.expression)
            at = at.this
        parts.append(at)
        return self.call("and" if kind is exp.And else "or", node, [self.bind(part) for part in reversed(parts)])

    def _not(self, node: exp.Expr) -> Expr:
        if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
            refuse_bare(self.source, node.this.this)
            return self.call("is_not_null", node, [self._key(node.this.this)])
        return self.call("not", node, [self.bind(node.this)])

    def _distinct(self, node: exp.Expr) -> Expr:
        refuse_bare(self.source, node.this, node.expression)
        sides = self.operand_of(node.this), self.operand_of(node.expression)
        distinct = self._compared("is_distinct", node, *sides)
        return distinct if isinstance(node, exp.NullSafeNEQ) else self.call("not", node, [distinct])

    def _is(self, node: exp.Expr) -> Expr:
        refuse_bare(self.source, node.this)
        right = node.expression
        if isinstance(right, exp.Not) and isinstance(right.this, exp.Null):
            return self.call("is_not_null", node, [self._key(node.this)])
        if isinstance(right, exp.Boolean):
            with self.source.placed(node):
                condition = truth(self.bind(node.this), "IS")
            distinct = self.call("is_distinct", node, [condition, Literal(BOOLEAN, bool(right.this))])
            return self.call("not", node, [distinct])
        if not isinstance(right, exp.Null):
            raise self.source.unsupported(f"IS {self.source.written(right)}", node, hint="use =, or IS [NOT] NULL")
        return self.call("is_null", node, [self._key(node.this)])

    def _between(self, node: exp.Expr) -> Expr:
        refuse_bare(self.source, node.this)
        value = self.operand_of(node.this)
        low = self._compared("ge", node, value, self.operand_of(node.args["low"]))
        high = self._compared("le", node, value, self.operand_of(node.args["high"]))
        return self.call("and", node, [low, high])

    # Functions ---------------------------------------------------------------------------------------------

    def _cast(self, node: exp.Expr) -> Expr:
        digits = (
            MAX_DECIMAL_PRECISION if self._about_tuples else MAX_WIDE_PRECISION
        )  # columns of tuples have int64 keys
        target = data_type(self.source, node.args["to"], digits)
        for option in ("format", "action", "default"):
            if node.args.get(option) is not None:
                raise self.source.unsupported(f"CAST with {option.upper()}", node)
        value = self.bind(node.this)
        trying, bits = isinstance(node, exp.TryCast), bits_of(node.args["to"])
        with self.source.placed(node):
            wide = functions.cast(value, target, trying)
        if not bits or is_null_literal(wide):
            return wide
        return self.call("try_narrow" if trying else "narrow", node, [wide, Literal(BIGINT, bits)])

    def _function(self, node: exp.Expr) -> Expr:
        written = node.this if isinstance(node.this, str) else node.this.name
        with advised_arguments(written.lower(), node):
            return self._named_function(node, written)

    def _named_function(self, node: exp.Expr, written: str) -> Expr:
        name = written.lower()
        if name in _CLOCKS:
            if node.expressions:
                raise self.source.error(f"{written} takes no arguments", node)
            return self._now(node)
        if name in AGGREGATES:
            return measured(self, name, node)
        refuse_function(self.source, name, node)
        if name in BUCKETS:
            return bucket(self, name, node)
        if is_hop(name):
            return bind_hop(self, node)
        if name == "position":
            return self.call(name, node, [self.bind(arg) for arg in position_arguments(node)])
        if name in SPANNED and node.expressions:
            return spanned(self, name, node)
        return self.call(name, node, [self.bind(arg) for arg in node.expressions])

    def _filtered(self, node: exp.Expr) -> Expr:
        return measured(self, aggregate_of(self.source, node.this), node.this, node.expression.this)

    def call(self, name: str, node: exp.Expr, args: list[Expr]) -> Expr:
        """Bind the call of a function with the place of `node` in its errors. Folds a call with constant arguments."""
        with self.source.placed(node):
            call = functions.resolve(name, args)
        if isinstance(call, Call) and all(isinstance(arg, Literal) for arg in call.args):
            try:
                return self._folded(call)
            except InvalidInput:
                return call  # an error in every row, counted at evaluation; or a text too long to keep
        return call

    def _folded(self, call: Call) -> Expr:
        """The constant value of `call`, or the call itself if it cannot be folded.

        Raises InvalidInput if the value is an error, or if its computation makes too much text.
        """
        folded = constant(call, self._text_left)
        if folded is not None and folded.type == TEXT and folded.value is not None:
            self._text_left -= len(str(folded.value).encode())
        return folded or call


_RULES: dict[type[exp.Expr], Callable[[Binder, Any], Expr]] = {
    exp.Column: Binder._column,
    exp.Literal: Binder._literal,
    exp.Placeholder: Binder._parameter,
    exp.Boolean: lambda _, node: Literal(BOOLEAN, bool(node.this)),
    exp.Null: lambda _, node: Literal(BIGINT, None),
    exp.Paren: lambda binder, node: binder.bind(node.this),
    exp.Neg: Binder._negative,
    exp.BitwiseNot: lambda binder, node: binder.call("bits_not", node, [binder.bind(node.this)]),
    exp.And: Binder._connective,
    exp.Or: Binder._connective,
    exp.Not: Binder._not,
    exp.Is: Binder._is,
    exp.NullSafeEQ: Binder._distinct,
    exp.NullSafeNEQ: Binder._distinct,
    exp.Between: Binder._between,
    exp.In: in_list,
    exp.Cast: Binder._cast,
    exp.TryCast: Binder._cast,
    exp.Anonymous: Binder._function,
    exp.Filter: Binder._filtered,
    exp.CurrentTimestamp: Binder._now,
    **SPELLED,
}

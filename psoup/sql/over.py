"""OVER: the window functions of a statement, their windows, and their columns in expressions.

    rank() OVER (PARTITION BY sym ORDER BY price DESC)   ->   WindowFunction("rank", …), read as column 0 of OVER
    … OVER w … WINDOW w AS (PARTITION BY sym)            ->   the same, with the window of that name

A statement has each window function once. `over_plan` puts the functions into the plan. NULLs come last in the order of
a window, in both directions, as in ORDER BY.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from psoup.errors import SqlError
from psoup.expressions.conversion import cast
from psoup.expressions.tree import OVER, AttributeRef, Expr, Literal, reads_now
from psoup.model import BIGINT, DOUBLE
from psoup.plan.nodes import Measure, OrderKey
from psoup.plan.over import UP_TO_PEERS, WHOLE, WINDOW_FUNCTIONS, Frame, WindowFunction
from psoup.sql.aggregates import AGGREGATES, ARGUMENT, FILTER, GROUP_BY, HAVING, WHERE, AggregateBinder, measure_of
from psoup.sql.range_distance import distance
from psoup.sql.source import StatementText, nearest
from psoup.sql.spans import Operand, Span

MAX_FUNCTIONS = 100
"""The most window functions of a statement. Each is a column over all rows, in memory."""

INSIDE = "OVER"
"""The value of `Binder.part` for the arguments and keys of a window function. They refuse window functions."""
QUALIFY = "QUALIFY"
"""The value of `Binder.part` for the condition of QUALIFY."""

_NUMBERS = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile"), BIGINT),
    **dict.fromkeys(("percent_rank", "cume_dist"), DOUBLE),
}
"""The types of window functions without an argument over rows."""
_VALUES = {"lag": 3, "lead": 3, "first_value": 1, "last_value": 1, "nth_value": 2}
"""The window functions whose result is a value of the first argument, with the most arguments that each takes."""
_SHIFTS = ("lag", "lead")
_NUMBERED = {"ntile": 0, "lag": 1, "lead": 1, "nth_value": 1}
"""The place of the argument that is a constant."""
_ANY_FRAME = frozenset(["count", "sum", "avg", "min", "max", "first", "last", "any_value", "arg_min", "arg_max"])
"""The aggregates that take frames other than the whole partition."""

_SUBSELECT = "name the window function in a subselect: SELECT max(r) FROM (SELECT rank() OVER (…) AS r FROM s) t"
_INSTEAD = {
    WHERE: "QUALIFY has the conditions on window functions, as in QUALIFY row_number() OVER (ORDER BY t) <= 3",
    HAVING: "QUALIFY has the conditions on window functions, as in QUALIFY rank() OVER (ORDER BY sum(x)) <= 3",
    GROUP_BY: "group by what each tuple has; window functions may stand over the groups, in the SELECT list",
    ARGUMENT: _SUBSELECT,
    FILTER: "FILTER chooses tuples; QUALIFY has the conditions on window functions",
    INSIDE: _SUBSELECT,
}
_FRAMES = "the frames are ROWS BETWEEN n PRECEDING AND n FOLLOWING, and RANGE with UNBOUNDED, CURRENT ROW or a distance"


class OverBinder(AggregateBinder, Protocol):
    """The members of `psoup.sql.binder.Binder` that this module uses."""

    windows: Windows

    def within(self, part: str) -> AbstractContextManager[None]:
        """Bind a part of the statement inside a `with` block."""

    def operand_of(self, node: exp.Expr) -> Operand:
        """Bind an expression that may be an INTERVAL."""

    def constant(self, node: exp.Expr) -> Literal | None:
        """Bind a constant. Returns None if `node` is not constant."""


@dataclass(frozen=True, slots=True)
class Window:
    """A bound window. `frame`: None if the statement gives none."""

    partition: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    frame: Frame | None = None


class Windows:
    """The distinct window functions of a statement in the order of their first use, and its named windows."""

    def __init__(self) -> None:
        self._columns: dict[WindowFunction, AttributeRef] = {}
        self.named: dict[str, exp.Expr] = {}
        """The nodes of WINDOW, by name in lower case."""

    def declare(self, source: StatementText, nodes: Iterable[exp.Expr]) -> None:
        """Take the windows of the clause WINDOW. Raises SqlError if two have one name."""
        self.named = {}
        for node in nodes:
            name = node.this.name.lower()
            if name in self.named:
                raise source.error(f"two windows are called {node.this.name[:128]!r}", node, hint="rename one of them")
            self.named[name] = node

    def ref(self, function: WindowFunction) -> AttributeRef:
        """The reference to a window function in expressions. Its index is the function's number."""
        column = AttributeRef(function.call.type, len(self._columns), function.text(), OVER)
        return self._columns.setdefault(function, column)

    @property
    def listed(self) -> tuple[WindowFunction, ...]:
        """All window functions, by number."""
        return tuple(self._columns)


def reads_over(columns: Iterable[AttributeRef]) -> bool:
    """Whether one of the columns is a window function."""
    return any(column.source == OVER for column in columns)


def refused_in(source: StatementText, part: str, node: exp.Expr) -> Exception:
    """The error for a window function in a part of the statement that cannot have one."""
    if part == INSIDE:
        feature = "a window function inside another"
    else:
        feature = f"a window function in {'WHERE or ON' if part == WHERE else part}"
    return source.unsupported(feature, node, hint=_INSTEAD[part])


def window_function(binder: OverBinder, node: exp.Expr) -> Expr:
    """Bind a window function. Returns its reference. Raises SqlError."""
    source = binder.source
    if binder.part in _INSTEAD:
        raise refused_in(source, binder.part, node)
    call, where, skips_nulls = _parts(source, node.this)
    name = call.name.lower()
    with binder.within(INSIDE):
        window = _window(binder, node, frozenset())
        if name in WINDOW_FUNCTIONS:
            function = _bound(binder, name, call, window)
            if where is not None:
                raise source.error(f"FILTER belongs to an aggregate, not to {name}", where, hint=_filtered(name))
        elif name in AGGREGATES:
            function = _aggregate(binder, name, call, where, window)
        else:
            raise _unknown(binder, name, call)
        if skips_nulls:
            function = _skipping(source, function, node)
    if any(map(reads_now, function.read)):
        way = "bound the time with BEGIN (NOW - ...) END (NOW)"
        raise source.unsupported("NOW in a window function", node, hint=way)
    column = binder.windows.ref(function)
    if column.index >= MAX_FUNCTIONS:
        way = "make several queries of it"
        raise source.error(f"a query has at most {MAX_FUNCTIONS} window functions", node, hint=way)
    return column


def _parts(source: StatementText, node: exp.Expr) -> tuple[exp.Anonymous, exp.Expr | None, bool]:
    """The call before OVER, the condition of its FILTER, and whether it has IGNORE NULLS. Raises SqlError."""
    where, skips_nulls = None, False
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        node, skips_nulls = node.this, isinstance(node, exp.IgnoreNulls)
    if isinstance(node, exp.Filter):
        node, where = node.this, node.expression.this
    if isinstance(node, exp.WithinGroup):
        raise source.unsupported("WITHIN GROUP", node, hint="write quantile_cont(x, 0.5), or quantile_disc")
    if not isinstance(node, exp.Anonymous):
        raise source.error("OVER follows a window function or an aggregate", node, hint="sum(x) OVER (PARTITION BY k)")
    return node, where, skips_nulls or any(isinstance(arg, exp.IgnoreNulls) for arg in node.expressions)


def _filtered(name: str) -> str:
    return f"write CASE WHEN condition THEN x END in {name}" if name in _VALUES else "WHERE chooses the tuples"


def _unknown(binder: OverBinder, name: str, call: exp.Expr) -> SqlError:
    """The error for another function. Raises the one of the call without OVER, if that is refused by its name."""
    try:
        binder.bind(call)
    except SqlError as problem:
        if problem.reason != "UNKNOWN_FUNCTION":
            raise
    names = [*WINDOW_FUNCTIONS, *AGGREGATES]
    hint = nearest(name, names) or "OVER goes with row_number, rank, lag, first_value, … and with aggregates"
    return binder.source.error(f"{name[:128]!r} is neither a window function nor an aggregate", call, hint=hint)


def _bound(binder: OverBinder, name: str, call: exp.Expr, window: Window) -> WindowFunction:
    """Bind a window function other than an aggregate. Raises SqlError."""
    source = binder.source
    nodes = [arg.this if isinstance(arg, exp.IgnoreNulls | exp.RespectNulls) else arg for arg in call.expressions]
    fewest, limit = (int(name == "ntile"),) * 2 if name in _NUMBERS else (1 + (name == "nth_value"), _VALUES[name])
    if not fewest <= len(nodes) <= limit:
        taken = f"{fewest}" if fewest == limit else f"{fewest} to {limit}"
        plural = "" if taken == "1" else "s"
        raise source.error(
            f"{name} takes {taken if limit else 'no'} argument{plural}, not {len(nodes)}",
            call,
            reason="WRONG_ARGUMENTS",
        )
    place, number = _NUMBERED.get(name, limit), None
    if place < len(nodes):
        number = _whole(binder, nodes.pop(place), name)
    args = [binder.bind(node) for node in nodes]
    if len(args) == 2:
        with source.placed(nodes[1]):
            args[1] = cast(args[1], args[0].type)
    kind = _NUMBERS[name] if name in _NUMBERS else args[0].type
    framed = name in _VALUES and name not in _SHIFTS
    frame = _frame_of(window if framed else Window(order=window.order))
    return WindowFunction(Measure(name, tuple(args), kind), window.partition, window.order, frame, number)


def _whole(binder: OverBinder, node: exp.Expr, name: str) -> int:
    """The constant argument of a window function. Raises SqlError."""
    minimum = None if name in _SHIFTS else 1
    constant = binder.constant(node)
    if constant is None or constant.type != BIGINT or not isinstance(constant.value, int):
        role = "offset" if name in _SHIFTS else "number"
        raise binder.source.error(
            f"the {role} of {name} must be a constant whole number", node, hint=f"write a query for each {role}"
        )
    if minimum is not None and constant.value < minimum:
        raise binder.source.error(f"the number of {name} is at least 1, not {constant.value}", node)
    return constant.value


def _aggregate(binder: OverBinder, name: str, call: exp.Expr, where: exp.Expr | None, window: Window) -> WindowFunction:
    """Bind an aggregate with OVER. Raises SqlError."""
    measure = measure_of(binder, name, call, where, INSIDE, INSIDE)
    function = WindowFunction(measure, window.partition, window.order, _frame_of(window))
    if not function.frame.whole and (function.folds or function.name not in _ANY_FRAME):
        raise binder.source.unsupported(
            f"{'DISTINCT in ' * measure.distinct}{name} over a part of a partition",
            call,
            hint="leave ORDER BY out of OVER, or add ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        )
    return function


def _skipping(source: StatementText, function: WindowFunction, node: exp.Expr) -> WindowFunction:
    """The function with IGNORE NULLS. Raises SqlError if it has no such form."""
    if function.name not in _VALUES:
        hint = "lag, lead, first_value, last_value and nth_value have it; aggregates skip NULLs anyway"
        raise source.unsupported(f"IGNORE NULLS in {function.name}", node, hint=hint)
    return replace(function, skips_nulls=True)


def _window(binder: OverBinder, node: exp.Expr, seen: frozenset[str]) -> Window:
    """Bind a window: its parts, added to the parts of the window that it names. Raises SqlError."""
    source = binder.source
    base = _base(binder, node, seen)
    partition = _keys(binder.bind(key) for key in node.args.get("partition_by") or ())
    order = _order(binder, node.args.get("order"))
    if base is None:
        return Window(partition, order, _frame(binder, node.args.get("spec"), order))
    if node.args.get("partition_by"):
        raise source.error("a named window keeps its PARTITION BY", node, hint="leave PARTITION BY out, or the name")
    if order and base.order:
        raise source.error("the named window has its own ORDER BY", node, hint="leave ORDER BY out, or the name")
    frame = _frame(binder, node.args.get("spec"), order or base.order)
    if base.frame is not None and (order or frame is not None):
        raise source.error("the named window has its own frame", node, hint="leave the name out, and write the window")
    return Window(base.partition, order or base.order, frame if base.frame is None else base.frame)


def _base(binder: OverBinder, node: exp.Expr, seen: frozenset[str]) -> Window | None:
    """The window that `node` names. None if it names none. Raises SqlError."""
    named = node.args.get("alias")
    if named is None:
        return None
    folded, nodes = named.name.lower(), binder.windows.named
    if folded in seen:
        raise binder.source.error(f"the window {named.name[:128]!r} refers to itself", named)
    if folded not in nodes:
        hint = nearest(named.name, nodes) or "name it at the end: … WINDOW w AS (PARTITION BY k ORDER BY t)"
        raise binder.source.error(f"there is no window {named.name[:128]!r}", named, hint=hint)
    return _window(binder, nodes[folded], seen | {folded})


def _keys(keys: Iterable[Expr]) -> tuple[Expr, ...]:
    """The distinct keys. A constant is left out, as it is equal in all rows."""
    return tuple(dict.fromkeys(key for key in keys if not isinstance(key, Literal)))


def _order(binder: OverBinder, order: exp.Expr | None) -> tuple[OrderKey, ...]:
    """The keys of ORDER BY in a window."""
    keys: dict[Expr, OrderKey] = {}
    for item in () if order is None else order.expressions:
        node = item.this if isinstance(item, exp.Ordered) else item
        bound = binder.operand_of(node)
        key = bound.micros if isinstance(bound, Span) else bound
        if not isinstance(key, Literal):
            descending, nulls_first = bool(item.args.get("desc")), bool(item.args.get("nulls_first"))
            keys.setdefault(key, OrderKey(key, descending, nulls_first))
    return tuple(keys.values())


def _frame_of(window: Window) -> Frame:
    """The frame of a window: its own, or the default. Without ORDER BY all rows of the partition are peers."""
    if window.frame is None:
        return UP_TO_PEERS if window.order else WHOLE
    return WHOLE if window.frame.peers and not window.order else window.frame


def _frame(binder: OverBinder, spec: exp.Expr | None, order: Sequence[OrderKey]) -> Frame | None:
    """Bind ROWS or RANGE. `order`: the keys of the window's ORDER BY. Raises SqlError."""
    if spec is None:
        return None
    source, kind = binder.source, str(spec.args["kind"]).upper()
    excluded = spec.args.get("exclude")
    if excluded is not None and excluded.name.upper() != "NO OTHERS":
        raise source.unsupported("EXCLUDE in a frame", spec, hint=_FRAMES)
    if kind == "GROUPS":
        raise source.unsupported("GROUPS in a frame", spec, hint=_FRAMES)
    peers = order if kind == "RANGE" else None
    first = _end(binder, spec, spec.args.get("start"), spec.args.get("start_side"), peers)
    if spec.args.get("end") is None:
        last: float | None = 0
        if first is not None and first > 0:
            raise source.error("a frame that begins after the row needs its end", spec, hint=_FRAMES)
    else:
        last = _end(binder, spec, spec.args["end"], spec.args.get("end_side"), peers)
    for end, side, wrong in ((first, "start_side", "FOLLOWING"), (last, "end_side", "PRECEDING")):
        if end is None and str(spec.args.get(side)).upper() == wrong:
            raise source.error(
                f"a frame cannot {'begin' if side == 'start_side' else 'end'} at UNBOUNDED {wrong}", spec
            )
    return Frame(first, last, peers is not None)


def _end(
    binder: OverBinder, spec: exp.Expr, end: str | exp.Expr | None, side: str | None, order: Sequence[OrderKey] | None
) -> float | None:
    """An end of a frame, as in `Frame`. `order`: the keys of ORDER BY for RANGE, None for ROWS. Raises SqlError."""
    if isinstance(end, str):
        return None if end == "UNBOUNDED" else 0
    source = binder.source
    if end is None or side is None:
        raise source.error(
            "a frame needs its ends: UNBOUNDED PRECEDING, n PRECEDING, CURRENT ROW …", spec, hint=_FRAMES
        )
    sign = -1 if side.upper() == "PRECEDING" else 1
    if order is not None:
        return sign * distance(binder, end, order)
    constant = binder.constant(end)
    if constant is None or constant.type != BIGINT or not isinstance(constant.value, int) or constant.value < 0:
        raise source.error("the end of a frame is a constant whole number, at least 0", end, hint=_FRAMES)
    return sign * constant.value

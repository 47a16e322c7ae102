"""The bound expression tree: every name resolved, every type known, every conversion explicit.

    price * 2 > volume   ->   Call("gt", Call("mul", price, 2), Call("cast", volume) as …)  : BOOLEAN

Nodes are frozen, hashable and compared by value, so equal expressions of different queries can be shared. The hash of a
call is cached, as trees are often looked up; it is valid only in the process. The binder (`psoup.sql`) builds them;
`psoup.expressions.evaluate` computes them. Nothing here knows SQL text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from psoup.model import DataType

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant in engine form (see `psoup.model`); a `value` of None is NULL of the type."""

    type: DataType
    value: Value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Literal)
            and self.type == other.type
            and type(self.value) is type(other.value)
            and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True, slots=True)
class LongNumber(Literal):
    """A constant with more than 18 digits: `value` is the nearest DOUBLE, `digits / 10**places` the exact number.

    Comparisons use the exact number (`psoup.expressions.numbers.long_numbers`); elsewhere the constant is a DOUBLE.
    """

    digits: int
    places: int

    def __hash__(self) -> int:
        return hash((self.digits, self.places))

    @property
    def text(self) -> str:
        """All digits, with a point if there are decimal places."""
        shown = str(abs(self.digits)).rjust(self.places + 1, "0")
        whole, fraction = (shown[: -self.places], shown[-self.places :]) if self.places else (shown, "")
        return f"{'-' if self.digits < 0 else ''}{whole}{'.' if fraction else ''}{fraction}"


@dataclass(frozen=True, slots=True)
class AttributeRef:
    """A column of a source by its position in the schema; -1 is `_id` (BIGINT), -2 is `_time` (TIMESTAMP).

    `source`: the source's place in FROM; GROUPED for a column of groups, whose `name` is its canonical text.
    """

    type: DataType
    index: int
    name: str
    source: int = 0

    def __hash__(self) -> int:
        return hash((self.index, self.name))  # few references differ only in the source, and hashes are computed often


@dataclass(frozen=True, slots=True)
class Now:
    """NOW of the invocation. It occurs only in SELECT lists, HAVING and ORDER BY."""

    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function of `psoup.expressions.functions.FUNCTIONS` applied to arguments."""

    type: DataType
    name: str
    args: tuple[Expr, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.name, self.args)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return Call, (self.type, self.name, self.args)


Expr = Literal | AttributeRef | Now | Call

ID_INDEX = -1
TIME_INDEX = -2
GROUPED = -1
"""The `source` of columns of groups: keys and measures, by their place."""
OVER = -2
"""The `source` of columns of window functions, by their place."""
SET_COLUMNS = -3
"""The `source` of columns of a set operation, or of constants, by position."""


def attributes_of(expr: Expr) -> frozenset[int]:
    """The schema positions (and -1, -2 for `_id`, `_time`) that `expr` reads. O(size of the tree)."""
    if isinstance(expr, AttributeRef):
        return frozenset({expr.index})
    if isinstance(expr, Call):
        return frozenset().union(*(attributes_of(arg) for arg in expr.args))
    return frozenset()


def columns_of(expr: Expr) -> Iterator[AttributeRef]:
    """Yield the columns that `expr` reads, in its order, with repetitions. O(size of the tree)."""
    if isinstance(expr, AttributeRef):
        yield expr
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from columns_of(arg)


def sources_of(expr: Expr) -> frozenset[int]:
    """The places in FROM of the sources that `expr` reads. O(size of the tree)."""
    return frozenset(column.source for column in columns_of(expr))


def source_of(expr: Expr) -> int:
    """The single source that `expr` reads; O(size of the tree). Raises ValueError if it reads none, or several."""
    (source,) = sources_of(expr)
    return source


def of_source(expr: Expr, source: int) -> Expr:
    """The same expression over the source at another place. O(size of the tree)."""
    if isinstance(expr, AttributeRef):
        return expr if expr.source == source else AttributeRef(expr.type, expr.index, expr.name, source)
    if isinstance(expr, Call):
        return Call(expr.type, expr.name, tuple([of_source(arg, source) for arg in expr.args]))
    return expr


def reads_now(expr: Expr) -> bool:
    """Whether the value of `expr` depends on NOW. O(size of the tree)."""
    return isinstance(expr, Now) or (isinstance(expr, Call) and any(map(reads_now, expr.args)))


def with_columns(expr: Expr, columns: Mapping[AttributeRef, AttributeRef]) -> Expr:
    """The same expression with every column replaced by its entry in `columns`. O(size of the tree)."""
    if isinstance(expr, AttributeRef):
        return columns[expr]
    if isinstance(expr, Call):
        return Call(expr.type, expr.name, tuple([with_columns(arg, columns) for arg in expr.args]))
    return expr

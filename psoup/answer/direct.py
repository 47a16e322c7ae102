"""The common joins among plans: two sources, and either one equality of columns or bands of a column about another.

    s.u >= r.t - 50 AND r.t > s.u      columns (t, u), s.u - r.t from -50 to -1: whole numbers
    s.at BETWEEN r.at AND r.at + INTERVAL 1 HOUR

Columns are of one kind, whose order keys are whole numbers; a constant may be added to a BIGINT or a TIMESTAMP. All
other joins are left to `psoup.joins.joined`, and so is one whose sums leave the range of its type, as these are errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from psoup.expressions.civil import FIRST_MICRO, LAST_MICRO
from psoup.expressions.conversion import comparable
from psoup.expressions.tree import ID_INDEX, AttributeRef, Call, Expr, Literal
from psoup.joins.keys import FLIPPED
from psoup.joins.two import Band, SideKeys
from psoup.kernels.gather import NARROW, NUMBER, WIDE
from psoup.kernels.joined import FLOAT
from psoup.model import BIGINT, Kind
from psoup.plan.nodes import Join, PairFactor, names_of

_REMEMBERED = 1_024
_FORMS = {Kind.BIGINT: WIDE, Kind.TIMESTAMP: WIDE, Kind.DECIMAL: WIDE, Kind.DATE: NARROW, Kind.DOUBLE: FLOAT}
"""The kinds of keys that are gathered directly, as `gather_keys` wants them."""
_FAR = 2**62
_RANGES = {Kind.BIGINT: (-(2**63), 2**63 - 1), Kind.TIMESTAMP: (FIRST_MICRO, LAST_MICRO)}


class _Operand(NamedTuple):
    """A column, and what is added to it."""

    column: AttributeRef
    shift: int


@dataclass(frozen=True, slots=True)
class DirectJoin:
    """The columns of both sides by their places in the schemas, and their kinds for `gather_keys`; `text`: the factors.

    `band`: how near they have to be; None: equal. `sums`: (side, what is added, least, greatest).
    """

    columns: tuple[int, int]
    kinds: tuple[int, int]
    band: Band | None
    sums: tuple[tuple[int, int, int, int], ...]
    text: str

    def fits(self, keys: Mapping[int, SideKeys]) -> bool:
        """Whether no sum leaves the range of its type."""
        return all(
            least <= keys[side].least + shift and keys[side].greatest + shift <= greatest
            for side, shift, least, greatest in self.sums
        )


def direct_join(node: Join) -> DirectJoin | None:
    """The common join that a node is; None of others. O(1) if known."""
    known = _known.get(id(node))
    if known is None:
        if len(_known) >= _REMEMBERED:
            _known.clear()
        known = _known[id(node)] = node, _direct_join(node)
    return known[1]


_known: dict[int, tuple[Join, DirectJoin | None]] = {}
"""By the identity of the node, not used again while it is here."""


def _direct_join(node: Join) -> DirectJoin | None:
    factors = [factor for factor in (*node.keys, *node.bands) if not factor.implied]
    if len(node.inputs) != 2 or node.rest or not factors or (node.keys and len(factors) > 1):
        return None
    compared = [_compared(factor) for factor in factors]
    pairs = [both for both in compared if both is not None]
    columns = {(left.column, right.column) for _, left, right in pairs}
    if len(pairs) < len(factors) or len(columns) > 1:
        return None
    ((first, second),) = columns
    kinds = (
        NUMBER if first.index == ID_INDEX else _FORMS[first.type.kind],
        (NUMBER if second.index == ID_INDEX else _FORMS[second.type.kind]),
    )
    band = None if node.keys else _band(pairs)
    shifted = [(side, own.shift) for _, *both in pairs for side, own in enumerate(both) if own.shift]
    if (node.keys and shifted) or (band is not None and not _near(band)):
        return None
    sums = [(side, shift, *_RANGES[first.type.kind]) for side, shift in dict.fromkeys(shifted)]
    text = " AND ".join([factor.text(names_of(node)) for factor in factors])
    return DirectJoin((first.index, second.index), kinds, band, tuple(sums), text)


def _compared(factor: PairFactor) -> tuple[str, _Operand, _Operand] | None:
    """The factor as: right operand of the second source, operator, operand of the first. None if it is another one."""
    left, right = (_operand(expr) for expr in comparable(factor.left, factor.right))
    if left is None or right is None:
        return None
    first, second = left.column.type, right.column.type
    if first.kind is not second.kind or first.scale != second.scale:
        return None
    if factor.sources == (0, 1):
        return FLIPPED[factor.operator], left, right
    return factor.operator, right, left


def _operand(expr: Expr) -> _Operand | None:
    """A column, or a column and a constant."""
    if isinstance(expr, AttributeRef):
        return _Operand(expr, 0) if expr.type.kind in _FORMS else None
    if not (isinstance(expr, Call) and isinstance(expr.args[0], AttributeRef)):
        return None
    column, *rest = expr.args
    constants = [arg.value for arg in rest if isinstance(arg, Literal) and arg.type == BIGINT]
    numbers = [value for value in constants if isinstance(value, int)]
    assert isinstance(column, AttributeRef)
    if len(numbers) < len(rest):
        return None
    if expr.name in ("add", "sub") and column.type == expr.type == BIGINT:
        return _Operand(column, numbers[0] if expr.name == "add" else -numbers[0])
    if expr.name == "add_interval" and column.type.kind is Kind.TIMESTAMP and not numbers[0]:
        return _Operand(column, numbers[1])
    return None


def _band(pairs: list[tuple[str, _Operand, _Operand]]) -> Band:
    """What all comparisons together say of the difference; keys are whole numbers, so < 5 is <= 4."""
    low: int | None = None
    high: int | None = None
    for operator, left, right in pairs:
        apart = left.shift - right.shift
        if operator in ("ge", "gt"):
            bound = apart + (operator == "gt")
            low = bound if low is None else max(low, bound)
        else:
            bound = apart - (operator == "lt")
            high = bound if high is None else min(high, bound)
    return Band(low, high)


def _near(band: Band) -> bool:
    return all(-_FAR < bound < _FAR for bound in (band.low, band.high) if bound is not None)

"""Facts about a direct join: two sources, with equalities of columns, bands between columns, or both.

    r.k = s.k AND r.name = s.name      several keys: a hash of all keys finds pairs, then each key is compared
    r.k = s.k AND s.at >= r.at         a key and a band: the key finds pairs, then the band is tested
    s.u >= r.t - 50 AND r.t > s.u      one band of whole numbers: s.u - r.t is from -50 to -1
    s.at BETWEEN r.at AND r.at + INTERVAL 1 HOUR

Both columns of a factor have one type. Texts are only compared for equality. A band may add a constant to a BIGINT or a
TIMESTAMP. `psoup.joins.join_pieces` makes all other joins. It also makes a join if a sum leaves the range of its type.
Such a sum is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from psoup.expressions.civil import FIRST_MICRO, LAST_MICRO
from psoup.expressions.conversion import comparable
from psoup.expressions.tree import ID_INDEX, AttributeRef, Call, Expr, Literal
from psoup.joins.hash_pairs import Band, SideKeys
from psoup.joins.key_columns import FLIPPED
from psoup.kernels.join.pair_columns import FLOAT
from psoup.kernels.rows.batch_body import NARROW, NUMBER, TEXT, WIDE
from psoup.model import BIGINT, Kind
from psoup.plan.nodes import Join, PairFactor, names_of
from psoup.plan.plan_facts import plan_fact

_FORMS = {
    Kind.BIGINT: WIDE,
    Kind.TIMESTAMP: WIDE,
    Kind.DECIMAL: WIDE,
    Kind.DATE: NARROW,
    Kind.DOUBLE: FLOAT,
    Kind.TEXT: TEXT,
}
"""The kind that `MatchedSide.keys` takes, for each type of key that a direct join may have."""
_FAR = 2**62
"""The bounds of a band must be nearer to 0 than this."""
_KEY_BYTES = (12, 28)
"""Bytes of a whole number and its position. Bytes of a text's hash, address, size and position."""
_HASH_BYTES = 12
"""Bytes of a hash of several keys, and its position."""
_RANGES = {Kind.BIGINT: (-(2**63), 2**63 - 1), Kind.TIMESTAMP: (FIRST_MICRO, LAST_MICRO)}


class _Operand(NamedTuple):
    """An operand of a factor: a column, and the constant that is added to it."""

    column: AttributeRef
    shift: int


class Columns(NamedTuple):
    """The columns of a factor, one of each side, by place in the schema. `kinds`: as `MatchedSide.keys` takes them."""

    columns: tuple[int, int]
    kinds: tuple[int, int]


class Sum(NamedTuple):
    """A sum of a column of a side and the constant `shift`. The type of the sum ranges from `least` to `greatest`."""

    side: int
    column: int
    shift: int
    least: int
    greatest: int


@dataclass(frozen=True)
class DirectJoin:
    """The factors of a direct join: equalities (`keys`) and bands. Without keys there is exactly one band.

    `sums`: the sums in bands. `text`: the factors, for messages.
    """

    keys: tuple[Columns, ...]
    bands: tuple[tuple[Columns, Band], ...]
    sums: tuple[Sum, ...]
    text: str

    @cached_property
    def read(self) -> tuple[dict[int, int], dict[int, int]]:
        """For each side, the columns that the factors read, and the kind of each."""
        used = (*self.keys, *(columns for columns, _ in self.bands))
        left, right = ({own.columns[side]: own.kinds[side] for own in used} for side in (0, 1))
        return left, right

    @cached_property
    def is_single(self) -> bool:
        """Whether the join is one equality of columns other than texts."""
        return len(self.keys) == 1 and not self.bands and self.keys[0].kinds[0] != TEXT

    @cached_property
    def row_bytes(self) -> tuple[int, int]:
        """Bytes that the keys of one row take, for the left and the right side."""
        left, right = (sum([_KEY_BYTES[kind == TEXT] for kind in own.values()]) for own in self.read)
        hashes = 0 if self.is_single else _HASH_BYTES
        return left + hashes, right + hashes

    def fits(self, keys: Sequence[Mapping[int, SideKeys]]) -> bool:
        """Whether all sums stay in the range of their types and of int64. `keys`: for each side, keys by column."""
        return all(
            own.least <= keys[own.side][own.column].least + own.shift
            and keys[own.side][own.column].greatest + own.shift <= own.greatest
            for own in self.sums
        ) and all(band.in_range(keys[0][both.columns[0]], keys[1][both.columns[1]]) for both, band in self.bands)


@plan_fact
def direct_join(node: Join) -> DirectJoin | None:
    """The facts about a join node. None if it is not a direct join."""
    factors = [factor for factor in (*node.keys, *node.bands) if not factor.implied]
    if len(node.inputs) != 2 or node.rest or not factors:
        return None
    compared = [_compared(factor) for factor in factors]
    pairs = [both for both in compared if both is not None]
    if len(pairs) < len(factors):
        return None
    keys = dict.fromkeys((left.column, right.column) for operator, left, right in pairs if operator == "eq")
    near = [both for both in pairs if both[0] != "eq"]
    about = dict.fromkeys((left.column, right.column) for _, left, right in near)
    if any(left.shift or right.shift for operator, left, right in pairs if operator == "eq"):
        return None
    of_columns = {both: [own for own in near if (own[1].column, own[2].column) == both] for both in about}
    bands = [(_columns(*both), _band(own)) for both, own in of_columns.items()]
    if not all(_near(band) for _, band in bands) or not (keys or len(bands) == 1):
        return None
    shifted = [(side, own) for _, *both in near for side, own in enumerate(both) if own.shift]
    sums = [Sum(side, own.column.index, own.shift, *_RANGES[own.column.type.kind]) for side, own in shifted]
    text = " AND ".join([factor.text(names_of(node)) for factor in factors])
    return DirectJoin(tuple([_columns(*both) for both in keys]), tuple(bands), tuple(dict.fromkeys(sums)), text)


def _columns(left: AttributeRef, right: AttributeRef) -> Columns:
    first, second = (NUMBER if own.index == ID_INDEX else _FORMS[own.type.kind] for own in (left, right))
    return Columns((left.index, right.index), (first, second))


def _compared(factor: PairFactor) -> tuple[str, _Operand, _Operand] | None:
    """The operator of a factor and its operands, of the first and the second source.

    None if an operand is neither a column nor a sum, or if the types differ. Also None for texts unless the operator
    is =.
    """
    left, right = (_operand(expr) for expr in comparable(factor.left, factor.right))
    if left is None or right is None:
        return None
    first, second = left.column.type, right.column.type
    texts = first.kind is Kind.TEXT and factor.operator != "eq"
    if texts or first.kind is not second.kind or first.scale != second.scale:
        return None
    if factor.sources == (0, 1):
        return FLIPPED[factor.operator], left, right
    return factor.operator, right, left


def _operand(expr: Expr) -> _Operand | None:
    """The operand in an expression. None if this is neither a column nor a column plus or minus a constant."""
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
    """The intersection of all comparisons of two columns, as one band. Keys are whole numbers, so < 5 is <= 4."""
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

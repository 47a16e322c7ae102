"""Relations by definition, as an oracle for operators with state: R(t) as a multiset at each instant.

    R(t)     of an input: the values with start <= t <= end
    wanted   R(t) - R(t - 1) enters at t, R(t - 1) - R(t) leaves at t

Rows are (values, start, end), and a relation is a Counter of values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from psoup.delta.spans import FOREVER, Deltas, Operator, Spans
from psoup.model import DataType, Kind
from psoup.values.columns import Column
from psoup.values.kinds import TYPES

Row = tuple[tuple[Any, ...], int, int]
"""The values of a row, its start and its end."""
Change = tuple[tuple[Any, ...], int, int]
"""The values of a row, the sign and the instant."""
LAST = 40
"""The last instant of a short history."""
Relation = Callable[..., Counter[tuple[Any, ...]]]
"""A function from the multisets of the inputs at one instant to the multiset of the result."""


def column_of(data_type: DataType, values: Sequence[Any]) -> Column:
    """A column of Python values: None for NULL; TEXT takes str, other types take the values in memory."""
    valid = np.array([value is not None for value in values], bool)
    shown = None if valid.all() else valid
    if data_type.kind is Kind.TEXT:
        texts = [(value or "").encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        return Column(data_type, ends, shown, np.frombuffer(b"".join(texts), np.uint8))
    dtype = TYPES[data_type.kind].dtype
    return Column(data_type, np.array([0 if value is None else value for value in values], dtype), shown)


def spans_of(types: Sequence[DataType], rows: Sequence[Row]) -> Spans:
    """The spans of rows, in order of start."""
    rows = sorted(rows, key=lambda row: row[1])
    columns = [column_of(kind, [row[0][at] for row in rows]) for at, kind in enumerate(types)]
    return Spans(tuple(columns), *(np.array([row[k] for row in rows], np.int64) for k in (1, 2)))


def changes_of(deltas: Deltas) -> list[Change]:
    """Deltas as Python values, in their order."""
    shown = [column.to_list() for column in deltas.columns]
    values = zip(*shown, strict=True) if shown else [()] * len(deltas.sign)
    return list(zip(map(canonical, values), deltas.sign.tolist(), deltas.instant.tolist(), strict=True))


def canonical(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values, with -0.0 as 0.0, and NaN as a text that equals itself."""
    return tuple(
        [("NaN" if value != value else value + 0.0) if isinstance(value, float) else value for value in values]
    )


def at_instant(rows: Sequence[Row], instant: int) -> Counter[tuple[Any, ...]]:
    """The multiset of an input at an instant."""
    return Counter(canonical(values) for values, start, end in rows if start <= instant <= end)


def differences(
    relation: Callable[[int], Counter[tuple[Any, ...]]], after: int, until: int
) -> Counter[tuple[tuple[Any, ...], int, int]]:
    """The changes of a relation at the instants after `after`, up to `until`, with their numbers."""
    wanted = Counter[Change]()
    before = relation(after)
    for instant in range(after + 1, until + 1):
        now = relation(instant)
        for sign, change in ((1, now - before), (-1, before - now)):
            wanted.update({(values, sign, instant): count for values, count in change.items()})
        before = now
    return wanted


def steps_of(
    operator: Operator, types: Sequence[Sequence[DataType]], inputs: Sequence[Sequence[Row]], instants: Sequence[int]
) -> list[Change]:
    """The changes of all steps: up to each of these instants. Checks the operator, and the order, after each step."""
    changes, after = list[Change](), None
    for until in instants:
        new = [[row for row in rows if (after is None or after < row[1]) and row[1] <= until] for rows in inputs]
        deltas = operator.step([spans_of(kinds, rows) for kinds, rows in zip(types, new, strict=True)], until)
        operator.check()
        assert_ordered(deltas, after, until)
        changes += changes_of(deltas)
        after = until
    return changes


def assert_ordered(deltas: Deltas, after: int | None, until: int) -> None:
    """Fail unless deltas are in their step and in their order. No value may both enter and leave at one instant."""
    changes = changes_of(deltas)
    assert all((after is None or after < instant) and instant <= until for _, _, instant in changes)
    keys = [(instant, sign, _sort_key(values)) for values, sign, instant in changes]
    assert keys == sorted(keys)
    entered = {(values, instant) for values, sign, instant in changes if sign > 0}
    assert not entered & {(values, instant) for values, sign, instant in changes if sign < 0}


def _sort_key(values: tuple[Any, ...]) -> list[tuple[int, Any]]:
    def key(value: Any) -> tuple[int, Any]:
        if value is None:
            return 2, 0
        return (1, 0) if value == "NaN" else (0, value.encode() if isinstance(value, str) else value)

    return [key(value) for value in values]


def live_at(rows: Sequence[Row], instant: int) -> list[Row]:
    """The rows from which a restart at an instant makes the state again."""
    return [row for row in rows if row[1] <= instant <= row[2]]


def random_rows(
    rng: np.random.Generator, values: Callable[[np.random.Generator], tuple[Any, ...]], count: int, ordered: bool
) -> list[Row]:
    """Rows with random starts and ends in a short history. `ordered`: all rows last equally long."""
    rows = list[Row]()
    length = int(rng.integers(1, 12))
    for _ in range(count):
        start = int(rng.integers(0, LAST))
        end = start + (length if ordered else int(rng.integers(0, 15)))
        rows.append((values(rng), start, FOREVER if not ordered and rng.random() < 0.05 else end))
    return rows


def random_instants(rng: np.random.Generator, last: int = LAST + 20) -> list[int]:
    """Random ends of steps: sometimes each instant, sometimes one step; the last one is `last`."""
    share = float(rng.choice([0.0, 0.1, 0.5, 1.0]))
    return [*[instant for instant in range(last) if rng.random() < share], last]

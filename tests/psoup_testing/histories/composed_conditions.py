"""Random conditions on items of FROM: keys, bands, and conditions that are true of NULL."""

from __future__ import annotations

from psoup_testing.histories.composed_items import Item
from psoup_testing.histories.join_statements import Chance

NUMBERS = ("whole", "double", "decimal")
OPERATORS = ("<", "<=", ">", ">=")
_TYPES = {
    "whole": "BIGINT",
    "double": "DOUBLE",
    "decimal": "DECIMAL(9,2)",
    "text": "TEXT",
    "time": "TIMESTAMP",
}
"""The SQL types of the kinds of columns."""


def columns_of(item: Item, *kinds: str) -> list[str]:
    """The columns of some kinds."""
    return [f"{item.alias}.{name}" for name, kind in item.columns if kind in kinds and name != "_id"]


def null_of(kind: str) -> str:
    """NULL of a kind."""
    return f"CAST(NULL AS {_TYPES[kind]})"


def key_or_band(make: Chance, left: Item, right: Item) -> str:
    """A key or a band of two items."""
    a, b = (left, right) if make.likely(50) else (right, left)
    numbers, texts, times = (
        (columns_of(a, *kinds), columns_of(b, *kinds)) for kinds in (NUMBERS, ("text",), ("time",))
    )
    form = make.number(0, 9)
    if form == 0 and all(texts):
        return f"{make.pick(texts[0])} {make.pick(('=', '=', '<', '>='))} {make.pick(texts[1])}"
    if form == 1 and all(times):
        return f"{make.pick(times[0])} {make.pick(OPERATORS)} {make.pick(times[1])}"
    if form == 2 and all(times):
        time, other = make.pick(times[0]), make.pick(times[1])
        return f"{time} BETWEEN {other} - INTERVAL {make.number(0, 8)} SECOND AND {other}"
    if not all(numbers):
        return f"{make.pick(texts[0])} = {make.pick(texts[1])}" if all(texts) else "1 = 1"
    x, y = make.pick(numbers[0]), make.pick(numbers[1])
    if form == 3:
        return f"{x} {make.pick(OPERATORS)} {y}"
    if form == 4:
        return f"{x} BETWEEN {y} - 1 AND {y} + 1"
    if form == 5:
        return f"{x} + 1 = {y}"
    return f"{x} = {y}"


def on_one(make: Chance, item: Item) -> str:
    """A condition on one item; some are true of NULL."""
    numbers, texts = columns_of(item, *NUMBERS), columns_of(item, "text")
    column = make.pick([*numbers, *texts] or columns_of(item, "time"))
    form = make.number(0, 7)
    if form == 0:
        return f"{column} IS NULL"
    if form == 1:
        return f"{column} IS NOT NULL"
    if form == 2 and texts:
        return f"{make.pick(texts)} LIKE '%a%'"
    if form == 3 and numbers:
        return f"coalesce({make.pick(numbers)}, 1) = 1"
    if form == 4 and numbers:
        return f"({make.pick(numbers)} = 0 OR {make.pick(numbers)} IS NULL)"
    if not numbers:
        return f"{column} IS NOT NULL"
    return f"{make.pick(numbers)} {make.pick((*OPERATORS, '=', '<>'))} {make.number(-1, 4)}"


def neither_key_nor_band(make: Chance, left: Item, right: Item) -> str:
    """A condition on two items that is neither a key nor a band; some are true of NULL."""
    a, b = columns_of(left, "whole"), columns_of(right, "whole")
    if not a or not b:
        return f"({on_one(make, left)} OR {on_one(make, right)})"
    x, y = make.pick(a), make.pick(b)
    form = make.number(0, 4)
    if form == 0:
        return f"({x} = {make.number(0, 3)} OR {y} > {make.number(-1, 3)})"
    if form == 1:
        return f"{x} <> {y}"
    if form == 2:
        return f"{x} + {y} > {make.number(-1, 4)}"
    if form == 3:
        return f"({x} IS NULL OR {y} IS NULL OR {x} = {y})"
    return f"coalesce({x}, {y}) < 3"

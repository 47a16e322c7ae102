"""Random tables: their schemas, keys, options, and the rows that are pushed to them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

from psoup.model import BIGINT, DATE, TEXT, TIMESTAMP, Attribute, DataType, decimal
from psoup_testing.histories.values import Value, arrow_array

KEYS: tuple[DataType, ...] = (BIGINT, TEXT, DATE, decimal(9, 2))
POOLS: dict[DataType, tuple[Value, ...]] = {
    BIGINT: (-1, 0, 1, 2, 3, 2**40),
    TEXT: ("", "a", "b", "ab", "words of more than eight bytes", "é"),
    DATE: (18_262, 18_263, 18_264, -1, 0),
    decimal(9, 2): (Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("99.99")),
}
"""Few values of each type, so that keys meet often."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """A random table or stream. `keys`: the names of the primary key, none for a stream. `timed`: has event time."""

    name: str
    columns: tuple[Attribute, ...]
    keys: tuple[str, ...]
    timed: bool
    lateness: int = 0
    options: str = ""
    pools: dict[str, tuple[Value, ...]] = field(default_factory=dict)

    def sql(self) -> str:
        """The CREATE statement."""
        columns = [f"{a.name} {a.type}{'' if a.nullable else ' NOT NULL'}" for a in self.columns]
        columns += [f"PRIMARY KEY ({', '.join(self.keys)})"] if self.keys else []
        noun = "TABLE" if self.keys else "STREAM"
        time = f" TIMESTAMP BY at{f' LATENESS {self.lateness} SECONDS' if self.lateness else ''}" if self.timed else ""
        return f"CREATE {noun} {self.name} ({', '.join(columns)}){time}{self.options}"


def draw_table(draw: random.Random, name: str, options: Sequence[str]) -> TableShape:
    """A table with one to three columns as its key, and three more. It has one of the texts `options`."""
    kinds = draw.sample(KEYS, draw.choice((1, 1, 2, 3)))
    keys = tuple(f"k{place}" for place in range(len(kinds)))
    timed = draw.random() < 0.5
    columns = [Attribute(key, kind, nullable=False) for key, kind in zip(keys, kinds, strict=True)]
    columns += [Attribute("v", BIGINT), Attribute("w", TEXT, nullable=draw.random() < 0.7), Attribute("p", KEYS[3])]
    columns += [Attribute("at", TIMESTAMP, nullable=False)] if timed else []
    draw.shuffle(columns)
    return TableShape(
        name, tuple(columns), keys, timed, draw.choice((0, 3)) if timed else 0, draw.choice(options), _pools(columns)
    )


def draw_stream(draw: random.Random, name: str, timed: bool) -> TableShape:
    """A stream with a nullable column of each kind of key, and a number."""
    columns = [Attribute(f"c{place}", kind) for place, kind in enumerate(KEYS)] + [Attribute("n", BIGINT)]
    columns += [Attribute("at", TIMESTAMP, nullable=False)] if timed else []
    return TableShape(name, tuple(columns), (), timed, 2 if timed else 0, "", _pools(columns))


def _pools(columns: Sequence[Attribute]) -> dict[str, tuple[Value, ...]]:
    return {a.name: POOLS[a.type] for a in columns if a.type in POOLS}


def draw_rows(
    draw: random.Random, shape: TableShape, columns: Sequence[Attribute], times: Sequence[int]
) -> tuple[list[bool | None], list[list[Value]]]:
    """A row for each time, and whether it deletes its key. `columns`: the present ones of the table, in their order."""
    rows, deletes = list[list[Value]](), list[bool | None]()
    for time in times:
        deleted = draw.choice((True, False, False, None, None, None)) if shape.keys else None
        row: list[Value] = []
        for attribute in columns:
            if attribute.type == TIMESTAMP:
                row.append(time)
                continue
            fixed = attribute.name in shape.keys or not (attribute.nullable or deleted)
            pool = shape.pools.get(attribute.name, POOLS[attribute.type])
            row.append(draw.choice(pool) if fixed or draw.random() < 0.75 else None)
        rows.append(row)
        deletes.append(deleted)
    return deletes, rows


def pushed(
    columns: Sequence[Attribute],
    rows: Sequence[Sequence[Value]],
    deletes: Sequence[bool | None],
    patches: Sequence[bool | None],
) -> pa.Table:
    """The rows as Arrow. Has columns `_deleted` and `_patch` if some row says whether it is a deletion or a patch."""
    arrays = {a.name: arrow_array(a.type, [row[place] for row in rows]) for place, a in enumerate(columns)}
    if any(flag is not None for flag in deletes):
        arrays["_deleted"] = pa.array(deletes, pa.bool_())
    if any(flag is not None for flag in patches):
        arrays["_patch"] = pa.array(patches, pa.bool_())
    return pa.table(arrays)

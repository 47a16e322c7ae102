"""The table of kinds: each has a row, whose facts agree with one another and with what columns do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.expressions.conversion import NUMBERS, TIMES
from psoup.expressions.formats import WRITERS
from psoup.kernels.rows import batch_body
from psoup.model import STREAMED, Attribute, DataType, Kind, Schema, decimal, wide
from psoup.values.columns import arrow_table
from psoup.values.from_arrow import column_from_arrow, columns_from_arrow
from psoup.values.kinds import TYPES, accepts, arrow_type, ends, memory_type
from psoup_service.wire.convert import KINDS

VALUES: dict[Kind, list[Any]] = {
    Kind.BOOLEAN: [False, True],
    Kind.BIGINT: [-(2**63), -1, 0, 2**63 - 1],
    Kind.DOUBLE: [-np.inf, -1.5, 0.0, 1e308, np.inf, np.nan],
    Kind.DECIMAL: [-999, 0, 999],
    Kind.TEXT: ["", "a", "b\0", "é"],
    Kind.TIMESTAMP: [-(2**63), 0, 2**63 - 1],
    Kind.DATE: [-(2**31), 0, 2**31 - 1],
    Kind.WIDE: [Decimal(-(10**38) + 1), Decimal(-1), Decimal(0), Decimal(2**64), Decimal(10**38 - 1)],
}
"""Values in ascending order, the least and the greatest among them."""


def type_of(kind: Kind) -> DataType:
    return {Kind.DECIMAL: decimal(3, 0), Kind.WIDE: wide(0)}.get(kind, DataType(kind))


def column(kind: Kind) -> pa.Array:
    """The values as an array that may be pushed."""
    plain = pa.array(VALUES[kind], {Kind.DATE: pa.int32(), Kind.WIDE: pa.decimal128(38, 0)}.get(kind))
    return plain.view(memory_type(type_of(kind))) if kind in TIMES else plain


def test_every_kind_has_a_row_a_writer_and_a_name_on_the_wire() -> None:
    assert list(TYPES) != [] and TYPES.keys() == set(Kind) == VALUES.keys() == KINDS.keys()
    assert WRITERS.keys() == set(Kind) - {Kind.TEXT}
    assert len({KINDS[kind] for kind in STREAMED}) == len(STREAMED) and KINDS[Kind.WIDE] == KINDS[Kind.DECIMAL]
    assert frozenset({Kind.BIGINT, Kind.DECIMAL, Kind.WIDE, Kind.DOUBLE}) == NUMBERS


@pytest.mark.parametrize("kind", list(Kind))
def test_the_facts_of_a_kind_agree_with_its_columns(kind: Kind) -> None:
    data_type, facts = type_of(kind), TYPES[kind]
    made = column_from_arrow("x", data_type, column(kind))
    assert made.values.dtype == facts.dtype
    assert made.to_arrow().type in (arrow_type(data_type), pa.large_string())
    assert accepts(data_type, memory_type(data_type)) is (kind in STREAMED) and accepts(data_type, pa.null())
    assert facts.layout in (batch_body.WIDE, batch_body.NARROW, batch_body.BITS, batch_body.DECIMAL, batch_body.TEXT)
    if facts.layout in (batch_body.WIDE, batch_body.NARROW):
        assert facts.dtype.itemsize == {batch_body.WIDE: 8, batch_body.NARROW: 4}[facts.layout]
    if facts.infinite is not None:
        assert facts.infinite == np.iinfo(facts.dtype).max


@pytest.mark.parametrize("kind", [kind for kind in STREAMED if kind is not Kind.TEXT])
def test_all_keys_of_a_kind_lie_between_its_ends(kind: Kind) -> None:
    data_type = type_of(kind)
    keys = [int(key) for key in column_from_arrow("x", data_type, column(kind)).order_keys()]
    first, beyond = ends(data_type)
    assert isinstance(first, int) and isinstance(beyond, int)
    assert keys == sorted(keys) and first <= keys[0] and keys[-1] < beyond
    if kind is Kind.DOUBLE:
        assert (first, beyond) == (keys[0], keys[-1] + 1)


@pytest.mark.parametrize("rows", [0, 3])
def test_a_missing_column_is_a_column_of_null(rows: int) -> None:
    types = [type_of(kind) for kind in STREAMED]
    schema = Schema(tuple(Attribute(f"{type}{twice}", type) for twice in range(2) for type in types))
    some = {schema.names[0]: pa.array([True] * rows, pa.bool_())}
    told = {a.name: some.get(a.name, pa.nulls(rows, arrow_type(a.type))) for a in schema.attributes}
    missing = columns_from_arrow(schema, pa.table(some))
    assert arrow_table(schema, missing) == arrow_table(schema, columns_from_arrow(schema, pa.table(told)))
    assert [len(column) for column in missing] == [rows] * len(missing)

"""Every Arrow type against every type of a stream, in every form of an array: taken or refused, never a defect."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import InvalidBatch
from psoup.model import Attribute, DataType, Kind, Schema
from psoup.values.from_arrow import columns_from_arrow
from psoup_testing.engines.admission_gate import Gate, rows
from psoup_testing.suite.sweeps import swept

TYPES = ("BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL(5,2)", "TEXT", "TIMESTAMP", "DATE")
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
DECIMALS = (
    pa.decimal32(5, 2),
    pa.decimal64(10, 3),
    pa.decimal128(38, 0),
    pa.decimal128(38, 38),
    pa.decimal256(76, 0),
    pa.decimal256(70, 60),
)
ZONES = (None, "UTC", "America/New_York", "Nowhere/Bad", "+05:30")


def scalars() -> Iterator[pa.Array]:
    yield pa.nulls(3)
    yield pa.array([True, None, False])
    yield from (pa.array([1, None, 100], kind) for kind in INTEGERS)
    yield pa.array([1, 2**64 - 1], pa.uint64())
    yield pa.array([-(2**63), 2**63 - 1])
    yield from (pa.array(np.array([1.5, np.nan, -0.0, np.inf], kind)) for kind in ("f2", "f4", "f8"))
    yield from (pa.array([Decimal(0), None, Decimal("1e-2") if kind.scale else Decimal(7)], kind) for kind in DECIMALS)
    yield pa.array([Decimal(10) ** 37], pa.decimal128(38, 0))
    yield pa.array([Decimal(10) ** 70], pa.decimal256(76, 0))
    for unit in ("s", "ms", "us", "ns"):
        for zone in ZONES:
            yield pa.array([0, None, 10**9 + 1], pa.timestamp(unit, zone))
            yield pa.array([2**62, -(2**62)], pa.timestamp(unit, zone))
    yield pa.array([0, None, 2**31 - 1], pa.date32())
    yield from (pa.array([value]).view(pa.date64()) for value in (0, 1, 2**62))
    yield pa.array([1], pa.duration("us"))
    yield pa.array([1], pa.time64("us"))
    yield pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    yield from (pa.array(["a", None, "äöü " * 9], kind) for kind in (pa.string(), pa.large_string(), pa.string_view()))
    yield from (pa.array([b"ab"], kind) for kind in (pa.binary(), pa.binary(2), pa.binary_view()))


def nested() -> Iterator[pa.Array]:
    yield pa.array(["a", None, "a"]).dictionary_encode()
    yield pa.array([1, None, 1]).dictionary_encode()
    yield pa.array([1, 2], pa.timestamp("us")).dictionary_encode()
    yield pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    yield pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]).dictionary_encode())
    yield pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"])
    yield pa.array([[1], None])
    yield pa.array([{"a": 1}])
    yield pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    yield pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2])])
    yield pa.array([uuid.UUID(int=5).bytes], pa.uuid())
    yield pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"]))


def forms(array: pa.Array) -> Iterator[pa.Array | pa.ChunkedArray]:
    yield array
    yield array.slice(1)
    yield array.slice(0, 0)
    yield pa.chunked_array([array, array.slice(0, 1)])
    yield pa.chunked_array([], array.type)


def outcome(gate: Gate, array: pa.Array | pa.ChunkedArray) -> str:
    """`taken` or `refused`; any other exception, Internal among them, is raised."""
    try:
        gate.push("s", rows(x=array))
    except InvalidBatch:
        return "refused"
    return "taken"


@pytest.mark.parametrize("declared", swept(TYPES, fast=range(0, 7, 3)))
def test_an_arrow_type_is_taken_or_refused_and_never_a_defect(declared: str) -> None:
    gate, taken = Gate(now=2e9), 0
    gate.create(f"CREATE STREAM s (x {declared})")
    for array in (*scalars(), *nested()):
        for form in forms(array):
            taken += outcome(gate, form) == "taken"
    assert taken >= 10


def test_a_time_that_cannot_be_written_is_still_refused_by_its_row() -> None:
    gate = Gate()
    gate.create("CREATE STREAM s (x TIMESTAMP)")
    with pytest.raises(InvalidBatch, match="row 1: the value in column 'x' does not fit TIMESTAMP"):
        gate.push("s", rows(x=pa.array([0, 2**62], pa.timestamp("s", "Nowhere/Bad"))))


def _of_months() -> pa.Table:
    """A column of months, a type that PyArrow reads and cannot make: that of months, days and nanoseconds, patched."""
    made = pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made)
    sent = sink.getvalue().to_pybytes()
    for at in range(0, len(sent), 2):
        if sent[at : at + 2] == b"\x02\0":
            with suppress(pa.ArrowInvalid, OSError, KeyError):
                table = pa.ipc.open_stream(sent[:at] + b"\0\0" + sent[at + 2 :]).read_all()
                if str(table.schema.field(0).type) == "month_interval":
                    return table
    raise AssertionError("no place of the unit was found")


def test_a_type_that_pyarrow_cannot_make_is_refused_by_name() -> None:
    schema = Schema((Attribute("x", DataType(Kind.BIGINT)),))
    for batch in (_of_months(), *_of_months().to_batches()):
        with pytest.raises(InvalidBatch, match="'x' is BIGINT, but the batch has month_interval"):
            columns_from_arrow(schema, batch)

"""The allowed forms of a batch, and its charge to the memory budget."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import Internal, InvalidBatch, ResourceExhausted
from psoup_testing.engines.admission_gate import Gate, rows


def make(sql: str = "CREATE STREAM s (x BIGINT, name TEXT)", **settings: int) -> Gate:
    gate = Gate(EngineConfig(**settings))  # type: ignore[arg-type]
    gate.create(sql)
    return gate


def test_too_many_rows() -> None:
    gate = make(batch_rows=3)
    gate.push("s", x=[1, 2, 3])
    with pytest.raises(InvalidBatch, match="4 rows; 3 is the most in one push, send it in parts") as caught:
        gate.push("s", x=[1, 2, 3, 4])
    assert caught.value.facts == {"rows": "4", "limit": "3"}


def test_a_text_that_is_too_long_names_its_row() -> None:
    gate = make(text_bytes=4)
    gate.push("s", x=[1, 2], name=["äö", "abcd"])
    with pytest.raises(InvalidBatch, match="row 1: the text in column 'name' has 5 bytes; 4 is the most"):
        gate.push("s", x=[1, 2, 3], name=["a", "äöx", None])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (rows(x=["1"]), "'x' is BIGINT, but the batch has string"),
        (rows(x=[1], y=[2]), "no column 'y'"),
        (pa.table([[1], [2]], names=["x", "X"]), "comes twice"),
        (rows(x=pa.array([2**63], pa.uint64())), "row 0: 9223372036854775808 in column 'x' does not fit"),
    ],
)
def test_columns_that_do_not_fit(table: pa.Table, message: str) -> None:
    with pytest.raises(InvalidBatch, match=message):
        make().push("s", table)


def test_not_null_columns() -> None:
    gate = make("CREATE STREAM s (x BIGINT NOT NULL, y BIGINT)")
    with pytest.raises(InvalidBatch, match="'x' is missing"):
        gate.push("s", y=[1])
    with pytest.raises(InvalidBatch, match="row 1: 'x' is NULL"):
        gate.push("s", x=[1, None])
    assert gate.push("s", x=[1]).accepted == 1


def text(offsets: list[int], data: bytes) -> pa.Table:
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(data)]
    batch = pa.RecordBatch.from_struct_array(pa.array([{"name": "", "x": 0}] * (len(offsets) - 1)))
    array = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    return pa.table({"name": array.view(pa.string()), "x": batch.column(1)})


@pytest.mark.parametrize("data", [b"\xff\xfea", b"\xed\xa0\x80"])
def test_text_that_is_no_utf8_is_refused_before_it_is_read(data: bytes) -> None:
    with pytest.raises(InvalidBatch, match="not valid Arrow data") as caught:
        make().push("s", text([0, 3], data))
    assert caught.value.reason == "CORRUPT_BATCH"


def test_offsets_that_go_backwards_are_refused_before_they_are_followed() -> None:
    with pytest.raises(InvalidBatch, match="not valid Arrow data"):
        make().push("s", text([0, 3, 1, 3], b"abc"))


def test_the_memory_budget_is_charged_and_given_back() -> None:
    gate = make("CREATE STREAM s (x BIGINT)", memory_bytes=100)
    gate.push("s", x=[1, 2, 3])
    used = gate.admission.reserved_bytes
    assert used == gate.pushed.batch.nbytes == 51
    with pytest.raises(ResourceExhausted, match=r"100 bytes .* 51 by tuples, .* needs 51 more") as caught:
        gate.push("s", x=[1, 2, 3])
    assert caught.value.facts == {
        "budget": "memory_bytes",
        "setting": "memory_mib",
        "limit": "100",
        "used": "51",
        "needed": "51",
        "would_need": "102",
    }
    gate.push("s", x=[1, 2])
    for admission in (gate.admission, gate.shadow):
        admission.give_back(51)
    gate.push("s", x=[1, 2, 3])
    assert gate.admission.reserved_bytes == 85


def test_a_budget_of_nothing_takes_nothing() -> None:
    with pytest.raises(ResourceExhausted):
        make(memory_bytes=0).push("s", x=[1])


def test_refused_tuples_are_not_charged() -> None:
    gate = make("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t AHEAD 1 MINUTE", memory_bytes=17 * 2)
    gate.push("s", t=[5])
    assert gate.push("s", t=[1, 2, 3, 6]).accepted == 1
    assert gate.admission.reserved_bytes == 34


def test_check_finds_more_given_back_than_taken() -> None:
    gate = make()
    gate.admission.give_back(1)
    with pytest.raises(Internal, match="more bytes given back"):
        gate.admission.check()

"""Arrow IPC off the wire: what is taken, what is refused before it grows, and that nothing else can happen."""

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import InvalidBatch, PSoupError
from psoup.model import BIGINT, TEXT, Attribute, Schema, decimal
from psoup.values.from_arrow import columns_from_arrow
from psoup_service.wire.ipc import _heads, decode, decode_push, digest
from psoup_service.wire.limits import Limits
from psoup_testing.services.wire import ipc
from psoup_testing.suite.budget import Budget

LIMITS = Limits()
SMALL = Limits(batch_decoded_bytes=1_000_000, batch_rows=10_000)
TABLE = pa.table({"x": [1, 2, 3], "t": ["a", None, "ccc"]})


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"compression": "lz4"}, {"allow_64bit": True}])
def test_plain_and_compressed_streams_are_read(options: dict[str, object]) -> None:
    assert decode(ipc(TABLE, **options), LIMITS).equals(TABLE)
    assert pa.table(decode_push(ipc(TABLE, **options), LIMITS)).equals(TABLE)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_all_forms_of_text_are_read(kind: pa.DataType) -> None:
    table = TABLE.set_column(1, "t", TABLE.column("t").cast(kind))
    schema = Schema((Attribute("x", BIGINT), Attribute("t", TEXT)))
    for read in (decode, decode_push):
        assert columns_from_arrow(schema, read(ipc(table), LIMITS))[1].to_list() == ["a", None, "ccc"]


def test_columns_beyond_the_most_are_counted_and_no_parts_are_asked_for() -> None:
    with pytest.raises(InvalidBatch, match=r"5 columns; 4 is the most, of a stream as of the parameters") as caught:
        decode(ipc(pa.table({f"p{number}": [1] for number in range(5)})), Limits(batch_columns=4))
    assert caught.value.reason == "BATCH_TOO_LARGE"


def test_several_batches_are_one_table() -> None:
    many = pa.Table.from_batches([*TABLE.to_batches(), *TABLE.to_batches(), *TABLE.slice(0, 0).to_batches()])
    assert decode(ipc(many), LIMITS).num_rows == decode_push(ipc(many), LIMITS).num_rows == 6


@cache
def zeros() -> pa.Table:
    return pa.table({"x": np.zeros(1_000_000, np.int64)})


def view() -> pa.Array:
    """A thousand views of one long text."""
    shared = pa.array(["a" * 100_000], pa.string_view())
    pointers = pa.py_buffer(bytes(shared.buffers()[1]) * 1_000)
    return pa.Array.from_buffers(pa.string_view(), 1_000, [None, pointers, shared.buffers()[2]])


def dictionary() -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000, np.int8)), pa.array(["a" * 100_000]))


BOMBS: dict[str, Callable[[], bytes]] = {
    "compressed": lambda: ipc(zeros(), compression="zstd"),
    "many batches": lambda: ipc(pa.concat_tables([zeros().slice(0, 9_000)] * 20), compression="zstd"),
    "dictionary": lambda: ipc(pa.table({"x": dictionary()})),
    "view": lambda: ipc(pa.table({"x": view()})),
    "null": lambda: ipc(pa.table({"x": pa.nulls(10_001)})),
    "no columns": lambda: ipc(pa.table({"x": pa.nulls(20_000)}).select([])),
    "wide": lambda: ipc(pa.table({f"c{i}": [1] for i in range(5_000)})),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_few_bytes_cannot_become_many(name: str) -> None:
    bomb, pool = BOMBS[name](), pa.default_memory_pool()
    before = pool.bytes_allocated()
    with pytest.raises(InvalidBatch, match="is the most"):
        decode_push(bomb, SMALL)
    assert pool.bytes_allocated() - before < 4_000_000


def test_a_declared_size_is_not_believed() -> None:
    payload = bytearray(ipc(pa.table({"x": np.zeros(1_000, np.int64)}), compression="zstd"))
    at = payload.index((8_000).to_bytes(8, "little"))
    for lie in (2**62, 2**40, 7_999, 8_001, 0, -1, -5):
        payload[at : at + 8] = lie.to_bytes(8, "little", signed=True)
        with pytest.raises((InvalidBatch, pa.ArrowInvalid)):
            decode(bytes(payload), LIMITS).validate(full=True)


GARBAGE = [
    b"",
    b"\0",
    b"PAR1",
    b"ARROW1\0\0",
    b"\xff" * 64,
    b"x,y\n1,2\n",
    ipc(TABLE)[:-99],
    ipc(TABLE)[8:],
    bytes(4_096),
]


@pytest.mark.parametrize("payload", GARBAGE)
def test_what_is_no_stream_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidBatch, match="Arrow IPC stream"):
        decode_push(payload, LIMITS)


def test_the_end_mark_may_be_missing() -> None:
    assert decode(ipc(TABLE)[:-8], LIMITS).equals(TABLE)
    assert decode_push(ipc(TABLE)[:-8], LIMITS).equals(TABLE.to_batches()[0])


def test_one_plain_batch_is_given_as_that() -> None:
    kinds = [pa.int8(), pa.float64(), pa.bool_(), pa.decimal128(9, 2), pa.timestamp("us", "UTC"), pa.large_string()]
    table = pa.table([pa.array([None, None], kind) for kind in kinds], [str(kind) for kind in kinds])
    for rows in (table, TABLE, TABLE.slice(1, 1)):
        found = decode_push(ipc(rows), LIMITS)
        assert isinstance(found, pa.RecordBatch)
        assert pa.table(found).equals(rows)


def test_the_digest_is_of_the_bytes() -> None:
    assert digest(b"a") == digest(b"a")
    assert digest(b"a") != digest(b"b")


def decimals(kind: Callable[[int, int], pa.DataType], scale: int) -> pa.Table:
    """The numbers 0 and 7, and that scale."""
    size = kind(18, 0).bit_width // 8
    values = pa.py_buffer((0).to_bytes(size, "little") + (7).to_bytes(size, "little"))
    return pa.table({"m": pa.Array.from_buffers(kind(18, scale), 2, [None, values])})


@pytest.mark.parametrize("kind", [pa.decimal64, pa.decimal128, pa.decimal256])
def test_decimals_of_impossible_scales_are_refused_before_arrow_rescales_them(
    kind: Callable[[int, int], pa.DataType],
) -> None:
    for scale in (-(2**31), -21, 39, 1_526_726_659, 2**31 - 1):
        for read in (decode, decode_push):
            with pytest.raises(InvalidBatch, match=r"which no stream can hold; send decimals of scale -20 to 38"):
                read(ipc(decimals(kind, scale)), LIMITS)
    for precision, scale in ((18, 18), (1, 0)):
        schema = Schema((Attribute("m", decimal(precision, scale)),))
        for edge in (-20, 38):
            with pytest.raises(InvalidBatch, match=r"row 1: .* does not fit DECIMAL"):
                columns_from_arrow(schema, decode(ipc(decimals(kind, edge)), LIMITS))


def test_a_schema_that_is_remembered_keeps_no_message() -> None:
    payload = ipc(pa.table({f"remembered {n}": [n] for n in range(3)}))
    assert decode_push(placed(payload), LIMITS).to_pylist() == decode_push(payload, LIMITS).to_pylist()
    assert [*_heads]
    assert all(type(schema) is bytes for schema in _heads)


BUDGET = Budget("mutated Arrow IPC", cases=20_000)


def test_mutated_streams_are_read_or_refused() -> None:
    """Flipped, cut, spliced: never a crash, never another error, and what is read is sound or found out by validate."""
    seeds = [ipc(TABLE), ipc(TABLE, compression="zstd"), ipc(TABLE, compression="lz4"), BOMBS["view"]()[:3_000]]
    seeds += [ipc(pa.table({"d": TABLE.column("t").dictionary_encode(), "f": [1.5, None, 2.0]}))]
    seeds += [ipc(decimals(kind, 3)) for kind in (pa.decimal128, pa.decimal256)]
    schema = Schema((Attribute("x", BIGINT), Attribute("t", TEXT), Attribute("m", decimal(18, 3))))
    for number in BUDGET.rounds():
        draw = random.Random(number)
        for _ in range(50):
            payload = draw.choice((bytes, placed))(mutate(draw, seeds))
            try:
                table = draw.choice((decode, decode_push))(payload, SMALL)
                table.validate(full=True)
                columns_from_arrow(schema, table)
            except (PSoupError, pa.ArrowInvalid, pa.ArrowIndexError):
                pass
            BUDGET.count()


def placed(payload: bytes) -> memoryview:
    """The payload as it lies in a message: nothing of it where a processor wants it."""
    return memoryview(b"123" + payload)[3:]


def mutate(draw: random.Random, seeds: list[bytes]) -> bytes:
    raw = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(raw))
        match draw.randrange(5):
            case 0:
                raw[at] ^= 1 << draw.randrange(8)
            case 1:
                raw[at] = draw.choice((0, 1, 127, 128, 255))
            case 2:
                del raw[at : at + draw.choice((1, 4, 8))]
                raw = raw or bytearray(b"\0")
            case 3:
                raw[at:at] = draw.randbytes(draw.choice((1, 4, 8)))
            case 4:
                other = draw.choice(seeds)
                raw[at : at + 16] = other[at : at + 16]
    return bytes(raw)


@pytest.mark.parametrize("behind", [ipc(TABLE), b"junk", bytes(8)])
def test_what_stands_behind_the_stream_is_not_lost_in_silence(behind: bytes) -> None:
    with pytest.raises(InvalidBatch, match=f"goes on for {len(behind)} bytes after the end"):
        decode_push(ipc(TABLE) + behind, LIMITS)

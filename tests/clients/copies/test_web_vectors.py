"""Changes of copies with what becomes of the rows, written for psoup-client: its tests run on the same file.

  random changes ──> the Python client ──> rows that are held, and shown at some NOW
                                                   └──> clients/typescript/tests/vectors.json

`make golden` writes the file anew. The tests of the package (`make web-check`) apply the changes, and must come to
the same rows; those that the Python client refuses it must refuse.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from psoup_client.copies.answer_copy import AnswerCopy, applied
from psoup_client.copies.held_rows import hidden_columns
from psoup_client.copies.moments import Moment, elapsed
from psoup_client.errors import ServerFault
from psoup_client.session import Session
from psoup_client.times import from_micros
from psoup_proto.v1 import sync_pb2

pytestmark = [pytest.mark.seeded("NOW goes back with the clock")]

FILE = Path(__file__).resolve().parents[3] / "clients/typescript/tests/vectors.json"
START = 1_700_000_000_000_000
INSTANT = pa.timestamp("us", "UTC")
KINDS = {
    "n": pa.int64(),
    "x": pa.float64(),
    "amount": pa.decimal128(12, 2),
    "text": pa.string(),
    "flag": pa.bool_(),
    "at": INSTANT,
    "day": pa.date32(),
}


def _value(kind: pa.DataType, drawn: random.Random) -> Any:
    if drawn.random() < 0.15:
        return None
    if pa.types.is_decimal(kind):
        return f"{Decimal(drawn.randrange(-5000, 5000)) / 100:.2f}"
    if pa.types.is_floating(kind):
        return drawn.choice(["NaN", "Infinity", "-Infinity", -0.0, 0.5, drawn.randrange(-9, 9) / 4])
    if pa.types.is_string(kind):
        return drawn.choice(["", "a", "ab", "é", "\uffff", "\U0001f40e", "<b>", "\u202eabc"])
    if pa.types.is_boolean(kind):
        return drawn.random() < 0.5
    if pa.types.is_integer(kind):
        return drawn.choice([0, -1, 7, 2**53 - 1, str(2**53 + 1), str(-(2**63)), drawn.randrange(100)])
    return drawn.randrange(-1000, 20_000) if pa.types.is_date32(kind) else START + drawn.randrange(10**9)


def _differences(values: list[int]) -> list[int]:
    return [value - before for before, value in zip([0, *values], values, strict=False)]


def _form(drawn: random.Random, shape: str) -> sync_pb2.CopyForm:
    ids = {"one": 1, "join": 2, "whole": 0}[shape]
    timed = shape == "one" or (shape == "join" and drawn.random() < 0.5)
    hidden = [(f"_id{place}" if ids > 1 else "_id", pa.int64()) for place in range(ids)]
    names = drawn.sample(list(KINDS), 4)
    keys = [] if shape == "whole" else drawn.sample(list(KINDS), drawn.randrange(3))
    columns: list[tuple[str, pa.DataType]] = [
        *hidden,
        *([("_time", INSTANT)] if timed else []),
        *[(name, KINDS[name]) for name in [*names, *keys]],
    ]
    form = sync_pb2.CopyForm(
        schema_ipc=pa.schema(columns).serialize().to_pybytes(),
        whole=shape == "whole",
        id_columns=ids,
        ages=timed,
        by_clock=timed,
        sort_keys=[sync_pb2.SortKey(descending=drawn.random() < 0.5, nulls_first=drawn.random() < 0.5) for _ in keys],
    )
    if timed:
        form.width = drawn.choice([0, 2_000, 10_000])
    return form


def _columns(form: sync_pb2.CopyForm, ids: list[tuple[int, ...]], drawn: random.Random) -> bytes:
    schema = pa.ipc.read_schema(pa.py_buffer(form.schema_ipc))
    columns: list[list[Any]] = [_differences([row[place] for row in ids]) for place in range(form.id_columns)]
    if hidden_columns(form) > form.id_columns:
        columns.append(_differences([START + 1_000 * row[0] for row in ids]))
    columns += [[_value(field.type, drawn) for _ in ids] for field in list(schema)[len(columns) :]]
    return json.dumps(columns).encode()


def _some_intervals(drawn: random.Random, end: int) -> list[int]:
    ends = sorted(drawn.sample(range(end + 1), 2 * drawn.randrange(0, min(3, (end + 1) // 2 + 1))))
    return _differences(ends)


def _changes(drawn: random.Random, shape: str) -> Iterator[sync_pb2.Change]:
    """A reset, and some changes of what is there then: what an arbitrary service may say, if it is a change."""
    form, held, next_id = _form(drawn, shape), 0, 0
    for step in range(5):
        count = drawn.randrange(1, 7)
        ids = [(next_id + place, drawn.randrange(40)) for place in range(count)]
        next_id += count + drawn.randrange(3)
        if shape == "one":
            drawn.shuffle(ids)
        change = sync_pb2.Change(rows=count, complete=True, token=b"%d" % step)
        change.columns_json = _columns(form, ids, drawn)
        if step in (0, 3):
            change.reset, held = sync_pb2.RESET_FIRST, count
            change.form.CopyFrom(form)
        elif shape == "whole":
            held = _moving(change, held, count, drawn)
        elif shape == "one":
            change.keep.extend(_some_intervals(drawn, next_id))
        else:
            low, high = drawn.randrange(next_id), drawn.randrange(20)
            change.keep.extend([low, next_id - low, high, 40 - high])
        yield change


def _moving(change: sync_pb2.Change, held: int, count: int, drawn: random.Random) -> int:
    """Rows that leave, new ones between those that stay, and two of these in each other's places."""
    gone = drawn.sample(range(held), drawn.randrange(held))
    change.removed.extend(_runs(gone))
    after = held - len(gone) + count
    places = drawn.sample(range(after), count)
    change.places.extend(_runs(places))
    stay = [place for place in range(held) if place not in gone]
    free = [place for place in range(after) if place not in places]
    if len(stay) > 1 and drawn.random() < 0.7:
        one, other = sorted(drawn.sample(range(len(stay)), 2))
        pairs = [(stay[one], free[other]), (stay[other], free[one])]
        steps = zip([(0, 0), *pairs], pairs, strict=False)
        change.moved.extend([by for before, at in steps for by in (at[0] - before[0], at[1] - before[1])])
    return after


def _runs(places: list[int]) -> list[int]:
    """Places as intervals, whose ends are told as differences."""
    ends = list[int]()
    for place in sorted(places):
        if ends and ends[-1] == place:
            ends[-1] = place + 1
        else:
            ends += [place, place + 1]
    return _differences(ends)


def _body(change: sync_pb2.Change) -> sync_pb2.SyncBody:
    stream = sync_pb2.StreamTime(stream="s")
    stream.now.FromMicroseconds(START)
    change.streams.append(0)
    return sync_pb2.SyncBody(outcomes=[sync_pb2.SyncOutcome(change=change)], streams=[stream], sequence=1, clock=START)


def _told(value: Any) -> Any:
    """A value in the forms of `Change.columns_json`, whatever a reader made of it."""
    if isinstance(value, dt.datetime):
        return round((value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) / dt.timedelta(microseconds=1))
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float):
        named = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        return named.get(str(value), value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53 else value


def _shown(copy: AnswerCopy, now: int | None) -> list[list[Any]]:
    table = copy.to_arrow(now=None if now is None else from_micros(now))
    return [[_told(value) for value in column.to_pylist()] for column in table.columns]


def _text(body: sync_pb2.SyncBody) -> str:
    return base64.b64encode(body.SerializeToString(deterministic=True)).decode()


def _histories() -> list[dict[str, Any]]:
    drawn = random.Random(18)
    told = []
    for number in range(18):
        shape = ("one", "join", "whole")[number % 3]
        copy, steps = AnswerCopy(cast(Session, None), "q"), []
        for change in _changes(drawn, shape):
            body = _body(change)
            gone = applied(copy, change, body).gone
            moments = [None, START, START + drawn.randrange(40_000)]
            shown = [{"now": now, "columns": _shown(copy, now)} for now in moments]
            steps.append({"body": _text(body), "gone": gone, "rows": len(copy), "shown": shown})
        told.append({"shape": shape, "steps": steps})
    return told


def _refused() -> list[dict[str, Any]]:
    """Changes that are none: the first of each pair is applied, the second is refused."""
    drawn = random.Random(7)
    ways: dict[str, Any] = {
        "as many rows as told": lambda change: setattr(change, "rows", change.rows + 1),
        "intervals that are empty": lambda change: change.keep.extend([3, 0]),
        "half an interval": lambda change: change.keep.extend([3]),
        "intervals that descend": lambda change: change.keep.extend([9, -4]),
        "columns that are missing": lambda change: setattr(change, "columns_json", b"[[]]"),
        "no JSON": lambda change: setattr(change, "columns_json", b"[[1"),
        "positions below the first": lambda change: change.removed.extend([-4, 1]),
    }
    told = []
    for way, spoil in ways.items():
        first, second, *_ = _changes(drawn, "one")
        copy = AnswerCopy(cast(Session, None), "q")
        bodies = [_body(first)]
        applied(copy, first, bodies[0])
        del second.keep[:]
        spoil(second)
        bodies.append(_body(second))
        with pytest.raises(ServerFault):
            applied(copy, second, bodies[1])
        told.append({"way": way, "bodies": [_text(body) for body in bodies]})
    return told


def _clocks() -> list[dict[str, int]]:
    drawn = random.Random(3)
    told = []
    for _ in range(20):
        wall, later = START + drawn.randrange(10**7), START + drawn.randrange(10**7)
        service, greatest = START + drawn.randrange(10**7), START + drawn.randrange(2 * 10**7)
        estimate = max(greatest, service + elapsed(Moment(wall), Moment(later)))
        told.append({"service": service, "wall": wall, "greatest": greatest, "later": later, "estimate": estimate})
    return told


def test_the_vectors_of_the_web_application_are_fresh() -> None:
    """After a change of how copies are kept: make golden, then make web-check."""
    found = {"histories": _histories(), "refused": _refused(), "clocks": _clocks()}
    text = json.dumps(found, ensure_ascii=True, separators=(",", ":")).replace('{"shape"', '\n{"shape"') + "\n"
    if os.environ.get("PSOUP_TEST_WRITE"):
        FILE.write_text(text)
    assert FILE.read_text() == text
    steps = [step for history in found["histories"] for step in history["steps"]]
    assert sum(step["gone"] for step in steps) > 60  # rows leave, and some are hidden that are held
    assert any(len(shown["columns"][0]) < step["rows"] for step in steps for shown in step["shown"])

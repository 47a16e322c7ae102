"""The rows of a push that were too late or too far ahead: by counts and times, of a producer, of a repeated reply."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from psoup_client import Client, PushResult, RefusedRows
from psoup_client.columns.convert import to_table
from psoup_client.ingest.refused_rows import LISTED, instants, refused_rows
from psoup_client.ingest.row_filter import sift
from psoup_client.schema import ColumnInfo, StreamInfo
from psoup_service.process.settings import Settings

MakeStream = Callable[[str], str]
LEAST, MOST = -(2**63), 2**63 - 1


def test_counts_say_which_rows_were_refused() -> None:
    """Random times with many equal ones: those below a watermark and those above a bound, which may lie below it."""
    drawn = random.Random(5)
    for _ in range(500):
        choices = [LEAST, MOST, 0, *(drawn.randrange(-20, 20) for _ in range(5))]
        times = [drawn.choice(choices) for _ in range(drawn.randrange(30))]
        watermark, bound, before = drawn.choice(choices), drawn.choice(choices), drawn.randrange(3)
        late = tuple(before + row for row, time in enumerate(times) if time < watermark)
        ahead = tuple(before + row for row, time in enumerate(times) if watermark <= time and time > bound)
        found = refused_rows(np.array(times, np.int64), len(late), len(ahead), before)
        assert found == RefusedRows(late, ahead)


def test_counts_of_other_rows_say_nothing() -> None:
    assert refused_rows(np.array([1, 1, 2], np.int64), 1, 0) == RefusedRows()
    assert refused_rows(np.array([1], np.int64), 1, 1) == RefusedRows()
    assert instants(pa.chunked_array([[1], [2]], pa.timestamp("us", "UTC"))).tolist() == [1, 2]


def test_a_result_lists_the_first_of_them() -> None:
    many = RefusedRows(tuple(range(LISTED - 1)), ())
    both = many.plus(RefusedRows((LISTED, LISTED + 1), (7,)))
    assert (both.late[-1], len(both.late), both.ahead) == (LISTED, LISTED, (7,))
    assert both.plus(many).late is both.late


def rows(*seconds: int) -> pa.Table:
    return pa.table({"at": pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))})


def test_a_push_says_which_rows_were_refused(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    far = 2**40
    assert client.push(name, rows(100, 50)).refused == RefusedRows()
    pushed = client.push(name, rows(100, 99, 101, far, 1, 100), refused="count")
    assert (pushed.late, pushed.ahead, pushed.refused) == (2, 1, RefusedRows((1, 4), (3,)))
    several = pa.concat_tables([rows(*[200] * 70_000), rows(*[3] * 2), rows(300)])
    pushed = client.push(name, several, refused="count")
    assert (pushed.batches, pushed.refused) == (2, RefusedRows((70_000, 70_001)))
    system = make_stream("(at TIMESTAMP)")
    assert client.push(system, rows(100, 1)).refused == RefusedRows()


def test_a_producer_says_it_of_each_batch_also_when_it_comes_again(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    for _ in range(2):
        told, counts = list[RefusedRows](), list[PushResult]()
        options = {"on_refused": told.append, "on_reply": counts.append}
        with client.producer(name, name="p", epoch=1, batch_rows=3, **options) as producer:  # type: ignore[arg-type]
            producer.push(rows(100, 101, 102))
            producer.push(rows(7, 103, 8, 200, 9))
        assert told == [RefusedRows((3, 5)), RefusedRows((7,))]
        assert (producer.result.late, producer.result.refused) == (3, RefusedRows((3, 5, 7)))
        assert [len(each.refused.late) for each in counts] == [0, 2, 3]
    assert producer.result.duplicates == 3


def test_values_that_only_the_service_refuses_are_sifted() -> None:
    """Texts that are too long and infinite times, with the words of the service."""
    types = {"x": ("TEXT", pa.string()), "t": ("TIMESTAMP", pa.timestamp("us", "UTC")), "d": ("DATE", pa.date32())}
    columns = tuple(ColumnInfo(name, kind, arrow, True) for name, (kind, arrow) in types.items())
    nothing = (dt.timedelta(0), None, None, None, dt.datetime.now(dt.UTC), None, None)
    info = StreamInfo("s", "1", "", columns, "", *nothing, *[0] * 9)
    given = pa.table(
        {
            "x": ["ok", "é" * 5, None, "x" * 10, "fine"],
            "t": pa.array([0, 1, MOST, -MOST, LEAST], pa.timestamp("us", "UTC")),
            "d": pa.array([0, 1, 2**31 - 1, 3, 4], pa.int32()).cast(pa.date32()),
        }
    )
    sifted = sift(given, info, text_bytes=9)
    assert sifted.kept.tolist() == [0, 4]
    assert sifted.table.equals(to_table(given.take([0, 4]), info))
    assert sifted.refused == {
        1: "the text in column 'x' has 10 bytes; 9 is the most in one value",
        2: "the TIMESTAMP in column 't' is infinity, which is not a time here; send NULL or a time",
        3: "the text in column 'x' has 10 bytes; 9 is the most in one value",
    }
    assert sorted(sift(given, info).refused) == [2, 3]


def test_the_service_says_how_long_a_text_may_be(client: Client) -> None:
    assert client.info().text_bytes == Settings().engine_config().text_bytes
    with pytest.raises(AttributeError):
        client.info().text_bytes = 1  # type: ignore[misc]

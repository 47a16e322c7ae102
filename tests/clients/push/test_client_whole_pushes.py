"""Pushes that take all rows or none, that count, and that divert: small, staged, and in several parts."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from psoup_client import (
    AccessDenied,
    Client,
    InvalidData,
    NotFound,
    OutOfRange,
    PushResult,
    RefusedRow,
    RefusedRows,
    ResourceExhausted,
    RowsNotTaken,
    RowsRefused,
)
from psoup_client import payload as payloads
from psoup_client.channel.patience import passes
from psoup_client.errors import PSoupError
from psoup_client.ingest import direct_pusher
from psoup_client.ingest.stage import Stage

MakeStream = Callable[[str], str]
COLUMNS = "(at TIMESTAMP NOT NULL, x BIGINT) TIMESTAMP BY at"
FAR = 2**40


def rows(*seconds: int) -> pa.Table:
    at = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "x": list(seconds)})


def values(client: Client, stream: str) -> list[int]:
    column: list[int] = client.ask(f"SELECT x FROM {stream}").to_arrow()["x"].to_pylist()
    return column


@pytest.fixture
def stream(client: Client, make_stream: MakeStream) -> str:
    name = make_stream(COLUMNS)
    client.push(name, rows(100))
    return name


def test_all_rows_or_none(client: Client, stream: str) -> None:
    for _ in range(2):  # a repeat is harmless
        with pytest.raises(RowsRefused) as caught:
            client.push(stream, rows(101, 40, FAR, 102, 99))
        refused = caught.value
        assert (refused.total, refused.late, refused.ahead, refused.taken) == (3, 2, 1, 0)
        assert [row.row for row in refused.rows] == [1, 2, 4]
        late, ahead, _ = (row.reason for row in refused.rows)
        assert late == ("its time 1970-01-01 00:00:40Z is too late by 0:01:00: the watermark is 1970-01-01 00:01:40Z")
        assert "is too far ahead of the clock by" in ahead
        assert f"'{stream}_late'" in refused.message and 'refused="count"' in refused.message
    assert client.describe(stream).late == 0
    assert client.push(stream, rows(101, 102)).accepted == 2
    assert values(client, stream) == [100, 101, 102]


def test_the_error_is_of_the_data_and_is_never_repeated(client: Client, stream: str) -> None:
    with pytest.raises(InvalidData) as caught:
        client.push(stream, rows(1))
    assert not passes(caught.value) and caught.value.retry_after is None
    assert not isinstance(caught.value, OutOfRange)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, RowsRefused) and copy.rows == caught.value.rows and copy.total == 1


def test_the_list_is_bounded_and_the_total_is_not(client: Client, stream: str) -> None:
    with pytest.raises(RowsRefused) as caught:
        client.push(stream, rows(*[1] * 5_000))
    assert (len(caught.value.rows), caught.value.total) == (1_000, 5_000)
    assert str(RefusedRow(3, "late")) == "row 3: late"


@pytest.mark.parametrize("form", [list, pa.Table.from_pylist], ids=["dicts", "table"])
def test_nulls_where_the_stream_has_none_are_listed(client: Client, stream: str, form: Callable[[Any], Any]) -> None:
    given = [{"at": None if n % 2 else dt.datetime(2026, 7, 1, tzinfo=dt.UTC), "x": n} for n in range(4_001)]
    with pytest.raises(RowsRefused, match=r"row 1: 'at' is NULL, .* NOT NULL, as in 1,999 later rows") as caught:
        client.push(stream, form(given))
    refused = caught.value
    assert (refused.total, refused.late, len(refused.rows)) == (2_000, 0, 1_000)
    assert refused.rows[1] == RefusedRow(3, "'at' is NULL, but the stream says NOT NULL")
    assert (refused.reason, refused.facts["column"]) == ("INVALID_BATCH", "at")
    assert values(client, stream) == [100]


def test_an_unknown_word_is_refused(client: Client, stream: str) -> None:
    with pytest.raises(ValueError, match=r'refused is .drop.: give "raise", "count" or "divert"'):
        client.push(stream, rows(1), refused="drop")  # type: ignore[arg-type]


def test_rows_out_of_order_in_more_than_one_batch_do_not_make_each_other_late(
    client: Client, make_stream: MakeStream
) -> None:
    """Batch after batch, as with "count", the second batch is late. As a whole nothing is."""
    both = pa.concat_tables([rows(*range(500, 70_500)), rows(*range(400, 500))])
    name = make_stream(COLUMNS)
    done = client.push(name, both)
    assert (done.accepted, done.late, done.batches) == (70_100, 0, 1)
    assert len(client.tuple_ids(done)) == 70_100
    assert client.push(make_stream(COLUMNS), both, refused="count").late == 100


def test_more_than_a_message_goes_as_a_stage(
    client: Client, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "MESSAGE_ROWS", 50)
    name = make_stream(COLUMNS)
    done = client.push(name, rows(*range(200, 300), *range(100, 200)))
    assert (done.accepted, done.batches) == (200, 1)
    assert sorted(client.tuple_ids(done)) == list(range(200))  # type: ignore[type-var]
    with pytest.raises(RowsRefused) as caught:
        client.push(name, rows(*range(290, 350)))
    assert [row.row for row in caught.value.rows] == list(range(9))
    assert client.push(name, rows(*range(300, 400))).accepted == 100  # the number of the refused stage is free
    assert values(client, name) == list(range(100, 400))


def test_a_stage_that_the_service_lost_is_sent_again(
    client: Client, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "MESSAGE_ROWS", 50)
    send, lost = Stage.add_table, [True]

    def losing(self: Stage, *arguments: Any) -> list[str]:
        if lost.pop():
            lost.append(False)
            raise NotFound("the stage is gone", reason="UNKNOWN_STAGE")
        lost.append(False)
        return send(self, *arguments)

    monkeypatch.setattr(Stage, "add_table", losing)
    name = make_stream(COLUMNS)
    assert client.push(name, rows(*range(100))).accepted == 100
    assert values(client, name) == list(range(100))


def test_a_service_without_room_for_a_stage_says_what_to_do(
    client: Client, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "MESSAGE_ROWS", 50)

    def full(*_: Any, **__: Any) -> Any:
        raise ResourceExhausted("the stages hold 5 of 5 bytes", reason="STAGES_FULL")

    with monkeypatch.context() as patch:
        patch.setattr(Stage, "add_table", full)
        with pytest.raises(ResourceExhausted, match=r"5 of 5 bytes\. .*16 MiB need no stage") as caught:
            client.push(make_stream(COLUMNS), rows(*range(100)))
    assert caught.value.message == str(caught.value)


def test_a_service_with_smaller_messages_gets_a_stage(
    client: Client, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: Any) -> Any:
        raise InvalidData("the batch has 3 rows; 2 is the most", reason="BATCH_TOO_LARGE")

    name = make_stream(COLUMNS)
    client.describe(name)
    with monkeypatch.context() as patch:
        patch.setattr(direct_pusher.DirectPusher, "_send", too_large)
        assert client.push(name, rows(1, 2, 3)).accepted == 3
    assert values(client, name) == [1, 2, 3]


def test_a_service_of_an_older_version_is_noticed(client: Client, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service does not know the field, and takes what can be taken."""
    send = direct_pusher.DirectPusher._send
    with monkeypatch.context() as patch:
        patch.setattr(
            direct_pusher.DirectPusher, "_send", lambda self, payload, timeout, _: send(self, payload, timeout)
        )
        with pytest.raises(RowsRefused, match=r"1 row .* refused, and 1 taken: .* of an older") as caught:
            client.push(stream, rows(101, 1))
    assert (caught.value.late, values(client, stream)) == (1, [100, 101])


def test_a_very_large_push_tells_which_rows_are_in(
    client: Client, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_pusher, "WHOLE_ROWS", 100)
    name = make_stream(COLUMNS)
    data = rows(*range(100, 300), 50, *range(300, 350))
    before = client.last_sequence
    with pytest.raises(RowsRefused, match=r"row 200: .* The 200 rows before were taken; go on from row 200") as caught:
        client.push(name, data)
    assert client.last_sequence == before + 2, "what the client reads next has the parts that were taken"
    assert (caught.value.taken, [row.row for row in caught.value.rows]) == (200, [200])
    assert values(client, name) == list(range(100, 300))
    done = client.push(make_stream(COLUMNS), data, refused="divert")
    assert (done.accepted, done.late, done.refused) == (250, 1, RefusedRows((200,)))


def test_divert_keeps_refused_rows_with_the_reason(client: Client, stream: str) -> None:
    before = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=5)
    for turn in range(2):
        done = client.push(stream, rows(101, 40, FAR, 101 + turn), refused="divert")
        assert (done.accepted, done.late, done.ahead) == (2, 1, 1)
        assert done.refused == RefusedRows((1,), (2,))
        assert client.tuple_ids(done) == range(1 + 2 * turn, 3 + 2 * turn)
    assert values(client, stream) == [100, 101, 101, 101, 102]
    late_rows = client.ask(f"SELECT * FROM {stream}_late").to_arrow()
    assert late_rows.column_names == ["at", "x", "refused_reason", "refused_at"]
    assert late_rows["x"].to_pylist() == [40, FAR, 40, FAR]
    assert late_rows["refused_reason"][0].as_py().startswith("its time 1970-01-01 00:00:40Z is too late by 0:01:00")
    assert min(late_rows["refused_at"].to_pylist()) > before
    assert client.describe(stream).late == 0
    all_late = client.push(stream, rows(1, 2), refused="divert")
    assert (all_late.accepted, all_late.late) == (0, 2)
    assert values(client, f"{stream}_late")[-2:] == [1, 2]  # its own next answer has them


def test_divert_copies_types_and_retention(client: Client, make_stream: MakeStream) -> None:
    name = make_stream(
        '("At" TIMESTAMP NOT NULL, d DECIMAL(9,2), b BOOLEAN, "two words" TEXT) TIMESTAMP BY "At" RETENTION 3 DAYS'
    )
    client.push(name, [{"At": "2026-01-02"}])
    client.push(name, [{"At": "2026-01-01", "d": "1.25", "two words": "x"}], refused="divert")
    late = client.describe(f"{name}_late")
    assert [(c.name, c.type, c.nullable) for c in late.columns][:5] == [
        ("At", "TIMESTAMP", True),
        ("d", "DECIMAL(9,2)", True),
        ("b", "BOOLEAN", True),
        ("two words", "TEXT", True),
        ("refused_reason", "TEXT", False),
    ]
    assert late.retention == dt.timedelta(days=3)


def test_divert_without_a_place_for_the_rows_takes_none(
    client: Client, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any, **__: Any) -> Any:
        raise AccessDenied("the token has the role writer", reason="ROLE")

    with monkeypatch.context() as patch:
        patch.setattr(client.connection.streams, "CreateStream", denied)
        with pytest.raises(AccessDenied, match=f'may not create it .*CREATE STREAM "{stream}_late"'):
            client.push(stream, rows(101, 1), refused="divert")
    assert values(client, stream) == [100]
    client.create_stream(f"CREATE STREAM {stream}_late (at TIMESTAMP)")
    with pytest.raises(InvalidData, match=f"stream '{stream}_late' has no column 'x'"):
        client.push(stream, rows(101, 1), refused="divert")
    assert values(client, stream) == [100]


def test_divert_needs_two_names_of_columns(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(at TIMESTAMP NOT NULL, refused_at TEXT) TIMESTAMP BY at")
    client.push(name, [{"at": "2026-01-02"}])
    with pytest.raises(InvalidData, match="has a column 'refused_at'"):
        client.push(name, [{"at": "2026-01-01"}], refused="divert")


def test_a_producer_that_nobody_asks_warns_of_refused_rows(client: Client, stream: str) -> None:
    with pytest.warns(RowsNotTaken, match="2 of 3 rows .* were refused: 2 too late; the option on_refused"):  # noqa: SIM117
        with client.producer(stream) as producer:
            producer.push(rows(101, 5, 6))
    assert isinstance(producer.close(), PushResult)


def test_a_stage_warns_or_raises(client: Client, stream: str) -> None:
    with pytest.warns(RowsNotTaken, match="1 of 2 rows .* was refused"), client.stage(stream) as stage:
        stage.add(rows(101, 5))
    other = client.stage(stream)
    other.add(rows(102, 6))
    other.add(rows(7, 103))
    with pytest.raises(RowsRefused, match=r'other rows are taken \(refused="count"\)$') as refused:
        other.commit(refused="raise")
    assert [row.row for row in refused.value.rows] == [1, 2], "the numbers go on through the parts"
    assert refused.value.rows[0].reason == "it is too late: its time is below the watermark 1970-01-01 00:01:41Z"
    assert other.commit().late == 2  # the stage stays, and its number is not used up
    with pytest.raises(ValueError, match="refused is 'divert'"):
        client.stage(stream).commit(refused="divert")  # type: ignore[arg-type]


def test_system_time_refuses_no_row(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(at TIMESTAMP, x BIGINT)")
    for refused in ("raise", "count", "divert"):
        assert client.push(name, rows(100, 1), refused=refused).accepted == 2  # type: ignore[arg-type]
    with pytest.raises(PSoupError):
        client.describe(f"{name}_late")

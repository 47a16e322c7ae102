"""Replies of a service that is broken or hostile are refused, and the copy, or the file of copies, stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup_client import AnswerCopy, Client, ServerFault
from psoup_client.copies.answer_copy import applied
from psoup_client.copies.replies import body_of
from psoup_proto.v1 import sync_pb2
from psoup_recharge import Store, StoreError

IDS = [pa.field("_id", pa.int64()), pa.field("_time", pa.timestamp("us"))]
WRONG: dict[str, dict[str, Any]] = {
    "another form": {"reset": 1, "form": {"schema_ipc": b"junk"}},
    "no JSON": {"columns_json": b"{junk"},
    "deep JSON": {"columns_json": b"[" * 100_000},
    "too few columns": {"columns_json": b"[[1]]"},
    "columns of several lengths": {"columns_json": b"[[1], [2, 3], [4]]"},
    "another kind": {"columns_json": b'[[1], [2], ["abc"]]'},
    "an object": {"columns_json": b'[[1], [2], [{"a": 1}]]'},
    "a large tuple ID": {"columns_json": b"[[99999999999999999999999], [2], [3]]"},
    "fewer rows than told": {"columns_json": b"[[9], [9], [9]]", "rows": 2},
    "large intervals": {"keep": [2**63 - 1, 2**63 - 1]},
    "keep reversed": {"keep": [9, -4]},
    "keep with an empty interval": {"keep": [1, 0, 4, 5]},
    "keep in another order": {"keep": [6, 4, -9, 3]},
    "keep without an end": {"keep": [1]},
    "removed reversed": {"whole": True, "removed": [2, -1]},
    "removed before the first row": {"whole": True, "removed": [-1, 2]},
    "places reversed": {"whole": True, "places": [2, -1], "columns_json": b"[[5]]"},
    "streams that are not there": {"streams": [99]},
    "many tuple IDs": {"reset": 1, "form": {"id_columns": 1_000}},
    "many keys of ORDER BY": {"reset": 1, "form": {"sort_keys": [{}] * 50}},
    "a place far away": {"whole": True, "places": [0, 2**62], "rows": 2**40},
    "a move of a row that is not there": {"whole": True, "moved": [100, 5]},
    "a move without an end": {"whole": True, "moved": [1]},
    "new rows without places": {"whole": True, "columns_json": b"[[5]]"},
}


def form(*, whole: bool, **others: Any) -> sync_pb2.CopyForm:
    schema = pa.schema([*([] if whole else IDS), pa.field("n", pa.int64())])
    ids = 0 if whole else 1
    return sync_pb2.CopyForm(
        **{"schema_ipc": schema.serialize().to_pybytes(), "whole": whole, "id_columns": ids} | others
    )


def change(*, whole: bool = False, form_of: dict[str, Any] | None = None, **fields: Any) -> sync_pb2.Change:
    empty: list[list[int]] = [[] for _ in range(1 if whole else 3)]
    told: dict[str, Any] = {"token": b"t2", "streams": [0], "columns_json": json.dumps(empty).encode()} | fields
    if "rows" not in told:
        with suppress(ValueError, RecursionError):
            told["rows"] = len(json.loads(told["columns_json"])[0])
    if form_of is not None:
        told["form"] = form(whole=whole, **form_of)
    return sync_pb2.Change(**told)


def first(*, whole: bool) -> sync_pb2.Change:
    rows = b"[[7, 8]]" if whole else b"[[1, 1], [5, 5], [7, 8]]"
    return change(whole=whole, form_of={}, reset=1, token=b"t1", columns_json=rows, complete=True)


BODY = sync_pb2.SyncBody(sequence=1, streams=[sync_pb2.StreamTime(stream="s")], clock=10**15)


@pytest.fixture(params=WRONG)
def wrong(request: pytest.FixtureRequest) -> tuple[bool, sync_pb2.Change]:
    fields = dict(WRONG[request.param])
    whole, form_of = bool(fields.pop("whole", False)), fields.pop("form", None)
    return whole, change(whole=whole, form_of=form_of, **fields)


def test_a_copy_stays_as_it_was(client: Client, wrong: tuple[bool, sync_pb2.Change]) -> None:
    whole, bad = wrong
    copy = AnswerCopy(client, "q-1")
    applied(copy, first(whole=whole), BODY)
    with pytest.raises(ServerFault, match="is not a valid change of a copy") as refused:
        applied(copy, bad, BODY)
    assert refused.value.reason == "BAD_REPLY" and copy.rows() == [(7,), (8,)]


def test_a_file_of_copies_stays_as_it_was(tmp_path: Path, wrong: tuple[bool, sync_pb2.Change]) -> None:
    whole, bad = wrong
    with Store(tmp_path / "here.db") as store:
        store.add("a", key="k")
        store.apply(store.entry("a"), store.want(store.entry("a")), first(whole=whole), BODY.streams, BODY.clock)
        with pytest.raises((ServerFault, StoreError)):
            store.apply(store.entry("a"), store.want(store.entry("a")), bad, BODY.streams, BODY.clock)
        assert store.read("a").to_pydict() == {"n": [7, 8]} and store.select("SELECT * FROM a")[1] == [(7,), (8,)]
        assert store.want(store.entry("a")).token == b"t1"


def test_what_a_reply_decompresses_to_is_bounded() -> None:
    bomb = pa.compress(bytes(200_000_000), "zstd", asbytes=True)
    for body, size in ((bomb, 200_000_000), (bomb, 1_000), (bomb, -1), (b"", 2**62), (b"junk", 100)):
        with pytest.raises(ServerFault, match="is not a valid change of a copy"):
            body_of(sync_pb2.SyncResponse(body=body, compression=sync_pb2.COMPRESSION_ZSTD, size=size))
    with pytest.raises(ServerFault):
        body_of(sync_pb2.SyncResponse(body=b"\xff\xff"))


def answering(client: Client, monkeypatch: pytest.MonkeyPatch, method: str, body: sync_pb2.SyncBody) -> None:
    """Let a service answer all calls of a method so."""
    replies: dict[str, Callable[..., Any]] = {
        "Sync": lambda *_, **__: sync_pb2.SyncResponse(body=body.SerializeToString()),
        "Watch": lambda *_, **__: _Call([sync_pb2.WatchResponse(body=body.SerializeToString())]),
    }
    monkeypatch.setattr(client.connection.sync, method, replies[method])


class _Call(list[sync_pb2.WatchResponse]):
    def cancel(self) -> None:
        self.clear()


def test_a_reply_that_brings_nothing_is_not_asked_for_for_ever(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    none = list[sync_pb2.SyncOutcome]()
    for outcomes in (none, [sync_pb2.SyncOutcome(change=sync_pb2.Change(rows_left=5))]):
        answering(client, monkeypatch, "Sync", sync_pb2.SyncBody(outcomes=outcomes))
        with pytest.raises(ServerFault, match="it brings nothing"):
            client.copy("q-1").sync()


def test_a_bad_change_is_that_copys_error(client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good, bad = first(whole=False), change(columns_json=b"[[1]]")
    body = sync_pb2.SyncBody(outcomes=[sync_pb2.SyncOutcome(change=of) for of in (bad, good, good)], places=[0, 1])
    body.MergeFrom(BODY)
    answering(client, monkeypatch, "Sync", body)
    copies = [client.copy("q-1"), client.copy("q-2")]
    told = client.sync(copies)
    assert [synced.error is None for synced in told] == [False, True], "a third outcome was not asked for"
    with Store(tmp_path / "here.db") as store:
        store.add("a", key="k")
        store.add("b", key="k2")
        assert [copy.error is None for copy in store.recharge(client).copies] == [False, True]
    del body.outcomes[2]
    answering(client, monkeypatch, "Watch", body)
    with client.watch([client.copy("q-1"), client.copy("q-2")]) as changes:
        assert [synced.error is None for _, synced in (next(changes), next(changes))] == [False, True]
    body.places[1] = 2
    answering(client, monkeypatch, "Watch", body)
    with client.watch(copies) as changes, pytest.raises(ServerFault, match="not a valid change of a copy"):
        next(changes)

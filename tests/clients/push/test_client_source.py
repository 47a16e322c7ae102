"""Source positions in the SDK: a feed that reads where it was, and goes on behind it.

    source     row 0 … row 39 | row 40 … row 79 | …
    batches    number 0, b"40"  number 1, b"80"        the position is kept with the number
    restart    client.position(…).source == b"80"      row 80 comes next

A feed here is a function that ends early, without waiting for its replies.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from psoup_client import Client, FailedPrecondition, InvalidRequest, NotFound
from psoup_client.payload import split
from psoup_proto.v1 import ingest_pb2
from psoup_storage import DurableStore
from psoup_testing.oracles.questions import again
from psoup_testing.services.command import Psoup
from psoup_testing.services.proxy import Cut, cutting
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.suite.sweeps import swept

MakeStream = Callable[[str], str]


def feed(client: Client, stream: str, rows: int, batch: int, stop: int) -> None:
    """Go on behind the recorded position. Stop at its end, or after `stop` batches without their replies."""
    try:
        at = client.position(stream, "feed")
        epoch, number, start = at.epoch, at.number, int(at.source or b"0")
    except NotFound:
        epoch, number, start = 1, 0, 0
    producer = client.producer(stream, name="feed", epoch=epoch, number=number)
    for sent, first in enumerate(range(start, rows, batch)):
        if sent == stop:
            break
        end = min(first + batch, rows)
        producer.push({"n": range(first, end)}, position=b"%d" % end, after=b"%d" % first if first else b"")
    else:
        producer.flush()
    producer.close(flush=False)


@pytest.mark.parametrize("seed", range(3))
def test_a_feed_that_ends_anywhere_neither_loses_nor_repeats_a_row(
    client: Client, make_stream: MakeStream, seed: int
) -> None:
    name, chance = make_stream("(n BIGINT)"), random.Random(seed)
    for _ in range(5):
        feed(client, name, 400, chance.randrange(1, 40), chance.randrange(6))
    feed(client, name, 400, 40, 400)
    query = client.register(f"SELECT n FROM {name} BEGIN (START)")
    assert again(query.invoke, wait_for=client.last_sequence).to_arrow()["n"].to_pylist() == list(range(400))
    assert client.position(name, "feed").source == b"400"


def test_a_position_is_given_back_also_after_batches_without_one(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(n BIGINT)")
    with client.producer(name, name="p", epoch=1) as producer:
        producer.push({"n": [1]})
        assert producer.flush().accepted == 1
        assert producer.position().source is None
        producer.push([], position=b"\x00\xff")
        producer.push({"n": [2]})
    assert producer.result.accepted == 2
    assert (client.position(name, "p").number, client.position(name, "p").source) == (3, b"\x00\xff")


def test_a_batch_behind_another_position_ends_the_producer(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(n BIGINT)")
    with client.producer(name, name="p", epoch=1) as producer:
        producer.push({"n": [1]}, position=b"10", after=b"")
    producer = client.producer(name, name="p", epoch=1, number=1)
    producer.push({"n": [2]}, position=b"30", after=b"20")
    with pytest.raises(FailedPrecondition, match=r"follows source position b'20', and b'10' is recorded") as refused:
        producer.flush()
    assert (refused.value.reason, bytes.fromhex(refused.value.facts["recorded"])) == ("SOURCE_POSITION", b"10")
    producer.close(flush=False)
    assert (client.position(name, "p").number, client.position(name, "p").source) == (1, b"10")


def test_a_stage_has_a_position(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(n BIGINT)")
    with client.stage(name, producer="copy") as stage:
        stage.add({"n": [1, 2]})
        with pytest.raises(FailedPrecondition, match="and none is recorded"):
            stage.commit(position=b"0/20", after=b"0/10")
        assert stage.commit(position=b"0/10", after=b"").accepted == 2
    assert client.position(name, "copy").source == b"0/10"
    again = client.stage(name, producer="copy")
    assert again.result is not None
    assert again.commit(position=b"0/99").duplicates == 1
    assert client.position(name, "copy").source == b"0/10"


def test_rows_that_no_message_holds_are_one_batch(client: Client, make_stream: MakeStream) -> None:
    """17 MiB of text go as a stage, between two batches of the same producer."""
    name = make_stream("(n BIGINT, word TEXT)")
    words = pa.array(["x" * 60_000] * 300)
    seen: list[int] = []
    with client.producer(name, name="p", epoch=1, on_reply=lambda result: seen.append(result.accepted)) as producer:
        producer.push({"n": [0]}, position=b"1")
        assert producer.push(pa.table({"n": range(300), "word": words}), position=b"301", after=b"1") == 2
        assert client.position(name, "p").source == b"301"
        producer.push({"n": [1]}, position=b"302", after=b"301")
    at = client.position(name, "p")
    assert (at.number, at.rows, at.source, seen) == (3, 302, b"302", [1, 301, 302])
    producer = client.producer(name, name="p", epoch=1, number=3)
    with pytest.raises(FailedPrecondition, match="b'302' is recorded"):
        producer.push(pa.table({"n": range(300), "word": words}), position=b"603", after=b"301")
    with pytest.raises(FailedPrecondition):
        producer.push({"n": [1]})
    producer.close(flush=False)


def test_bad_positions_are_named(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(n BIGINT)")
    with client.producer(name, name="p", epoch=1) as producer:
        with pytest.raises(TypeError, match=r"position is 'offset 40' of type str: give bytes"):
            producer.push({"n": [1]}, position="offset 40")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="after has 257 bytes, and a source position has at most 256"):
            producer.push({"n": [1]}, after=b"x" * 257)
        with pytest.raises(ValueError, match="position is empty"):
            producer.push({"n": [1]}, position=b"")
        producer.push({"n": [1]}, position=b"x" * 256, after=b"")
    stage = client.stage(name, producer="q")
    with pytest.raises(TypeError, match="position is 7 of type int"):
        stage.commit(position=7)  # type: ignore[arg-type]
    stage.abort()
    [payload] = split(pa.table({"n": [1]}))
    request = ingest_pb2.PushRequest(stream=name, arrow_ipc=payload.data, position=b"40")
    with pytest.raises(InvalidRequest, match="the batch names no producer; name one, or leave the position out"):
        client.connection.call(client.connection.ingest.Push, request)
    request.producer, request.epoch, request.number, request.position = "p", 1, 1, b"x" * 257
    with pytest.raises(InvalidRequest, match="position has 257 bytes; a source position has at most 256"):
        client.connection.call(client.connection.ingest.Push, request)


def test_rows_in_json_have_a_position(client: Client, make_stream: MakeStream) -> None:
    name, call = make_stream("(n BIGINT)"), client.connection.ingest.PushRows
    rows = json.dumps([{"n": 1}]).encode()
    request = ingest_pb2.PushRowsRequest(stream=name, rows=rows, producer="p", position=b"a", after=b"")
    assert client.connection.call(call, request).accepted == 1
    assert client.connection.call(call, request).duplicate
    request = ingest_pb2.PushRowsRequest(stream=name, rows=rows, producer="p", number=1, after=b"b")
    with pytest.raises(FailedPrecondition, match="b'a' is recorded"):
        client.connection.call(call, request)


def test_an_upsert_has_a_position(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(n BIGINT)") + "_table"
    client.create_stream(f"CREATE TABLE {name} (k BIGINT, PRIMARY KEY (k))")
    with client.producer(name, name="p", epoch=1) as producer:
        producer.upsert({"k": [1, 2]}, position=b"2")
        producer.upsert({"k": [2, 3]}, position=b"4", after=b"2")
    assert client.position(name, "p").source == b"4"
    client.drop(name)


@pytest.mark.seeded("a change applied twice after a reconnect")
@pytest.mark.parametrize("positions", swept([True, False], fast=1))
def test_entries_whose_replies_are_lost_come_once(
    running: Serving, client: Client, make_stream: MakeStream, positions: bool
) -> None:
    """Each lost connection has taken some batches whose replies never came."""
    name = make_stream("(n BIGINT)") + "_table"
    client.create_stream(f"CREATE TABLE {name} (k BIGINT, v BIGINT, PRIMARY KEY (k))")
    cuts = [Cut(length, False) for length in (1_500, 3_000)]
    with cutting(running.address, cuts) as proxy, Client(proxy.address, timeout=60) as cut:
        with cut.producer(name, name="p", epoch=1, retry_seconds=120) as producer:
            for end in range(1, 201):
                follows = {"position": b"%d" % end, "after": b"%d" % (end - 1) if end > 1 else b""}
                producer.push({"k": [end % 3], "v": [end]}, **(follows if positions else {}))  # type: ignore[arg-type]
        assert proxy.connections > 2
        client.note_sequence(cut.last_sequence)
    assert client.describe(name).next_tuple_id == 200
    answer = again(client.ask, f"SELECT k, v FROM {name} ORDER BY k").to_arrow()
    assert answer.to_pydict() == {"k": [0, 1, 2], "v": [198, 199, 200]}
    client.drop(name)


def test_it_is_recorded_after_a_restart(tmp_path: Path) -> None:
    with serving(store=DurableStore(tmp_path)) as running, Client(running.address) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        with client.producer("s", name="p", epoch=1) as producer:
            producer.push({"n": [1]}, position=b"\x0010")
            producer.push({"n": [2]})
    with serving(store=DurableStore(tmp_path)) as running, Client(running.address) as client:
        at = client.position("s", "p")
        assert (at.number, at.source) == (2, b"\x0010")
        with client.producer("s", name="p", epoch=at.epoch, number=at.number) as producer:
            producer.push({"n": [3]}, position=b"\x0020", after=at.source)


def test_the_command_shows_it(psoup: Psoup, client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(n BIGINT)")
    with client.producer(name, name="p", epoch=1) as producer:
        producer.push({"n": [1]})
        producer.flush()
        assert psoup("producer", name, "p").out.splitlines()[-1].split() == ["source", "position", "none"]
        producer.push({"n": [1]}, position=b"line 7\xff")
    assert psoup("producer", name, "p").out.splitlines()[-1].split(maxsplit=2)[2] == r"'line 7\xff'"
    [shown] = psoup("producer", name, "p", "--json").rows
    assert bytes.fromhex(str(shown["source"])) == b"line 7\xff"

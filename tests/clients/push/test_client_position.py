"""The position of a producer: by the SDK and the command, after a restart, and for unknown names.

sent        0 1 2 3        batches of a device that goes away
position          4        the next one: its successor goes on there, in the same epoch
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from psoup_client import Client, Conflict, InvalidRequest, NotFound, Position
from psoup_storage import DurableStore
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import FEW_PRODUCERS, serving

MakeStream = Callable[[str], str]
MIXED = [{"a": 1, "at": 10_000}, {"a": 2, "at": 1}, {"a": 3, "at": 9_999}]
"""Rows of which the service refuses one, which is late once there were others."""


def test_a_producer_says_where_it_is(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT)")
    with client.producer(name, name="roof", epoch=7) as producer:
        with pytest.raises(NotFound, match="nothing is known of producer 'roof'") as unknown:
            producer.position()
        assert unknown.value.reason == "UNKNOWN_PRODUCER"
        for value in range(4):
            producer.push([{"a": value}] * 3)
        result = producer.flush()
        position = producer.position()
        assert position == client.position(name.upper(), "roof")
        assert (position.epoch, position.number, position.rows) == (7, producer.acknowledged, 12)
        assert position.sequence == result.sequence
        assert abs(position.time - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)
    with client.producer(name, name="roof", epoch=7) as producer:
        producer.push([{"a": 0}] * 3)
    assert client.position(name, "roof") == position, "what was taken before counts once"
    with client.producer(name, name="roof", epoch=8) as producer:
        producer.push([{"a": 0}] * 2)
        producer.flush()
        assert (producer.position().epoch, producer.position().number, producer.position().rows) == (8, 1, 2)


def test_rows_that_were_refused_and_batches_in_parts_count(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    with client.producer(name, name="p", epoch=1, time_unit="s") as producer:
        producer.push(MIXED)
        producer.push(MIXED)
    assert (producer.result.accepted, producer.result.late) == (4, 2)
    assert client.position(name, "p").rows == 6
    with client.stage(name, producer="nightly") as stage:
        stage.add([{"a": 1, "at": "2026-07-01"}] * 5)
    assert (client.position(name, "nightly").number, client.position(name, "nightly").rows) == (1, 5)


def test_one_of_two_successors_is_told(client: Client, make_stream: MakeStream) -> None:
    """A batch that was under way, and the one that takes its number, are not both taken."""
    name = make_stream("(a BIGINT)")
    with client.producer(name, name="p", epoch=1) as producer:
        producer.push([{"a": 0}])
    at = client.position(name, "p")
    for value in (1, 2):
        producer = client.producer(name, name="p", epoch=at.epoch, number=at.number)
        producer.push([{"a": value}])
        if value == 1:
            producer.flush()
        else:
            with pytest.raises(Conflict):
                producer.flush()
        producer.close(flush=False)
    assert (client.describe(name).tuples, client.position(name, "p").number) == (2, 2)


def test_what_cannot_be_asked(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT)")
    with pytest.raises(NotFound, match="there is no stream or table"):
        client.position("nowhere", "p")
    with pytest.raises(InvalidRequest, match="producer is empty"):
        client.position(name, "")
    with pytest.raises(TypeError):
        client.position(name, 7)  # type: ignore[arg-type]


def test_a_producer_that_made_way_is_not_at_zero() -> None:
    with serving(FEW_PRODUCERS) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        for name in ("one", "two", "three"):
            client.describe("s")
            with client.producer("s", name=name) as producer:
                producer.push([{"a": 1}])
        assert client.position("s", "three").number == 1
        with pytest.raises(NotFound, match="or made way for others"):
            client.position("s", "one")


def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    """A batch that was refused as a whole does not count, neither before nor after."""
    with serving(store=DurableStore(tmp_path)) as running, Client(running.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT NOT NULL)")
        with client.producer("s", name="p", epoch=3, batch_rows=2) as producer:
            producer.push({"a": range(7)})
        before = client.position("s", "p")
        assert (before.number, before.rows) == (4, 7)
    with serving(store=DurableStore(tmp_path)) as running, Client(running.address) as client:
        assert client.position("s", "p") == before
        with client.producer("s", name="p", epoch=before.epoch, number=before.number) as producer:
            producer.push({"a": [7]})
        assert (client.position("s", "p").number, client.position("s", "p").rows) == (5, 8)
        assert client.describe("s").tuples == 8


def test_the_command_says_it(psoup: Psoup, client: Client, stream: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,at\n1,2026-07-01\n2,2026-07-02\n")
    assert psoup("push", stream, "rows.csv", "--whole", "--id", "monday").code == 0
    ran = psoup("producer", stream, "monday")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[:2] for line in ran.out.splitlines()][:2] == [["epoch", "0"], ["next", "number"]]
    [said] = psoup("producer", stream, "monday", "--json").rows
    position = client.position(stream, "monday")
    assert isinstance(position, Position)
    assert (said["epoch"], said["number"], said["rows"], said["sequence"]) == (0, 1, 2, position.sequence)
    ran = psoup("producer", stream, "tuesday")
    assert (ran.code, ran.out) == (4, "")
    assert "nothing is known of producer 'tuesday'" in ran.err

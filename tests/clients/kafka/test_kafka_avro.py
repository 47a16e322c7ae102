"""Records in Avro, with schemas of a registry: a real HTTP server that speaks GET /schemas/ids and /subjects."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pytest

from psoup_client import AccessDenied, Client, FailedPrecondition, InvalidData, InvalidRequest, NotFound, Unavailable
from psoup_kafka import AvroValues, SchemaRegistry
from psoup_testing.services import fixtures
from psoup_testing.services.kafka import MockKafka
from psoup_testing.services.kafka_feeds import feed, lines, rows

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["BUY", "SELL"]}},
        {"name": "ok", "type": "boolean"},
        {"name": "f", "type": "double"},
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
COLUMNS = "(id BIGINT, price DECIMAL(9,2), at TIMESTAMP, day DATE, kind TEXT, ok BOOLEAN, f DOUBLE, u TEXT)"
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
N = {"name": "n", "type": "long"}
LINKED = {"type": "record", "name": "Linked", "fields": [{"name": "key", "type": "Key"}, N]}
WHOLE = {**LINKED, "fields": [{"name": "key", "type": KEY}, N]}
NUMBER = {"type": "record", "name": "Number", "fields": [N, {"name": "s", "type": "string"}]}


class Registry:
    """A schema registry. `asked`: the paths that were asked for."""

    def __init__(self) -> None:
        self.asked = list[str]()
        self.login: str | None = None
        subject = {"subject": "key-value", "version": 1, "id": 2, "schema": json.dumps(KEY)}
        self.replies: dict[str, Any] = {
            "/schemas/ids/1": {"schema": json.dumps(ORDER)},
            "/schemas/ids/2": {"schema": json.dumps(KEY)},
            "/schemas/ids/3": {
                "schema": json.dumps(LINKED),
                "references": [{"name": "Key", "subject": "key-value", "version": 1}],
            },
            "/schemas/ids/4": {"schema": json.dumps(NUMBER)},
            "/schemas/ids/5": {"schema": "syntax", "schemaType": "PROTOBUF"},
            "/schemas/ids/6": {"schema": "{"},
            "/schemas/ids/7": {"schema": '"long"'},
            "/subjects/key-value/versions/1": subject,
        }
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                given = self.headers.get("Authorization")
                allowed = registry.login in (None, given and base64.b64decode(given.split()[1]).decode())
                reply = registry.replies.get(self.path)
                self.send_response(401 if not allowed else 404 if reply is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(reply or {"error_code": 40403, "message": "Schema not found"}).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    yield server
    server.close()


def framed(number: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + file.getvalue()


def order(number: int) -> dict[str, Any]:
    at = dt.datetime(2026, 1, 1, 12, 0, 0, 5_000, dt.UTC)
    return {
        "id": number,
        "price": Decimal("12.50") if number % 2 else None,
        "at": at,
        "day": at.date(),
        "kind": "SELL",
        "ok": True,
        "f": 0.1,
        "u": uuid.UUID(int=number),
    }


def test_values_in_avro_with_all_types(
    client: Client, make_stream: Callable[[str], str], kafka: MockKafka, registry: Registry
) -> None:
    stream, topic = make_stream(COLUMNS), kafka.topic()
    kafka.produce(topic, [framed(1, ORDER, order(n)) for n in range(3)])
    read = AvroValues(SchemaRegistry(registry.url)).value
    assert feed(client, kafka.brokers, topic, stream, read_value=read).rows == 3
    expected = [tuple({**order(n), "u": str(uuid.UUID(int=n))}.values()) for n in range(3)]
    assert rows(client, stream, "id, price, at, day, kind, ok, f, u") == expected
    assert registry.asked == ["/schemas/ids/1"]  # once


def test_values_that_are_no_avro_of_their_schema_are_set_aside(
    client: Client, make_stream: Callable[[str], str], kafka: MockKafka, registry: Registry, tmp_path: Path
) -> None:
    stream, topic = make_stream("(n BIGINT, s TEXT)"), kafka.topic()
    good = framed(4, NUMBER, {"n": 1, "s": "é"})
    bad = [
        (b'{"n":1}', "it is not Avro of a schema registry"),
        (b"\0\0\0", "it is not Avro of a schema registry"),
        (b"\0\0\0\0\x63\x02", "replied 404 to GET /schemas/ids/99"),
        (good[:-1], "it does not follow schema 4"),
        (good + b"x", "it has 1 bytes behind the value"),
        (good[:-2] + b"\xff\xfe", "it does not follow schema 4"),
        (framed(2, KEY, {"id": 1}), "has no column 'id'"),
        (framed(3, WHOLE, {"key": {"id": 1}, "n": 1}), "has no column 'key'"),
        (b"\0\0\0\0\x07\x02", "it is a number, and a row is an object"),
    ]
    for value, _ in bad:
        kafka.produce(topic, [value, good])
    read = AvroValues(SchemaRegistry(registry.url)).value
    figures = feed(client, kafka.brokers, topic, stream, read_value=read, quarantine=tmp_path)
    assert (figures.rows, figures.poison) == (len(bad), len(bad))
    for line, (_, reason) in zip(lines(tmp_path), bad, strict=True):
        assert reason in line["reason"]


def test_tombstones_with_keys_in_avro_delete(client: Client, kafka: MockKafka, registry: Registry) -> None:
    table, topic = f"t{next(fixtures.numbers)}", kafka.topic()
    client.execute(f"CREATE TABLE {table} (id BIGINT, PRIMARY KEY (id))")
    kafka.produce(topic, [framed(2, KEY, {"id": 1}), framed(2, KEY, {"id": 2})])
    kafka.produce(topic, [None], key=framed(2, KEY, {"id": 1}))
    feed(client, kafka.brokers, topic, table, read_value=AvroValues(SchemaRegistry(registry.url)).value)
    assert client.ask(f"SELECT id FROM {table}").rows() == [(2,)]


def test_a_registry_with_a_login(registry: Registry) -> None:
    registry.login = "user:word"
    with pytest.raises(AccessDenied, match=r"replied 401 .* schema\.registry\.basic\.auth\.user\.info"):
        SchemaRegistry(registry.url).schema(1)
    assert SchemaRegistry(registry.url, {"basic.auth.user.info": "user:word"}).schema(1)["name"] == "Order"


def test_schemas_that_cannot_be_used_end_the_feed(registry: Registry) -> None:
    schemas = SchemaRegistry(registry.url)
    with pytest.raises(FailedPrecondition, match="schema 5 is of PROTOBUF"):
        schemas.schema(5)
    with pytest.raises(FailedPrecondition, match="a schema that cannot be read"):
        schemas.schema(6)
    with pytest.raises(NotFound):
        schemas.schema(99)
    with pytest.raises(InvalidRequest, match=r"schema\.registry\.magic is not a setting"):
        SchemaRegistry(registry.url, {"magic": "1"})
    with pytest.raises(InvalidRequest, match="give its URL"):
        SchemaRegistry("registry:8081")
    assert schemas.schema(3)["name"] == "Linked"


def test_a_schema_that_two_others_refer_to_is_read_once(registry: Registry) -> None:
    both = {"type": "record", "name": "Both", "fields": [{"name": "a", "type": "Linked"}, {"name": "b", "type": "Key"}]}
    key, linked = ({"name": name, "subject": f"{name}-value", "version": 1} for name in ("key", "linked"))
    registry.replies["/subjects/linked-value/versions/1"] = registry.replies["/schemas/ids/3"]
    registry.replies["/schemas/ids/8"] = {"schema": json.dumps(both), "references": [key, linked]}
    assert SchemaRegistry(registry.url).schema(8)["name"] == "Both"
    assert registry.asked == ["/schemas/ids/8", "/subjects/key-value/versions/1", "/subjects/linked-value/versions/1"]


def test_schemas_that_refer_to_each_other_end_the_feed(registry: Registry) -> None:
    circle = {"name": "Loop", "subject": "loop", "version": 1}
    reply = {"schema": json.dumps({**KEY, "fields": [{"name": "n", "type": "Loop"}]}), "references": [circle]}
    registry.replies |= {"/schemas/ids/9": reply, "/subjects/loop/versions/1": reply}
    with pytest.raises(FailedPrecondition, match="a schema that cannot be read"):
        SchemaRegistry(registry.url).schema(9)
    assert len(registry.asked) == 2


def test_a_registry_that_is_away_is_no_fault_of_the_record(registry: Registry) -> None:
    registry.close()
    with pytest.raises(Unavailable, match="does not answer"):
        AvroValues(SchemaRegistry(registry.url)).value(b"\0\0\0\0\1\0")
    with pytest.raises(InvalidData):
        AvroValues(SchemaRegistry(registry.url)).value(b"no")
    registry.__init__()  # type: ignore[misc] # so that the fixture closes one

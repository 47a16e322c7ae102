"""`python -m benchmarks.attacks.attacks NAME ADDRESS`: calls of a hostile client, in a process of its own.

    NAME on argv  ->  prepare: streams, queries, data   ->  "ready"  ->  threads repeat one step  ->  end of stdin
                                                                                                        what was said

Each attack is bounded: it ends with its standard input, and after MOST_SECONDS. It speaks the contract, or plain HTTP/2
if the contract's client is too polite. It speaks only to the given address. Its answers are not looked at but counted
by their code. `benchmarks.attacks.neighbour` measures what a neighbour feels.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import grpc
import numpy as np
import pyarrow as pa

from benchmarks.attacks.half_messages import Stalled
from benchmarks.tool.elsewhere import go_last, send_little
from psoup_client import Client, PSoupError, Query
from psoup_client.channel.token import token_metadata
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import server_pb2 as server
from psoup_proto.v1 import staging_pb2 as staging

MOST_SECONDS = 60.0
Step = Callable[[], object]


@dataclass(frozen=True)
class Attack:
    """An attack: its preparation, the number of threads that repeat its step, and the step."""

    prepare: Callable[[Client], Callable[[], Step]]
    """Called once; each thread calls its result for the step, so that each has its own channel."""

    threads: int = 1


def main() -> int:
    """Attack until standard input ends."""
    name, address = sys.argv[1:]
    go_last()
    attack = ATTACKS[name]
    stop, said = threading.Event(), Counter[str]()
    with Client(address, timeout=MOST_SECONDS) as client:
        make = attack.prepare(client)
        steps = [make() for _ in range(attack.threads)]
        threads = [threading.Thread(target=repeat, args=(step, stop, said), daemon=True) for step in steps]
        print("ready", flush=True)
        for thread in threads:
            thread.start()
        threading.Timer(MOST_SECONDS, stop.set).start()
        threading.Thread(target=send_little, args=(int(address.rpartition(":")[2]),), daemon=True).start()
        threading.Thread(target=_until_closed, args=(stop,), daemon=True).start()
        stop.wait()
    print(json.dumps(said), flush=True)
    os._exit(0)  # what is stalled stays so: nothing waits for it


def _until_closed(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def repeat(step: Step, stop: threading.Event, said: Counter[str]) -> None:
    """Do the step again and again, and count how its calls end."""
    while not stop.is_set():
        try:
            step()
            said["OK"] += 1
        except grpc.RpcError as refusal:
            said[refusal.code().name] += 1
        except PSoupError as refusal:
            said[type(refusal).__name__] += 1


def _channel(client: Client) -> grpc.Channel:
    """A connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    return grpc.insecure_channel(client.address, options=options)


def _method(client: Client, service: str, name: str) -> Callable[..., bytes]:
    return partial(_channel(client).unary_unary(f"/psoup.v1.{service}/{name}"), metadata=_credential(client))


def _credential(client: Client) -> tuple[tuple[str, str | bytes], ...]:
    """The metadata of every call: the token of the environment, if there is one."""
    return token_metadata(None, client.address, encrypted=False)


def _ipc(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _growing_text(client: Client) -> Callable[[], Step]:
    """A clause whose text grows three thousandfold, three times, for each tuple."""
    client.create_stream("CREATE STREAM grows (a TEXT, n BIGINT)")
    long = "x" * 3_000
    nested = "a"
    for _ in range(3):
        nested = f"replace({nested}, 'x', '{long}')"
    client.register(f"SELECT n FROM grows WHERE length({nested}) = 7")
    return lambda: lambda: client.push("grows", [{"a": "x", "n": 1}] * 100)


def _amplified_block(client: Client) -> Callable[[], Step]:
    """58 kB of parameters that decode to 200 MB, and would be a gigabyte in JSON."""
    client.create_stream("CREATE STREAM block (b TEXT)")
    values = pa.table({"v": ["\x01" * 60_000 + str(n) for n in range(3_400)]})
    request = queries.RegisterManyRequest(
        statements=["SELECT b FROM block WHERE b = ?"], parameters=_ipc(values, "zstd")
    ).SerializeToString()
    return lambda: _call(client, "QueryService", "RegisterMany", request)


def _zeros(client: Client) -> Callable[[], Step]:
    """12 kB that decode to 260 MB, into a stream that has no such columns."""
    client.create_stream("CREATE STREAM zeros (a BIGINT)")
    table = pa.table({f"c{number}": np.zeros(1 << 20, np.int64) for number in range(31)})
    request = ingest.PushRequest(stream="zeros", arrow_ipc=_ipc(table, "zstd")).SerializeToString()
    return lambda: _call(client, "IngestService", "Push", request)


def _zeros_that_fit(client: Client) -> Callable[[], Step]:
    """The same into a stream that has the columns: 8 MiB of zeros in a message of a kilobyte."""
    columns = ", ".join(f"c{number} BIGINT" for number in range(31))
    client.create_stream(f"CREATE STREAM fits ({columns}) RETENTION 1000 ROWS")
    table = pa.table({f"c{number}": np.zeros(1 << 15, np.int64) for number in range(31)})
    request = ingest.PushRequest(stream="fits", arrow_ipc=_ipc(table, "zstd")).SerializeToString()
    return lambda: _call(client, "IngestService", "Push", request)


def _half_messages(client: Client) -> Callable[[], Step]:
    """20 streams a connection that send 15 of 16 MiB and stop."""
    names = [(key, str(value)) for key, value in _credential(client)]
    return lambda: Stalled(client.address, names, streams=20, declared=16 << 20, sent=15 << 20).pump


def _slow_readers(client: Client) -> Callable[[], Step]:
    """DISTINCT and ORDER BY over 3 M tuples, by callers who leave after 50 ms."""
    client.create_stream("CREATE STREAM wide (a BIGINT, t TEXT)")
    random = np.random.default_rng(1)
    for _ in range(12):
        count = 250_000
        client.push("wide", pa.table({"a": random.integers(0, 1 << 40, count), "t": ["y"] * count}))
    slow = client.register("SELECT DISTINCT a * 3 AS z, t FROM wide ORDER BY z, t")
    request = queries.InvokeRequest(query_id=slow.id, max_bytes=1_000).SerializeToString()
    return lambda: _call(client, "QueryService", "Invoke", request, timeout=0.05)


def _stalled_sorts(client: Client) -> Callable[[], Step]:
    """ORDER BY over a million rows of text, of which two messages are read."""
    client.create_stream("CREATE STREAM sorts (a BIGINT, t TEXT)")
    for _ in range(10):
        client.push("sorts", pa.table({"a": np.arange(100_000), "t": ["y" * 90] * 100_000}))
    return lambda: _stalled(client, client.register("SELECT a, t FROM sorts ORDER BY a"), 16)


def _pinned_chunks(client: Client) -> Callable[[], Step]:
    """Streams that stop reading, while the window turns over."""
    columns = [f"c{number}" for number in range(8)]
    declared = ", ".join(f"{name} BIGINT" for name in columns)
    client.create_stream(f"CREATE STREAM pins ({declared}) RETENTION 131072 ROWS")
    query = client.register("SELECT * FROM pins")
    rows = pa.table({name: np.random.default_rng(0).integers(0, 1 << 40, 131_072) for name in columns})
    client.push("pins", rows)
    stall = _stalled(client, query, 64)

    def step() -> None:
        stall()
        client.push("pins", rows)

    return lambda: step


def _stalled(client: Client, query: Query, limit: int) -> Step:
    """A step that opens a stream of answers and reads two messages of it; at most so many are held."""
    streams: list[object] = []
    request = queries.InvokeStreamRequest(query_id=query.id, accept_truncation=True).SerializeToString()

    def step() -> None:
        if len(streams) >= limit:
            time.sleep(0.01)
            return
        stream = _channel(client).unary_stream("/psoup.v1.QueryService/InvokeStream")
        call = stream(request, timeout=MOST_SECONDS, metadata=_credential(client))
        next(call)
        next(call)
        streams.append(call)

    return step


def _matches_many(client: Client) -> Callable[[], Step]:
    """281 bytes that ask for two million IDs."""
    client.create_stream("CREATE STREAM many (a BIGINT)")
    client.register_many("SELECT a FROM many WHERE a > ?", [(number - 20_000,) for number in range(10_000)])
    done = client.push("many", pa.table({"a": np.arange(1_000)}))
    client.wait_for(done.sequence)
    request = queries.MatchesManyRequest(stream="many", tuple_ids=range(200), limit=10_000).SerializeToString()
    return lambda: _call(client, "QueryService", "MatchesMany", request)


def _many_statements(client: Client) -> Callable[[], Step]:
    """3,000 statements of different forms in a call."""
    client.create_stream("CREATE STREAM forms (a BIGINT, b TEXT)")

    def statement(number: int) -> str:
        terms = "".join(f"{'+-*'[int(digit)]}a" for digit in np.base_repr(number, 3))
        return f"SELECT a FROM forms WHERE a{terms} > 5 AND b LIKE '%q{number}_%'"

    request = queries.RegisterManyRequest(statements=[statement(n) for n in range(3_000)]).SerializeToString()
    return lambda: _call(client, "QueryService", "RegisterMany", request)


def _long_statement(client: Client) -> Callable[[], Step]:
    """Statements of 1,600 comparisons, nearly the longest that are read; a new one each time."""
    client.create_stream("CREATE STREAM terms (a BIGINT, b BIGINT)")
    terms = " OR ".join(f"a = {number}" for number in range(1_600))
    number = iter(range(1_600, 1 << 40))
    return lambda: lambda: client.register(f"SELECT a FROM terms WHERE {terms} OR a = {next(number)}")


def _questions(client: Client) -> Callable[[], Step]:
    """Questions that are asked once, each of another form: some of 250 characters, then one of 1,600 comparisons."""
    client.create_stream("CREATE STREAM questions (a BIGINT, b TEXT)")
    terms = " OR ".join(f"a = {number}" for number in range(1_600))
    number = iter(range(1 << 40))

    def step() -> None:
        for value in (next(number) for _ in range(8)):
            parts = " AND ".join(f"a{'+-*'[(value >> bit) % 3]}{value + bit} <> {bit}" for bit in range(10))
            client.ask(f"SELECT a, b FROM questions WHERE {parts}")
        client.ask(f"SELECT a FROM questions WHERE {terms} OR a = {next(number)}")

    return lambda: step


def _joins(client: Client) -> Callable[[], Step]:
    """Joins of everything with everything: by a key, by a band, counted, sorted, sent, and given up meanwhile."""
    for name in ("one", "other"):
        client.create_stream(f"CREATE STREAM {name} (k BIGINT, n BIGINT)")
        for start in range(0, 200_000, 50_000):
            client.push(name, pa.table({"k": np.zeros(50_000, np.int64), "n": np.arange(start, start + 50_000)}))
    rows, count = "SELECT one.n AS a, other.n AS b", "SELECT count(*) AS c"
    requests = itertools.cycle(
        [
            (f"{count} FROM one, other WHERE one.k = other.k", 30.0),
            (f"{count} FROM one, other WHERE one.n <= other.n", 30.0),
            (f"{rows} FROM one, other WHERE one.k = other.k ORDER BY a + b LIMIT 10", 30.0),
            (f"{rows} FROM one, other WHERE one.k = other.k AND one.n + other.n < 0", 0.2),
            (f"{rows} FROM one, other WHERE one.k = other.k", 0.2),
        ]
    )

    def step() -> None:
        sql, seconds = next(requests)
        client.ask(sql, timeout=seconds)

    return lambda: step


def _empty_parts(client: Client) -> Callable[[], Step]:
    """Parts of no rows, of 100 columns, to one stage."""
    columns = ", ".join(f"c{number} BIGINT" for number in range(100))
    client.create_stream(f"CREATE STREAM parts ({columns})")
    begun = staging.BeginStageRequest(stream="parts", producer="x", number=0).SerializeToString()
    reply = _method(client, "StagingService", "BeginStage")(begun)
    stage = staging.BeginStageResponse.FromString(reply).stage
    empty = _ipc(pa.table({"c0": pa.array([], pa.int64())}))
    add = _method(client, "StagingService", "AddPart")
    number = iter(range(1 << 40))

    def step() -> None:
        add(staging.AddPartRequest(stage=stage, part=str(next(number)), arrow_ipc=empty).SerializeToString())

    return lambda: step


def _churn(client: Client) -> Callable[[], Step]:
    """Queries of 60,000 bytes that come and go."""
    client.create_stream("CREATE STREAM churn (a TEXT)")
    number = iter(range(1 << 40))

    def step() -> None:
        client.unregister(client.register(f"SELECT a FROM churn WHERE a = '{next(number)}{'y' * 60_000}'").id)

    return lambda: step


def _backups(client: Client) -> Callable[[], Step]:
    """Backups of which the first message is read."""
    calls: list[object] = []

    def step() -> None:
        stream = _channel(client).unary_stream("/psoup.v1.BackupService/Backup")
        call = stream(b"", timeout=MOST_SECONDS, metadata=_credential(client))
        calls.append(call)
        next(call)
        if len(calls) > 64:
            time.sleep(0.01)

    return lambda: step


def _small_calls(client: Client) -> Callable[[], Step]:
    """The smallest calls there are, as fast as they come, on connections of their own."""
    request = server.GetServerInfoRequest().SerializeToString()
    return lambda: _call(client, "ServerService", "GetServerInfo", request)


def _call(client: Client, service: str, name: str, request: bytes, timeout: float = 30.0) -> Step:
    method = _method(client, service, name)
    return lambda: method(request, timeout=timeout)


def _nothing(_: Client) -> Callable[[], Step]:
    """No call at all: processor time of the attacker's own."""
    return lambda: lambda: sum(range(10_000))


NOBODY = "nobody"
ATTACKS = {
    NOBODY: Attack(_nothing),
    "growing_text": Attack(_growing_text),
    "amplified_block": Attack(_amplified_block),
    "zeros": Attack(_zeros, threads=4),
    "zeros_that_fit": Attack(_zeros_that_fit, threads=4),
    "half_messages": Attack(_half_messages, threads=4),
    "slow_readers": Attack(_slow_readers, threads=3),
    "stalled_sorts": Attack(_stalled_sorts),
    "pinned_chunks": Attack(_pinned_chunks),
    "matches_many": Attack(_matches_many),
    "many_statements": Attack(_many_statements),
    "long_statement": Attack(_long_statement),
    "questions": Attack(_questions, threads=4),
    "joins": Attack(_joins, threads=4),
    "empty_parts": Attack(_empty_parts, threads=4),
    "churn": Attack(_churn),
    "backups": Attack(_backups),
    "small_calls": Attack(_small_calls, threads=16),
}
"""The attacks that `benchmarks.attacks.neighbour` measures, in its order; the first attacks nobody."""

if __name__ == "__main__":
    sys.exit(main())

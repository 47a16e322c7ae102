"""Row `push.http`: a file of NDJSON on its way into a service of its own process, by curl.

    curl --data-binary @rows.ndjson ──> service reads lines, converts, logs       the clock stops at the reply
    peer: PyArrow reads the file into columns of the same types, then a producer sends them

The peer's rows are all in memory before the producer begins.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.json

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup_client import Client

KEPT = 65_536
SENT_S = 120
"""Seconds in which the service must take a file."""
CREATE = "CREATE STREAM {} (id BIGINT, symbol TEXT, price DOUBLE, at TIMESTAMP) RETENTION {} ROWS"
TYPES = pa.schema(
    {"id": pa.int64(), "symbol": pa.string(), "price": pa.float64(), "at": pa.timestamp("us")},
)
LINE = '{"id":%d,"symbol":"S%04d","price":%d.%02d,"at":"2026-07-01T%02d:%02d:%02dZ"}\n'


def rows(run: Run) -> Iterator[Row]:
    """Rows a second of a file."""
    count, samples = run.of(1_000_000, 500_000, 2_000), run.of(3, 3, 1)
    settings = {"PSOUP_WEB_PORT": "0"}
    with (
        tempfile.TemporaryDirectory() as folder,
        processes.served(Path(folder), durable=False, settings=settings) as service,
        Client(service.address) as client,
    ):
        path = Path(folder) / "rows.ndjson"
        with open(path, "w") as file:
            for n in range(count):
                clock = n // 3_600 % 24, n // 60 % 60, n % 60
                file.write(LINE % (n, n % 5_000, n % 1_000, n % 100, *clock))
        for name in ("sent", "peer"):
            client.create_stream(CREATE.format(name, KEPT))
        place = f"{_page(client)}/api/streams/sent/rows"
        turns = [partial(_send, place, path, count, itertools.count()), partial(_peer, client, path)]
        rounds = [[count / seconds(turn) for turn in turns] for _ in range(samples + 1)]
        last = client.ask(f"SELECT DISTINCT id FROM sent WHERE id >= {count - 1_000} ORDER BY id").rows()
        if last != [(n,) for n in range(count - 1_000, count)]:
            raise AssertionError(f"the last rows differ from the file: {len(last)} of 1,000")
    ours, theirs = (Sample.of(list(values)) for values in zip(*rounds[1:], strict=True))
    note = f"NDJSON of {count:,} rows of 4 columns"
    yield Row("push.http", ours, "tuples/s", "PyArrow, then a producer", theirs, Target(at_least=0.5), note)


def _page(client: Client) -> str:
    """The address of the page's port. The service opens it shortly after its own. Raises TimeoutError."""
    last = time.monotonic() + 20
    while not (address := client.info().web_address):
        if time.monotonic() > last:
            raise TimeoutError("the service has not opened the page's port")
        time.sleep(0.05)
    return address


def _send(place: str, path: Path, count: int, keys: Iterator[int]) -> None:
    command = ["curl", "-s", "--data-binary", f"@{path}", "-H", f"Idempotency-Key: {next(keys)}", place]
    if shutil.which("curl") is None:
        sent = Request(place, path.read_bytes(), {"Idempotency-Key": command[-2].rpartition(" ")[2]})
        reply = urlopen(sent, timeout=SENT_S).read()
    else:
        reply = subprocess.run(command, capture_output=True, check=True, timeout=SENT_S).stdout
    if b'"accepted":"%d"' % count not in reply:
        raise AssertionError(f"not all of {count} rows were taken: {reply[:200]!r}")


def _peer(client: Client, path: Path) -> None:
    table = pyarrow.json.read_json(path, parse_options=pyarrow.json.ParseOptions(explicit_schema=TYPES))
    with client.producer("peer") as producer:
        producer.push(table)

"""Row `push.tls`: long batches over TLS, beside the same into the same service in plain text, in turns."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pyarrow as pa
import trustme

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Target, in_turns
from benchmarks.tool.processes import free_port
from benchmarks.tool.run import Run
from psoup_client import Client, ClientOptions

CREATE = "CREATE STREAM secured ({}) RETENTION 1000 ROWS"
COLUMNS = 8
ROWS = 65_536


def rows(run: Run) -> Iterator[Row]:
    """Bulk over TLS."""
    yield from run.part(lambda: _pushed(run), "push.tls")


def _pushed(run: Run) -> Iterator[Row]:
    batches, samples = run.of((32, 7), (16, 3), (1, 1))
    columns = {f"c{number}": np.arange(ROWS, dtype=np.int64) for number in range(COLUMNS)}
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as name:
        folder, secured = Path(name), f"https://127.0.0.1:{free_port()}"
        authority = trustme.CA()
        settings = _files(folder, authority)
        with processes.served(folder, durable=False, settings=settings, also=secured) as service:
            trusting = ClientOptions(credentials=grpc.ssl_channel_credentials(authority.cert_pem.bytes()))
            with Client(service.address) as plain, Client(secured, options=trusting) as client:
                plain.create_stream(CREATE.format(", ".join(f"{column} BIGINT" for column in columns)))
                table = pa.table(columns)
                turns = [partial(_push, which, table, batches) for which in (plain, client)]
                theirs, ours = in_turns(turns, [batches * ROWS] * 2, samples)
    note = "push.tls: batches of 4 MiB by a producer; client and service share the cores"
    yield Row("push.tls", ours.wall, "tuples/s", "plain text", theirs.wall, Target(at_least=0.6), note)


def _files(folder: Path, authority: trustme.CA) -> dict[str, str]:
    """The settings that name a certificate of this machine, and its key, in files that are written here."""
    made = authority.issue_cert("127.0.0.1")
    certificate, key = folder / "service.pem", folder / "service.key"
    certificate.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
    made.private_key_pem.write_to_path(str(key))
    return {"PSOUP_TLS_CERT": str(certificate), "PSOUP_TLS_KEY": str(key)}


def _push(client: Client, table: pa.Table, batches: int) -> None:
    with client.producer("secured") as producer:
        for _ in range(batches):
            producer.push(table)
        producer.flush()

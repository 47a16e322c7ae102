"""Row `push.csv`: a file of text on its way into a service of its own process.

    psoup push ── reads, finds lines, converts, sends ──> service          the clock stops when all is acknowledged
    peer: PyArrow reads the file into columns of the same types, then a producer sends them

The peer knows the delimiter and the form of the times, and reads on all cores. Its rows are all in memory before the
producer begins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup_cli.files.options import FileOptions
from psoup_cli.producer_push import push_files
from psoup_cli.row_upload import PushedFiles
from psoup_client import Client

KEPT = 65_536
TYPES = {
    "id": pa.int64(),
    "symbol": pa.string(),
    "price": pa.decimal128(9, 2),
    "size": pa.int64(),
    "at": pa.timestamp("us"),
}
CREATE = "CREATE STREAM {} (id BIGINT, symbol TEXT, price DECIMAL(9,2), size BIGINT, at TIMESTAMP) RETENTION {} ROWS"
PART = 1_000_000


def rows(run: Run) -> Iterator[Row]:
    """Rows a second of a file."""
    count, samples = run.of(10_000_000, 2_000_000, 2_000), run.of(3, 3, 1)
    with tempfile.TemporaryDirectory() as folder, processes.service() as address, Client(address) as client:
        path = Path(folder) / "rows.csv"
        last = _write(path, count)
        for name in ("pushed", "peer"):
            client.create_stream(CREATE.format(name, KEPT))
        turns = [partial(_push, client, path, count), partial(_peer, client, path)]
        rounds = [[count / seconds(turn) for turn in turns] for _ in range(samples + 1)]
        table = client.ask(f"SELECT * FROM pushed WHERE id >= {count - last.num_rows}").to_arrow()
        if not table.cast(last.schema).slice(table.num_rows - last.num_rows).equals(last):
            raise AssertionError("the last rows are not those of the file")
    ours, theirs = (Sample.of(list(values)) for values in zip(*rounds[1:], strict=True))
    note = f"a CSV of {count:,} rows of 5 columns"
    yield Row("push.csv", ours, "tuples/s", "PyArrow, then a producer", theirs, Target(at_least=0.5), note)


def _write(path: Path, count: int) -> pa.Table:
    """Write the file; returns the last rows of it."""
    random = np.random.default_rng(1)
    symbols = pa.array([f"S{n:04d}" for n in range(5_000)])
    options, part = pyarrow.csv.WriteOptions(quoting_style="none"), pa.table({})
    with open(path, "wb") as file:
        for first in range(0, count, PART):
            size = min(PART, count - first)
            ids = np.arange(first, first + size)
            part = pa.table(
                {
                    "id": ids,
                    "symbol": symbols.take(pa.array(random.integers(0, len(symbols), size))),
                    "price": pa.array(random.integers(0, 100_000, size)).cast(pa.decimal128(20, 0)).cast(pa.string()),
                    "size": random.integers(1, 10_000, size),
                    "at": pa.array(1_782_900_000_000_000 + 1_000 * ids).cast(pa.timestamp("us")),
                }
            )
            options = pyarrow.csv.WriteOptions(quoting_style="none", include_header=not first)
            pyarrow.csv.write_csv(part, file, options)
    last = part.slice(max(0, len(part) - 1_000))
    return last.set_column(2, "price", last["price"].cast(pa.decimal128(9, 2)))


def _push(client: Client, path: Path, count: int) -> None:
    result = push_files(PushedFiles([(str(path), "csv")], FileOptions()), client, "pushed")
    if result.accepted != count:
        raise AssertionError(f"{result.accepted} of {count} rows were taken")


def _peer(client: Client, path: Path) -> None:
    options = pyarrow.csv.ConvertOptions(column_types=TYPES)
    table = pyarrow.csv.read_csv(path, convert_options=options)
    with client.producer("peer") as producer:
        producer.push(table)

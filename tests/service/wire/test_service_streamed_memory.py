"""The service's memory for streamed answers: little, however long they are and whether they are read."""

import gc
import subprocess
import sys
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from psoup.local import LocalPSoup
from psoup.work.gc_pause import without_collector
from psoup_client import Client
from psoup_proto.v1 import queries_pb2
from psoup_service.sync.reply_parts import bytes_in, first_parts, rows_in
from psoup_service.wire.answers import Pieces, page
from psoup_service.wire.limits import Limits
from psoup_service.wire.written import Written

PUSHED = 250_000


def _soup() -> tuple[LocalPSoup, int]:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT NOT NULL, b BIGINT NOT NULL)")
    query = soup.register("SELECT a, b, a AS c, b AS d FROM s WHERE a % 5 <> 0")
    for start in range(0, 4 * PUSHED, PUSHED):
        values = np.arange(start, start + PUSHED)
        soup.push("s", pa.table({"a": values, "b": values}))
    soup.maintain()
    return soup, query


def test_an_answer_that_waits_for_its_reader_holds_no_row_that_it_can_look_up_again() -> None:
    soup, query = _soup()
    gc.collect()
    tracemalloc.start()
    try:
        pieces = Pieces(soup.invoke(query).lean(), queries_pb2.InvokeStreamResponse, Limits().chunk_bytes)
        for _ in range(3):
            assert pieces.next() is not None
        gc.collect()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak > 6_000_000, "800,000 offsets were found at first"
    assert held < 1_500_000, held


def test_an_answer_that_its_reader_leaves_goes_without_a_collection() -> None:
    soup, query = _soup()
    with without_collector():
        pieces = Pieces(soup.invoke(query).lean(), queries_pb2.InvokeStreamResponse, Limits().chunk_bytes)
        assert pieces.next() is not None and pieces.next() is not None
        left = weakref.ref(pieces)
        del pieces
        assert left() is None


def test_pieces_found_again_are_the_answer() -> None:
    soup, query = _soup()
    answer = soup.invoke(query)
    pieces = Pieces(answer.lean(), queries_pb2.InvokeStreamResponse, Limits().chunk_bytes)
    messages = [
        queries_pb2.InvokeStreamResponse.FromString(piece.raw) if isinstance(piece, Written) else piece
        for _, piece in iter(pieces.next, None)
    ]
    assert max(len(message.arrow_ipc) for message in messages) < 2.2 * Limits().chunk_bytes
    with pa.ipc.open_stream(b"".join(message.arrow_ipc for message in messages)) as reader:
        assert reader.read_all().equals(answer.to_table())


def _resident(pid: int) -> float:
    """MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@pytest.mark.slow
def test_ten_million_rows_stream_in_little_memory_also_to_clients_that_stall() -> None:
    script = """
import asyncio, sys
from psoup_service.service import running_service
from psoup_service.process.settings import Settings

async def main():
    async with running_service(Settings(port=0, metrics_port=0, data_dir=":memory:", memory_mib=4096)) as service:
        print(service.address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with Client(address, timeout=300) as client:
            client.create_stream("CREATE STREAM s (a BIGINT NOT NULL, b BIGINT NOT NULL)")
            query = client.register("SELECT a, b FROM s WHERE a >= 0")
            values = np.arange(1_000_000)
            for _ in range(10):
                last = client.push("s", pa.table({"a": values, "b": values}))
            client.wait_for(last.sequence)
            with query.stream() as answer:
                before = most = _resident(process.pid)
                count = 0
                for batch in answer:
                    count += batch.num_rows
                    most = max(most, _resident(process.pid))
            assert count == 10_000_000
            assert most - before < 64, f"{most - before:.0f} MiB more for an answer of 160 MB"
            before = _resident(process.pid)
            stalled = [query.stream() for _ in range(16)]
            grown = (_resident(process.pid) - before) / len(stalled)
            assert grown < 8, f"{grown:.1f} MiB for each client that does not read"
            for stream in stalled:
                stream.close()
        process.communicate()


def _long_texts(rows: int, size: int) -> tuple[LocalPSoup, int]:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT NOT NULL, t TEXT)")
    query = soup.register("SELECT a, t FROM s")
    soup.push("s", pa.table({"a": range(rows), "t": ["x" * size] * rows}))
    return soup, query


def test_a_page_of_long_texts_gathers_the_rows_that_it_shows() -> None:
    """A page of 10,000 rows at most: its bytes end it after eight."""
    soup, query = _long_texts(300, 100_000)
    answer, shown, more = soup.invoke(query), 0, True
    tracemalloc.start()
    try:
        batch, more = page(answer, 40, 10_000, 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert batch is not None
    shown = batch.num_rows
    assert (batch.column("a").to_pylist(), more) == (list(range(40, 40 + shown)), True)
    assert 4 <= shown <= 10
    assert peak < 6_000_000, f"{peak:,} bytes; all rows have 30 MB"
    last, more = page(answer, 298, 10_000, 1_000_000)
    assert (last is not None and last.num_rows, more) == (2, False)


def test_rows_of_a_copy_are_measured_before_they_are_gathered() -> None:
    soup, query = _long_texts(300, 100_000)
    tracemalloc.start()
    try:
        fit = first_parts(soup.invoke(query).messages(max_bytes=1_000_000), 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not fit.all
    assert 1 <= fit.rows <= 9
    assert sum(map(bytes_in, fit.parts)) <= 1_000_000
    assert peak < 1_000_000, f"{peak:,} bytes"
    every = first_parts(soup.invoke(query).messages(max_bytes=1_000_000), 40_000_000)
    assert (every.all, sum(map(rows_in, every.parts))) == (True, 300)
    one = first_parts(soup.invoke(query).messages(max_bytes=1), 1)
    assert (one.all, one.rows) == (False, 1), "a row by itself goes, however large"

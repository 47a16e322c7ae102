"""Job directories that are not taken in: what does not fit the stream, and what is not as the job wrote it."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup.errors import FailedPrecondition, InvalidInput, NotFound, OutOfRange
from psoup.events.commands import Attach, Extent
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.values.columns import Batch
from psoup.values.from_arrow import columns_from_arrow
from psoup_storage.durable.chunks import foreign
from psoup_storage.formats.facts import MANIFEST
from psoup_storage.formats.history import Manifest, write_chunk, write_manifest
from psoup_testing.engines import past
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.past import EVENTS, job, rows
from psoup_testing.engines.restarts import RestartingPSoup

soup = past.soup


@pytest.mark.parametrize(
    ("sql", "first", "stop", "message"),
    [
        (EVENTS, 350, 402, "must end at or before 1970-01-01 00:06:40Z, the time of the first tuple there"),
        (EVENTS + " RETENTION 100 SECONDS", 300, 400, "keeps nothing before 1970-01-01 00:05:19Z"),
        (EVENTS + " RETENTION 60 ROWS", 350, 400, "keeps 60 tuples, so there is room for 40 of history"),
    ],
    ids=["overlap", "older than the retention", "more than the retention"],
)
def test_what_does_not_fit_is_refused_with_the_bound(
    soup: RestartingPSoup, sql: str, first: int, stop: int, message: str
) -> None:
    soup.execute(sql)
    soup.push("s", rows(400, 420))
    with pytest.raises(OutOfRange, match=message):
        attach(soup, "s", "job", job(soup, "one", first, stop))
    assert not os.listdir(soup.path / "chunks")
    bound = attach(soup, "s", "job", job(soup, "two", 380, 401))
    assert bound.first_time == 380 * SECOND


def test_a_bound_is_known_before_anything_is_written(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    asked = soup.submit(Attach("s", "job"))
    assert (asked.first_time, asked.duplicate) == (None, False)  # type: ignore[attr-defined]
    soup.push("s", rows(400, 420))
    with pytest.raises(OutOfRange, match="leave out what is later"):
        soup.submit(Attach("s", "job", Extent(1, 10, 0, 401 * SECOND)))
    asked = soup.submit(Attach("s", "job", Extent(1, 10, 0, 400 * SECOND)))
    assert (asked.first_time, asked.duplicate) == (400 * SECOND, False)  # type: ignore[attr-defined]
    with pytest.raises(NotFound, match="made anew"):
        soup.submit(Attach("s", "job", stream_id=7))


def test_without_a_disk_history_is_refused() -> None:
    soup = LocalPSoup()
    soup.execute(EVENTS)
    with pytest.raises(FailedPrecondition, match="nothing is kept there by this service"):
        soup.submit(Attach("s", "job"))


def rewrite(folder: Path, change: Callable[[Any], object]) -> None:
    """Have the manifest say something else, under a checksum that is right."""
    manifest = folder / MANIFEST
    facts = json.loads(manifest.read_text(encoding="utf-8").splitlines()[1])
    change(facts)
    text = json.dumps(facts)
    manifest.write_text(json.dumps({"format": 1, "crc": zlib.crc32(text.encode())}) + f"\n{text}\n", encoding="utf-8")


def exchange(file: Path, old: str, new: str) -> None:
    """Have a text file say something else once, and its checksum what it said before."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def flip(file: Path) -> None:
    """Another bit in what a chunk holds."""
    content = bytearray(file.read_bytes())
    content[70] ^= 1
    file.write_bytes(content)


CHUNK = "00050.parquet"
SPOILS: dict[str, tuple[Callable[[Path], object], str]] = {
    "manifest missing": (lambda job: (job / MANIFEST).unlink(), "the job that wrote it has not ended"),
    "manifest bit": (
        lambda job: exchange(job / MANIFEST, "50", "51"),
        "has changed since it was written|cannot be read",
    ),
    "chunk missing": (lambda job: (job / CHUNK).unlink(), "is missing"),
    "chunk bit": (lambda job: flip(job / CHUNK), "it has changed since it was written"),
    "format": (lambda job: exchange(job / MANIFEST, '"format": 1', '"format": 7'), "it has format 7"),
    "order": (lambda job: rewrite(job, lambda said: said["chunks"].reverse()), "not in the order of their times"),
    "path": (
        lambda job: rewrite(job, lambda said: said["chunks"][1].__setitem__(0, f"../one/{CHUNK}")),
        "is not the name of a file in that directory",
    ),
    "empty": (lambda job: rewrite(job, lambda said: said["chunks"].clear()), "there is no chunk in it"),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_directory_that_is_not_whole_is_refused(soup: RestartingPSoup, spoil: str) -> None:
    soup.execute(EVENTS)
    folder = job(soup, "one", 100, 300)
    act, message = SPOILS[spoil]
    act(folder)
    refuses(soup, folder, message)


def test_a_directory_for_other_columns_is_refused(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    folder = job(soup, "one", 100, 300)
    soup.execute("DROP STREAM s")
    soup.execute(EVENTS.replace("x BIGINT", "y BIGINT"))
    refuses(soup, folder, "its column x is int64, and the stream has y BIGINT there")


def refuses(soup: RestartingPSoup, folder: Path, message: str) -> None:
    """What is in the folder is refused for that reason, and nothing of it stays."""
    with pytest.raises(InvalidInput, match=message) as refused:
        attach(soup, "s", "job", folder)
    assert refused.value.reason == "BAD_HISTORY"
    assert not os.listdir(soup.path / "chunks")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (2**63 - 1, "row 1: the TIMESTAMP in column 'u' is infinity, which is not a time here"),
        (1 - 2**63, "row 1: the TIMESTAMP in column 'u' is -infinity, which is not a time here"),
    ],
)
def test_infinite_times_are_refused(soup: RestartingPSoup, number: int, message: str) -> None:
    soup.execute("CREATE STREAM s (t TIMESTAMP, u TIMESTAMP) TIMESTAMP BY t")
    times = pa.array([SECOND, 2 * SECOND], pa.timestamp("us", "UTC"))
    table = pa.table({"t": times, "u": pa.array([0, number], pa.timestamp("us", "UTC"))})
    folder, spec = soup.path.parent / "one", soup.engine.snapshot().stream("s", "default").spec
    folder.mkdir()
    batch = Batch(columns_from_arrow(spec.schema, table), np.array([1, 2]) * SECOND)
    write_manifest(folder, Manifest("s", (write_chunk(folder, "00000", spec, batch),), ""))
    refuses(soup, folder, message)


def test_times_that_descend_by_more_than_64_bits_are_refused(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    times = [0, 9 * 10**18, -9 * 10**18, 1]
    folder, spec = soup.path.parent / "one", soup.engine.snapshot().stream("s", "default").spec
    table = rows(0, 4).set_column(0, "t", pa.array(times, pa.timestamp("us", "UTC")))
    write(folder, spec, table, times, ())
    refuses(soup, folder, "its tuples are not in the order of their times")


def texts(soup: RestartingPSoup, *values: str) -> Path:
    """A job's directory with one chunk of these texts in stream s."""
    soup.execute("CREATE STREAM s (t TIMESTAMP, x TEXT) TIMESTAMP BY t")
    folder, spec = soup.path.parent / "one", soup.engine.snapshot().stream("s", "default").spec
    folder.mkdir()
    times = [(place + 1) * SECOND for place in range(len(values))]
    table = pa.table({"t": pa.array(times, pa.timestamp("us", "UTC")), "x": values})
    batch = Batch(columns_from_arrow(spec.schema, table), np.array(times))
    write_manifest(folder, Manifest("s", (write_chunk(folder, "00000", spec, batch),), ""))
    return folder


def test_a_text_that_no_push_may_have_is_refused(soup: RestartingPSoup) -> None:
    refuses(soup, texts(soup, "", "x" * (1024 * 1024 + 1)), "row 1: the text in column 'x' has 1,048,577 bytes")


@pytest.mark.parametrize("lies", [False, True], ids=["honest", "lying"])
def test_bytes_are_counted_in_the_pages_and_not_in_the_footer(
    soup: RestartingPSoup, lies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "MOST_BYTES", 40_000)
    folder = texts(soup, "x" * 50_000)
    if lies:
        file = folder / "00000.parquet"
        content = file.read_bytes()
        meta = pq.read_metadata(file)
        sizes = {meta.row_group(0).total_byte_size, meta.row_group(0).column(1).total_uncompressed_size}
        for size in sizes:
            content = content.replace(varint(2 * size), varint(2 * 100, like=2 * size))
        file.write_bytes(content)
        said = pq.read_metadata(file).row_group(0)
        assert (said.total_byte_size, said.column(1).total_uncompressed_size) == (100, 100)
        rewrite(folder, lambda facts: facts["chunks"][0].__setitem__(3, zlib.crc32(content)))
    refuses(soup, folder, "more than 40,000 bytes once decompressed; write chunks of fewer rows")


def varint(number: int, like: int = 0) -> bytes:
    """A number as Thrift writes it, in as many bytes as `like` takes at least."""
    length = max(1, -(-max(number, like).bit_length() // 7))
    return bytes((number >> 7 * place & 127) | (128 if place < length - 1 else 0) for place in range(length))


def test_pages_that_are_not_where_the_footer_says_are_refused(soup: RestartingPSoup) -> None:
    folder = texts(soup, "hello")
    file = folder / "00000.parquet"
    content = bytearray(file.read_bytes())
    content[pq.read_metadata(file).row_group(0).column(1).dictionary_page_offset] = 0x7F
    file.write_bytes(content)
    rewrite(folder, lambda facts: facts["chunks"][0].__setitem__(3, zlib.crc32(content)))
    refuses(soup, folder, "the pages of its column x are not where its footer says")

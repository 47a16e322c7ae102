"""Hostile job directories: files that they cannot reach, and facts that are not trusted."""

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

from psoup.errors import InvalidInput
from psoup.matching.outside import Beforehand
from psoup.model import SECOND
from psoup_storage.formats.chunk_file import GROUP_ROWS
from psoup_storage.formats.facts import MANIFEST, read_facts, write_facts
from psoup_storage.formats.history import read_manifest
from psoup_storage.formats.job_folder import MOST_FILE_BYTES, JobFolder, check_name, is_plain
from psoup_storage.formats.matches import read_index, read_matches
from psoup_testing.engines import past
from psoup_testing.engines.attachments import attach, take, write, write_job
from psoup_testing.engines.batches import seconds
from psoup_testing.engines.past import EVENTS, rows, values
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.sweeps import swept

empty = past.soup
QUERY = "SELECT x FROM s WHERE x >= 150 AND x < 160 BEGIN (START)"
Spoil = Callable[[list[Any], Path], None]


@pytest.fixture
def soup(empty: RestartingPSoup) -> RestartingPSoup:
    empty.execute(EVENTS)
    return empty


def job(soup: RestartingPSoup, queries: list[tuple[int, str]] | None = None) -> Path:
    """A job directory of 200 rows in four chunks."""
    folder, spec = soup.path.parent / "job", soup.engine.snapshot().by_id[1].spec
    known = Beforehand(spec, queries) if queries else None
    write(folder, spec, rows(100, 300), seconds(100, 300), range(0, 200, 50), known, soup.store.incarnation)
    return folder


def refused(soup: RestartingPSoup, folder: Path, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        attach(soup, "s", "job", folder)
    assert caught.value.reason == "BAD_HISTORY"
    assert str(soup.path.parent) not in caught.value.message, "where things are on the disk is nobody's business"
    assert not os.listdir(soup.path / "chunks")


@pytest.mark.seeded("F16: the name of a directory leads elsewhere")
@pytest.mark.parametrize(
    "name", ["..", ".", "", "../..", "a/b", "/etc", "a\0b", ".hidden", "x" * 300, "a b", "ä", "a\n"]
)
def test_only_plain_names_are_names(name: str, tmp_path: Path) -> None:
    assert not is_plain(name)
    with pytest.raises(InvalidInput, match="is not the name of a directory in the folder that BeginAttach names"):
        check_name(name, "BeginAttach")
    with (
        JobFolder(tmp_path) as folder,
        pytest.raises(InvalidInput, match="is not the name of a file in that directory"),
    ):
        folder.read(name)


def test_plain_names() -> None:
    for name in ("history-7f3a0b1c-c0ffee42", "00000.00001-65536-7.parquet.matches-1a2b", "_x", "join-a_b.c"):
        check_name(name, "BeginAttach")


def test_what_is_no_file_is_not_opened(soup: RestartingPSoup) -> None:
    folder = job(soup)
    chunk = folder / "00050.parquet"
    kept = chunk.rename(folder / "kept")
    for make, message in (
        (lambda: chunk.symlink_to(kept), "it is a link"),
        (lambda: os.mkfifo(chunk), "it is no file"),
        (chunk.mkdir, "it is no file"),
    ):
        make()
        refused(soup, folder, f"00050.parquet: {message}")
        (chunk.rmdir if chunk.is_dir() and not chunk.is_symlink() else chunk.unlink)()
    manifest = (folder / MANIFEST).rename(folder / "elsewhere")
    (folder / MANIFEST).symlink_to(manifest)
    refused(soup, folder, "manifest.json: it is a link")


def test_sizes_are_looked_at_before_bytes(soup: RestartingPSoup) -> None:
    folder = job(soup)
    chunk = folder / "00050.parquet"
    with open(chunk, "r+b") as file:
        file.truncate(MOST_FILE_BYTES + 1)
    refused(soup, folder, "it has 1,073,741,825 bytes; the limit is 1,073,741,824")
    with open(chunk, "r+b") as file:
        file.truncate(10_000)
    refused(soup, folder, "it has changed since it was written: 10,000 bytes")
    with open(folder / MANIFEST, "r+b") as file:
        file.truncate(2**40)
    refused(soup, folder, "it has 1,099,511,627,776 bytes")


def test_a_link_to_a_directory_is_followed_where_only_the_services_user_can_make_one(soup: RestartingPSoup) -> None:
    folder, incoming = job(soup), soup.store.incoming()
    link = incoming / "linked"
    link.symlink_to(folder)
    incoming.chmod(0o770)
    refused(soup, link, "it is a link, which another user may have made")
    incoming.chmod(0o700)
    assert attach(soup, "s", "job", link).sequence


@pytest.mark.seeded("F17: files of a job are believed, and may change")
def test_what_others_may_change_is_copied(soup: RestartingPSoup) -> None:
    folder, query = job(soup), soup.register(QUERY)
    folder.chmod(0o777)
    attach(soup, "s", "job", folder)
    inodes = {path.stat().st_ino for path in (soup.path / "chunks").iterdir()}
    assert not inodes & {path.stat().st_ino for path in folder.iterdir()}
    for path in folder.iterdir():
        path.write_bytes(b"something else")
    assert values(soup, query) == list(range(150, 160))


def test_a_file_that_others_may_change_is_copied_out_of_a_directory_of_ours(soup: RestartingPSoup) -> None:
    folder = job(soup)
    (folder / "00050.parquet").chmod(0o666)
    attach(soup, "s", "job", folder)
    inodes = {path.stat().st_ino for path in (soup.path / "chunks").iterdir()}
    shared = {path.name for path in folder.iterdir() if path.stat().st_ino in inodes}
    assert shared == {"00000.parquet", "00100.parquet", "00150.parquet"}


def rewritten(folder: Path, change: Callable[[list[Any]], None]) -> None:
    """A manifest that says something else of its second chunk, under a checksum that is right."""
    facts = read_facts(folder)
    change(facts["chunks"][1])
    write_facts(folder, facts)


@pytest.mark.seeded("F17: files of a job are believed, and may change")
def test_zones_are_found_anew(soup: RestartingPSoup) -> None:
    """One that says that no such value is there would leave the chunk out of all answers."""
    folder, query = job(soup), soup.register(QUERY)

    def lie(chunk: list[Any]) -> None:
        zones = json.loads(chunk[9])
        zones["1"] = [0, 1, False]
        chunk[6], chunk[9] = 1, json.dumps(zones)

    rewritten(folder, lie)
    attach(soup, "s", "job", folder)
    for _ in range(2):
        assert values(soup, query) == list(range(150, 160))
        soup.restart()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    swept(
        [
            (1, 49, "it has 50 rows in groups of 50, not 49"),
            (1, 65_537, "it has 65,537 rows, and 1 to 65,536 are a chunk"),
            (4, 149 * SECOND, "its first and its last time are not those of the manifest"),
            (5, 200 * SECOND, "its first and its last time are not those of the manifest"),
            (1, "50", "the facts of a chunk have other types"),
            (4, 2**63, "the numbers of a chunk cannot be"),
            (2, -1, "the numbers of a chunk cannot be"),
            (0, 7, "the facts of a chunk have other types"),
            (9, None, "the facts of a chunk have other types"),
            (3, True, "the facts of a chunk have other types"),
        ],
        fast=4,
    ),
)
def test_what_the_manifest_says_must_be_so(soup: RestartingPSoup, place: int, value: Any, message: str) -> None:
    folder = job(soup)
    rewritten(folder, lambda chunk: chunk.__setitem__(place, value))
    refused(soup, folder, message)


def replaced(folder: Path, table: pa.Table, count: int, **options: Any) -> None:
    """The second chunk is another file, which the manifest describes as having `count` rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", **options)
    content = sink.getvalue().to_pybytes()
    (folder / "00050.parquet").write_bytes(content)
    rewritten(folder, lambda chunk: chunk.__setitem__(slice(1, 4), [count, len(content), zlib.crc32(content)]))


def test_more_rows_than_the_manifest_says_are_not_read(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, most = job(soup), 4 * 65_536
    zeros = pa.table({"t": np.zeros(most, "datetime64[us]"), "x": np.zeros(most, np.int64)})
    replaced(folder, zeros, 50)

    read = pq.ParquetFile.read

    def watched(file: pq.ParquetFile, **how: Any) -> pa.Table:
        assert file.metadata.num_rows == 50, "columns were read"
        return read(file, **how)

    monkeypatch.setattr(pq.ParquetFile, "read", watched)
    refused(soup, folder, "it has 262,144 rows in groups of 262,144, not 50")


def test_texts_that_are_larger_than_their_file_are_not_written_out(soup: RestartingPSoup) -> None:
    """One megabyte in the dictionary, 65,536 rows: 64 GiB, in 200 kB."""
    folder, count = job(soup), 65_536
    text = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), ["x" * 2**20])
    times = pa.array(np.full(count, 150 * SECOND)).view(pa.timestamp("us", "UTC"))
    table = pa.table({"t": times, "x": np.zeros(count, np.int64), "w": text})
    replaced(folder, table, count, row_group_size=GROUP_ROWS, store_schema=False)
    refused(soup, folder, "its texts have 68,719,476,736 bytes")


def test_a_tuple_has_a_time(soup: RestartingPSoup) -> None:
    folder = job(soup)
    replaced(folder, pa.table({"t": pa.nulls(50, pa.timestamp("us", "UTC")), "x": range(50), "w": ["a"] * 50}), 50)
    refused(soup, folder, "not in the order of their times|has NULL")


def test_matches_are_of_queries_that_there_are(soup: RestartingPSoup) -> None:
    """One that comes later would be answered by what the job has said of it."""
    query = soup.register(QUERY)
    folder = job(soup, [(query, QUERY), (query + 1, QUERY.replace("150", "151"))])
    spec = soup.engine.snapshot().by_id[1].spec
    with pytest.raises(InvalidInput, match="is of queries that are not known"):
        soup.store.adopt(folder, "job", 1, spec, soup.admission.next_query)
    assert not os.listdir(soup.path / "chunks")
    soup.register(QUERY)
    soup.store.adopt(folder, "job", 1, spec, soup.admission.next_query)
    soup.store.disown(1, "job")


@pytest.mark.parametrize("count", [2, 10], ids=["a list", "a bitmap"])
def test_matches_beyond_a_chunk_are_not_used(soup: RestartingPSoup, count: int) -> None:
    text = QUERY.replace("160", str(150 + count))
    query = soup.register(text)
    folder = job(soup, [(query, text)])
    beside = next(folder.glob("00050.parquet.matches*"))
    crc = read_manifest(folder).chunks[1].crc
    index = read_index(beside, crc, 50)
    found = read_matches(beside, index, query)
    assert found is not None
    assert found.tolist() == list(range(count))
    content = bytearray(beside.read_bytes())
    content[index.base + 2 :] = np.arange(65_527, 65_536).astype("<u2").tobytes()[: len(content) - index.base - 2]
    crcs = index.base - 8 * len(index.ids)  # the last of the index, as nothing has failed
    content[crcs : crcs + 8] = np.int64(zlib.crc32(content[index.base :])).tobytes()
    content[8:16] = np.int64(zlib.crc32(content[56 : index.base])).tobytes()
    beside.write_bytes(content)
    assert read_matches(beside, read_index(beside, crc, 50), query) is None
    attach(soup, "s", "job", folder)
    assert values(soup, query) == list(range(150, 150 + count))


@pytest.mark.parametrize("sizes", [(2**60, 0, 0), (0, 2**60, 0), (0, 0, 2**60), (-1, 0, 0)])
def test_an_index_is_not_larger_than_its_file(tmp_path: Path, sizes: tuple[int, int, int]) -> None:
    path = tmp_path / "x.matches"
    path.write_bytes(np.array([0x31686374614D5350, 0, 7, 50, *sizes], "<i8").tobytes())
    assert not len(read_index(path, 7, 50).ranges)


@pytest.mark.parametrize("size", [0, 1, 8, 13, 55])
def test_an_index_that_was_cut_off_is_none(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.matches"
    path.write_bytes(np.array([0x31686374614D5350, 0, 7, 50, 0, 0, 0], "<i8").tobytes()[:size])
    assert not len(read_index(path, 7, 50).ranges)


@pytest.mark.parametrize(
    "ranges", swept([[[1, 2**62]], [[5, 3]], [[3, 5], [4, 6]], [[-4, 1]], [[1, 2], [9, 10]]], fast=2)
)
def test_covers_are_of_queries_that_there_are(soup: RestartingPSoup, tmp_path: Path, ranges: list[list[int]]) -> None:
    attach(soup, "s", "job", job(soup))
    query = soup.register(QUERY)
    assert write_job(soup, tmp_path / "cover", [query]) == 4
    facts = read_facts(tmp_path / "cover")
    write_facts(tmp_path / "cover", {**facts, "queries": ranges})
    with pytest.raises(InvalidInput, match="it is of queries that are not known"):
        take(soup, tmp_path / "cover", "s")
    write_facts(tmp_path / "cover", {**facts, "covered": facts["covered"] * 2})
    assert take(soup, tmp_path / "cover", "s").chunks == 4, "each once"


@pytest.mark.parametrize("tenant", ["..", "../elsewhere", "/tmp", "", ".x", "a/b", "a\0"])
def test_no_tenant_has_a_folder_elsewhere(soup: RestartingPSoup, tenant: str) -> None:
    with pytest.raises(InvalidInput, match="is not the name of a tenant's folder"):
        soup.store.incoming(tenant)

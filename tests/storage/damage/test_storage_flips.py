"""T5: bits that flip in database, write-ahead log and chunks: detected or harmless, never a silent wrong answer."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pytest

from psoup.errors import Internal, PSoupError
from psoup_storage import DurableStore
from psoup_storage.durable.sqlite.database import PAGE_BYTES
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.format_fixture import END, Soup, ask, leave
from psoup_testing.suite.budget import SCALE, SEED
from psoup_testing.suite.sweeps import swept

FLIPS = max(20, round(60 * SCALE))
FRAME = 24 + PAGE_BYTES
REASONS = {"DATA_DAMAGED", "STORAGE_FAILED", "UNKNOWN_FORMAT"}


def flip(path: Path, place: int) -> None:
    """Turn the bit at `place`, counted over the whole file."""
    content = bytearray(path.read_bytes())
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)


def open_and_ask(path: Path) -> list[Any]:
    soup = Soup(path, END)
    try:
        return ask(soup)
    finally:
        soup.store.close()


@pytest.mark.parametrize("flips", swept([6, FLIPS], fast=1))
def test_a_flipped_bit_is_detected_or_harmless(killed_directory: Path, tmp_path: Path, flips: int) -> None:
    chance, expected = random.Random(SEED), json.loads((killed_directory / "answers.json").read_text(encoding="utf-8"))
    found = {"detected": 0, "harmless": 0}
    files = sorted(
        path.relative_to(killed_directory / "data") for path in (killed_directory / "data").rglob("*") if path.is_file()
    )
    weights = [1 if path.suffix == ".parquet" else 4 for path in files]
    for number in range(flips):
        path = shutil.copytree(killed_directory / "data", tmp_path / "flipped")
        [file] = chance.choices(files, weights)
        place = chance.randrange(8 * (path / file).stat().st_size)
        flip(path / file, place)
        try:
            said = open_and_ask(path)
        except PSoupError as problem:
            assert problem.reason in REASONS, f"flip {number}, bit {place} of {file}: {problem!r}"
            found["detected"] += 1
        else:
            refused = [one == "Internal" for one in said]  # an archived chunk is read when it is asked for
            same = [one == known or bad for one, known, bad in zip(said, expected, refused, strict=True)]
            assert all(same), f"flip {number}, bit {place} of {file}: a silent wrong answer"
            found["detected" if any(refused) else "harmless"] += 1
        shutil.rmtree(path)
    assert min(found.values()) > flips // 10, found


# The write-ahead log: SQLite ends it at the first frame that is not whole


def frames(path: Path) -> tuple[int, int]:
    """How many frames of the log are valid, and their size."""
    connection = apsw.Connection(str(path / "psoup.db"))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.pragma("locking_mode", "EXCLUSIVE")
    connection.pragma("user_version")
    count, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    connection.close()
    return count, 24 + 4_096


def before_the_sync(source: Path, target: Path) -> Path:
    """A copy from before the last commit was on the disk: nothing says yet that it is."""
    return Path(shutil.copytree(source, target, ignore=shutil.ignore_patterns("note-*")))


def test_no_flip_in_the_log_hides_what_was_committed(killed_directory: Path, tmp_path: Path) -> None:
    """In the header, and in the first and last frame: salts, checksums, commit mark, page."""
    count, size = frames(shutil.copytree(killed_directory / "data", tmp_path / "counted"))
    assert count >= 2
    chance = random.Random(SEED)
    places = [8 * byte + chance.randrange(8) for byte in range(32)]
    for frame in (0, count - 1):
        for byte in (*range(24), 24, 25, 2_000, size - 1):
            places.append(8 * (32 + frame * size + byte) + chance.randrange(8))
    for place in chance.sample(places, min(len(places), max(30, round(30 * SCALE)))):
        path = shutil.copytree(killed_directory / "data", tmp_path / "flipped")
        flip(path / "psoup.db-wal", place)
        with pytest.raises(Internal, match=r"of the write-ahead log psoup\.db-wal is damaged") as refused:
            DurableStore(path)
        assert refused.value.reason == "DATA_DAMAGED"
        shutil.rmtree(path)


def test_a_log_that_a_crash_has_cut_off_is_no_damage(killed_directory: Path, tmp_path: Path) -> None:
    """The last transaction was not acknowledged if its frames are not whole: cut, or torn between sectors."""
    count, size = frames(shutil.copytree(killed_directory / "data", tmp_path / "counted"))
    whole = (killed_directory / "data" / "psoup.db-wal").read_bytes()
    last = 32 + (count - 1) * size
    older = whole[last + size + 24 : last + 2 * size] or bytes(4_096)
    torn = whole[: last + 24 + 1_024] + older[1_024:4_096]
    for number, content in enumerate((whole[: last + 5], whole[: last + 24], whole[: last + 3_000], torn)):
        path = before_the_sync(killed_directory / "data", tmp_path / f"cut-{number}")
        (path / "psoup.db-wal").write_bytes(content)
        store = DurableStore(path)
        assert list(store.read())
        store.close()


@pytest.mark.long
def test_a_frame_that_was_being_written_over_an_older_one_is_no_damage(killed_directory: Path, tmp_path: Path) -> None:
    """Its head is new and its page is that of the older frame, which may be one bit away: the database's size."""
    count, size = frames(shutil.copytree(killed_directory / "data", tmp_path / "counted"))
    whole = (killed_directory / "data" / "psoup.db-wal").read_bytes()
    starts = [32 + number * size for number in range(count)]
    marks = [int.from_bytes(whole[start + 4 : start + 8], "big") for start in starts]
    [start, *_] = [
        start for start, mark, before in zip(starts[1:], marks[1:], marks, strict=False) if before and not mark
    ]
    torn = bytearray(whole[: start + size])
    torn[start + 24 + 31] ^= 1
    older = bytes(8) + random.Random(SEED).randbytes(size - 8)
    for number, content in enumerate((torn, torn + older, torn + older + whole[starts[-1] : starts[-1] + size])):
        path = before_the_sync(killed_directory / "data", tmp_path / f"torn-{number}")
        (path / "psoup.db-wal").write_bytes(content)
        store = DurableStore(path)
        assert list(store.read())
        store.close()


def test_what_an_older_crash_has_left_behind_the_end_is_no_damage(killed_directory: Path, tmp_path: Path) -> None:
    """Twice the power goes in the same place: torn frames, and behind their commit some of a transaction before."""
    path = shutil.copytree(killed_directory / "data", tmp_path / "data")
    count, size = frames(path)
    whole = (path / "psoup.db-wal").read_bytes()
    head = whole[: 32 + count * size]
    salts = whole[16:24]

    def frame(number: int, commit: int) -> bytes:
        page = random.Random(number).randbytes(4_096)
        return (
            number.to_bytes(4, "big") + commit.to_bytes(4, "big") + salts + random.Random(-number).randbytes(8) + page
        )

    torn, older = [frame(7, 0), frame(8, 40)], [frame(9, 0), frame(10, 41)]
    (path / "psoup.db-wal").write_bytes(head + b"".join(torn + older))
    store = DurableStore(path)
    assert list(store.read())
    store.close()


def test_frames_that_follow_a_damaged_transaction_say_that_it_was_whole(killed_directory: Path, tmp_path: Path) -> None:
    """More than a bit is lost of a frame, and the transaction behind it is there."""
    count, size = frames(shutil.copytree(killed_directory / "data", tmp_path / "counted"))
    whole = bytearray((killed_directory / "data" / "psoup.db-wal").read_bytes())
    commits = [n for n in range(count) if any(whole[32 + n * size + 4 : 32 + n * size + 8])]
    assert len(commits) >= 2
    path = shutil.copytree(killed_directory / "data", tmp_path / "data")
    place = 32 + commits[0] * size + 24 + 512
    whole[place : place + 512] = bytes(byte ^ 0x5A for byte in whole[place : place + 512])
    (path / "psoup.db-wal").write_bytes(whole)
    with pytest.raises(Internal, match=f"frame {commits[0]} of the write-ahead log"):
        DurableStore(path)


def test_damage_over_the_edge_of_two_frames_hides_no_later_transaction(tmp_path: Path) -> None:
    """The mark of a commit and the head of the frame behind it are gone: those behind still say that it was whole."""
    soup = Soup(tmp_path / "living", END)
    soup.execute("CREATE STREAM s (x BIGINT)")
    for number in range(12):
        soup.push("s", pa.table({"x": [number]}))
    leave(tmp_path / "living", tmp_path / "killed")
    soup.store.close()
    whole = (tmp_path / "killed" / "psoup.db-wal").read_bytes()
    edges = range(32 + FRAME, len(whole), FRAME)
    commits = [edge for edge in edges if any(whole[edge - FRAME + 4 : edge - FRAME + 8])]
    for edge in commits[:-3]:
        path = shutil.copytree(tmp_path / "killed", tmp_path / "data")
        damaged = bytearray(whole)
        damaged[edge - 512 : edge + 512] = bytes(1_024)
        (path / "psoup.db-wal").write_bytes(damaged)
        with pytest.raises(Internal, match="of the write-ahead log"):
            DurableStore(path)
        shutil.rmtree(path)


def test_damage_of_the_last_transaction_is_no_torn_write(tmp_path: Path) -> None:
    """Nothing is behind it: a note beside the log says how far it was on the disk."""
    soup = Soup(tmp_path / "living", END)
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.push("s", pa.table({"x": [1]}))
    leave(tmp_path / "living", tmp_path / "killed")
    soup.store.close()
    assert not list((tmp_path / "living").glob("note-*"))
    whole = (tmp_path / "killed" / "psoup.db-wal").read_bytes()
    inverted = whole[:-600] + bytes(byte ^ 0xFF for byte in whole[-600:])
    for number, content in enumerate((inverted, whole[:-FRAME], whole[: 32 + FRAME])):
        path = shutil.copytree(tmp_path / "killed", tmp_path / f"damaged-{number}")
        (path / "psoup.db-wal").write_bytes(content)
        with pytest.raises(Internal, match=r"frame \d+ of the write-ahead log psoup\.db-wal is damaged"):
            DurableStore(path)
        assert [one.place for one in examine(path).findings][:1] == ["psoup.db-wal"]
    for note in ("", "7", "999 00ff 12345678\n", "999"):
        path = shutil.copytree(tmp_path / "killed", tmp_path / f"note-{note.strip()}")
        (path / "note-log-end").write_text(note)
        DurableStore(path).close()


def test_whose_data_it_is_has_a_checksum(tmp_path: Path) -> None:
    """Another incarnation would refuse every ID that clients have."""
    DurableStore(tmp_path / "data").close()
    content = (tmp_path / "data" / "psoup.db").read_bytes()
    place = content.index(b"incarnation", 16 * 1024) + len(b"incarnation")
    for byte in (0x3C, 0xB2):  # another text, and no text
        path = shutil.copytree(tmp_path / "data", tmp_path / f"changed-{byte}")
        (path / "psoup.db").write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
        with pytest.raises(Internal, match="is damaged"):
            DurableStore(path)
        assert not examine(path).well


def test_a_definition_that_has_changed_is_damage(killed_directory: Path, tmp_path: Path) -> None:
    path = shutil.copytree(killed_directory / "data", tmp_path / "data")
    DurableStore(path).close()
    database = apsw.Connection(str(path / "psoup.db"))
    database.execute("PRAGMA writable_schema = ON")
    database.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'late INTEGER', 'ladE INTEGER') WHERE name = 'stored'"
    )
    assert database.changes() == 1
    database.close()
    with pytest.raises(Internal, match="the definition of stored is not this format's"):
        DurableStore(path)


COLUMNS = [
    *(("chunks", name) for name in ("first_id", "rows", "file", "bytes", "crc", "last_time", "ties", "first_time")),
    *(("chunks", name) for name in ("memory", "footer", "footer_crc", "zones")),
    *(("stored", name) for name in ("first_time", "dropped_time", "late", "ahead")),
]


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_row_that_says_what_is_stored_is_sealed(
    killed_directory: Path, tmp_path: Path, table: str, column: str
) -> None:
    """A flip in the manifest may contradict no file: it has a checksum of its own."""
    path = shutil.copytree(killed_directory / "data", tmp_path / "data")
    DurableStore(path).close()
    database = apsw.Connection(str(path / "psoup.db"))
    triggers = list(database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
    for name, _ in triggers:  # a flip calls none
        database.execute(f"DROP TRIGGER {name}")
    [(stream, value)] = database.execute(f"SELECT stream, {column} FROM {table} ORDER BY stream LIMIT 1")
    other = f"{value}x" if isinstance(value, str) else (value or 0) ^ 1
    database.execute(f"UPDATE {table} SET {column} = ? WHERE stream = ?", (str(other), stream))
    for _, sql in triggers:
        database.execute(sql)
    database.close()
    with pytest.raises(Internal, match=f"the row of {table} with stream {stream}.* has changed since it was written"):
        DurableStore(path)

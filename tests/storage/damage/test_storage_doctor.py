"""The doctor of a data directory: it finds what is wrong, says what is lost, and removes only what nothing needs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, Internal, InvalidInput, OutOfRange
from psoup.work.clock import VirtualClock
from psoup_cli.app import app
from psoup_storage import DurableStore
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.tools import doctor
from psoup_storage.durable.tools.doctor import examine
from psoup_storage.durable.tools.findings import Severity
from psoup_testing.engines.format_fixture import END, Soup
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.sweeps import swept


@pytest.fixture
def data(killed_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed_directory / "data", tmp_path / "data"))


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def change(data: Path, statement: str) -> None:
    """Change the database behind the service's back."""
    database = apsw.Connection(str(data / "psoup.db"))
    register(database)
    database.execute(statement)
    assert database.changes() >= 1
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # where frames are noted, the log is to stay
    database.close()


def damage(data: Path) -> list[Any]:
    return [finding for finding in examine(data).findings if finding.severity is Severity.DAMAGE]


def test_a_sound_directory_is_well_and_stays_as_it_is(data: Path) -> None:
    before, told = contents(data), list[tuple[str, int, int]]()
    report = examine(data, progress=lambda what, done, total: told.append((what, done, total)))
    assert report.findings == [] and report.well
    figures = report.figures
    assert (figures["streams"], figures["queries"], figures["chunks"]) == (13, 28, 21)
    assert figures["tuples in chunks"] + figures["tuples in the log"] >= 44 * 7
    after = contents(data)
    after.pop("lock")
    assert after == before
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told) and told[-1][1] <= told[-1][2]


NAMES = ["../../evil.parquet", "/etc/passwd", "../psoup.db", "1-0.parquet/..", "x.parquet"]
"""Names of files in a manifest that do not belong to the data directory."""


@pytest.mark.parametrize("name", swept(NAMES, fast=1))
def test_a_manifest_that_names_another_file_is_damage_and_nothing_reads_it(
    data: Path, name: str, tmp_path: Path
) -> None:
    """A database may come with a backup of another program: its names lead nowhere."""
    (tmp_path / "evil.parquet").write_bytes(b"kept")
    change(data, f"UPDATE chunks SET file = '{name}' WHERE stream = 1 AND number = 1")
    (found, *_) = damage(data)
    assert (found.place, f"names a file {name!r}" in found.what) == ("psoup.db, stream 1", True)
    with pytest.raises(FailedPrecondition, match="cannot be set aside"):
        examine(data, aside=True)
    with pytest.raises(Internal, match="the manifest names its file") as caught:
        DurableStore(data)
    assert caught.value.reason == "DATA_DAMAGED"
    assert (tmp_path / "evil.parquet").read_bytes() == b"kept"


def test_a_damaged_chunk_is_named_with_the_tuples_that_are_lost(data: Path) -> None:
    path = data / "chunks" / "1-1.parquet"
    content = bytearray(path.read_bytes())
    content[300] ^= 4
    path.write_bytes(content)
    [found] = damage(data)
    assert found.place == "chunks/1-1.parquet" and found.what == "its checksum is wrong: some of its bytes have changed"
    assert found.lost.startswith("tuples 64 to 127 of stream readings: 64, with times from 2023-11-14 22:")
    path.unlink()
    [found] = damage(data)
    assert "cannot be read: No such file" in found.what
    assert not examine(data, repair=True).well, "repair must not make damage look well"


def test_a_damaged_event_is_named_with_what_depends_on_it(data: Path) -> None:
    change(
        data, "UPDATE log SET tuples = zeroblob(9) WHERE sequence = (SELECT max(sequence) FROM log WHERE kind = 'push')"
    )
    [found] = damage(data)
    assert "the checksum of its tuples is wrong" in found.what
    assert found.lost.startswith("a batch of stream spooled, with times up to 2023-11-14 22:20:40Z")
    change(data, "UPDATE log SET body = replace(body, 'CREATE', 'CREATF') WHERE kind = 'stream' AND stream = 2")
    places = [found.place for found in damage(data)]
    assert "psoup.db, event 2" in places and len(places) > 3, "what needs the stream is lost as well"


def test_a_missing_batch_is_found_by_its_number(data: Path) -> None:
    change(data, "DELETE FROM log WHERE body ->> 'producer' = 'meter 0' AND body ->> 'number' = 20")
    [found] = damage(data)
    assert found.what == "batches 20 to 20 of producer 'meter 0', epoch 3, of stream readings are missing"


@pytest.mark.parametrize(
    ("statement", "said"),
    swept(
        [
            (
                "DELETE FROM chunks WHERE stream = 1 AND number = 0",
                "the manifest begins with chunk 1, and none has expired",
            ),
            ("DELETE FROM chunks WHERE stream = 3 AND number = 4", "it is chunk 5 after chunk 3"),
            ("UPDATE chunks SET first_id = 65 WHERE stream = 1 AND number = 1", "it begins with tuple 65"),
            (
                "UPDATE chunks SET last_time = last_time + 1 WHERE stream = 1 AND number = 1",
                "its last tuple has the time",
            ),
            ("UPDATE chunks SET ties = 5 WHERE stream = 2", "the manifest counts 5 tuples of its last time, wrongly"),
            ("UPDATE chunks SET rows = 63 WHERE stream = 2", "it has 64 rows, not 63"),
            ("UPDATE chunks SET stream = 99 WHERE stream = 2", "chunk of stream 99, which the log does not know"),
        ],
        fast=3,
    ),
)
def test_a_manifest_that_does_not_fit_is_found(data: Path, statement: str, said: str) -> None:
    change(data, statement)
    report = examine(data)
    assert said in "; ".join(finding.what for finding in report.findings)
    assert not report.well


def test_repair_removes_what_nothing_needs_and_nothing_else(data: Path) -> None:
    (data / "chunks" / "9-9.parquet.new").write_bytes(b"half")
    (data / "notes.txt").write_text("mine")
    before = contents(data)
    report = examine(data)
    assert report.well and report.left == 1
    said = CliRunner().invoke(app, ["doctor", str(data)])
    assert said.exit_code == 0
    assert "what helps: --repair removes it, and so does the next start of the service" in said.stdout
    assert said.stdout.endswith("1 leftover of a crash or a backup that was cut off: harmless.\nAll is well.\n")
    assert [(f.severity.value, f.place) for f in report.findings] == [
        ("note", "notes.txt"),
        ("leftover", "chunks/9-9.parquet.new"),
    ]
    assert not examine(data, repair=True).left
    after = contents(data)
    after.pop("lock")
    del before["chunks/9-9.parquet.new"]
    assert after == before


def test_with_a_damaged_database_nothing_is_a_leftover(data: Path) -> None:
    """The write-ahead log is cut by a flip: the manifest rows in it are gone, and their files look unknown."""
    wal = data / "psoup.db-wal"
    content = bytearray(wal.read_bytes())
    content[32 + 2_000] ^= 1
    wal.write_bytes(content)
    (data / "chunks" / "1-2.parquet").write_bytes(b"the only copy")
    report = examine(data, repair=True)
    assert "frame 0 of the write-ahead log" in report.findings[0].what
    assert (data / "chunks" / "1-2.parquet").exists()


def test_what_is_no_data_directory_or_in_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"is not a data directory: there is no psoup\.db in it"):
        examine(tmp_path)
    assert os.listdir(tmp_path) == []
    store = DurableStore(tmp_path / "data")
    with pytest.raises(InvalidInput, match="in use by another service"):
        examine(tmp_path / "data")
    store.close()
    assert examine(tmp_path / "data").well


def test_the_command_says_it_in_words_and_in_json(data: Path) -> None:
    runner = CliRunner()
    well = runner.invoke(app, ["doctor", str(data)])
    assert well.exit_code == 0 and well.stdout.endswith("All is well.\n")
    (data / "chunks" / "1-0.parquet").unlink()
    wrong = runner.invoke(app, ["doctor", str(data)])
    assert wrong.exit_code == 1
    assert "damage: chunks/1-0.parquet: it cannot be read" in wrong.stdout and "lost: tuples 0 to 63" in wrong.stdout
    rows = [json.loads(line) for line in runner.invoke(app, ["doctor", str(data), "--json"]).stdout.splitlines()]
    assert (rows[0]["severity"], rows[-1]["well"], rows[-1]["chunks"]) == ("damage", False, 21)
    assert runner.invoke(app, ["doctor", str(data / "nowhere")]).exit_code == 2


# Setting aside


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_chunk_is_set_aside_and_its_loss_is_shown(data: Path) -> None:
    whole = Soup(data, END)
    before = whole.invoke(1).to_table().to_pylist()
    whole.store.close()
    spoil(data / "chunks" / "1-1.parquet")
    store = DurableStore(data)
    with pytest.raises(Internal, match=r"1-1\.parquet is damaged"):
        list(store.read())
    store.close()
    report = examine(data, aside=True)
    assert report.well and [f.place for f in report.findings if f.repaired] == ["chunks/1-1.parquet"]
    assert sorted(os.listdir(data / "set-aside")) == ["1-0.parquet", "1-1.parquet", "losses.jsonl"]
    assert [text.partition(", up to ")[0] for text in report.lost] == ["stream readings: 128 tuples, 0 to 127"]
    assert report.lost[0].endswith("; 64 of them are sound, and can be pushed again from set-aside")
    again = examine(data)
    assert again.well and "tuples 64 to 127 of stream readings" in again.findings[0].lost
    soup = Soup(data, END)
    answer = soup.invoke(1)
    found = [str(row) for row in answer.to_table().to_pylist()]  # NaN is equal to itself as text
    assert found == [str(row) for row in before if row["_id"] >= 128]
    with pytest.raises(OutOfRange, match="kept"):
        soup.invoke(1, window="BEGIN TIMESTAMP '2023-11-14 22:13:30'")
    soup.engine.check()
    soup.store.close()


@pytest.mark.long
def test_the_command_says_what_it_set_aside(data: Path) -> None:
    runner = CliRunner()
    spoil(data / "chunks" / "1-0.parquet")
    ran = runner.invoke(app, ["doctor", str(data), "--set-aside"])
    assert ran.exit_code == 3
    assert "Set aside: stream readings: 64 tuples, 0 to 63, up to 2023-" in ran.stdout
    assert ran.stdout.endswith("answers without what was set aside. All else is well.\n")
    ran = runner.invoke(app, ["doctor", str(data)])
    assert (ran.exit_code, ran.stdout.splitlines()[-1]) == (0, "All that is left is well; what was set aside is lost.")
    spoil(data / "chunks" / "1-1.parquet")
    ran = runner.invoke(app, ["doctor", str(data), "--set-aside", "--json"])
    report = json.loads(ran.stdout.splitlines()[-1])
    assert (ran.exit_code, report["well"], len(report["lost"])) == (3, True, 1)
    assert "64 tuples, 64 to 127" in report["lost"][0]
    assert runner.invoke(app, ["doctor", str(data), "--set-aside"]).exit_code == 0


def test_a_damaged_batch_is_set_aside_and_ids_are_new(data: Path) -> None:
    store = DurableStore(data)
    old = store.incarnation
    store.close()
    change(data, "UPDATE log SET tuples = zeroblob(9) WHERE body ->> 'producer' = 'meter 0' AND body ->> 'number' = 21")
    assert examine(data, aside=True).well
    report = examine(data)
    assert report.well
    assert any("batches 21 to 21 of producer 'meter 0'" in f.what for f in report.findings) is False  # it was the last
    kept = [name for name in os.listdir(data / "set-aside") if name.startswith("event-")]
    assert len(kept) == 1
    soup = Soup(data, END)
    assert soup.store.incarnation != old
    assert len(soup.invoke(1).to_table()) < 220
    soup.store.close()


@pytest.mark.parametrize(
    "leave",
    [
        lambda soup, queries: soup.unregister(queries[0]),
        lambda soup, queries: soup.unregister_many(queries),
        lambda soup, queries: soup.unregister_many(queries, request_id="some"),
        lambda soup, queries: soup.drop_stream("t", cascade=True),
    ],
    ids=["alone", "many", "request", "stream"],
)
def test_a_query_that_is_set_aside_leaves_with_its_departure(
    tmp_path: Path, leave: Callable[[RestartingPSoup, list[int]], Any]
) -> None:
    """A replay would look for the query, and each start would fail."""
    clock, path = VirtualClock(), tmp_path / "data"
    soup = RestartingPSoup(EngineConfig(), clock, path)
    for stream in "st":
        soup.execute(f"CREATE STREAM {stream} (x BIGINT)")
    stays, *queries = [soup.register(f"SELECT x FROM {stream}") for stream in "sttt"]
    leave(soup, queries)
    soup.store.close()
    change(path, f"UPDATE log SET checksum = checksum + 1 WHERE kind = 'query' AND body ->> 'query' = {queries[0]}")
    assert len(examine(path, aside=True).lost) == 1
    assert examine(path).well
    for _ in range(2):
        found = RestartingPSoup(EngineConfig(), clock, path)
        assert found.engine.snapshot().queries.get(stays) and not found.engine.snapshot().queries.get(queries[0])
        found.register("SELECT x FROM s WHERE x > 1")
        found.check()
        found.store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET body = replace(body, 'CREATE', 'CREATF') WHERE kind = 'stream' AND stream = 6",
        "UPDATE log SET body = replace(body, 'CREATE', 'CREATF') WHERE kind = 'stream' AND stream = 2",
        "UPDATE chunks SET stream = 99 WHERE stream = 2",
    ],
)
def test_what_others_depend_on_is_not_set_aside(data: Path, statement: str) -> None:
    change(data, statement)
    before = contents(data)
    with pytest.raises(FailedPrecondition, match=r"cannot be set aside: .*; restore a backup"):
        examine(data, aside=True)
    after = contents(data)
    after.pop("lock")
    before.pop("lock", None)
    assert after == before


def test_the_last_chunk_of_a_stream_is_not_set_aside(data: Path) -> None:
    spoil(data / "chunks" / "2-0.parquet")
    with pytest.raises(FailedPrecondition, match="chunk 0 is the last one that is stored of its stream"):
        examine(data, aside=True)
    assert CliRunner().invoke(app, ["doctor", str(data), "--set-aside"]).exit_code == 2


def test_the_advice_is_what_can_be_done(data: Path) -> None:
    """--set-aside is named where it takes out all that is damaged, with the directory, and nowhere else."""
    spoil(data / "chunks" / "1-1.parquet")
    [found] = damage(data)
    assert found.repair == f"restore a backup of the directory, or go on without it: psoup doctor {data} --set-aside"
    spoil(data / "chunks" / "2-0.parquet")  # the last of its stream
    assert {one.repair for one in damage(data)} == {"restore a backup of the directory"}


def test_a_directory_in_use_is_looked_at_as_a_copy(data: Path) -> None:
    store = DurableStore(data)
    with pytest.raises(
        InvalidInput, match=r"\(process \d+\); stop that one, or look at a copy: psoup backup makes one"
    ):
        examine(data)
    store.close()


def test_a_line_of_losses_that_cannot_be_read_is_a_loss(data: Path) -> None:
    spoil(data / "chunks" / "1-0.parquet")
    assert examine(data, aside=True).well
    losses = data / "set-aside" / "losses.jsonl"
    losses.write_bytes(losses.read_bytes()[:20] + b"\xff\n[]\n")
    report = examine(data)
    assert report.well and [one.what.partition(" was set")[0] for one in report.findings[:2]] == [
        "set-aside/losses.jsonl, line 1",
        "set-aside/losses.jsonl, line 2",
    ]
    list(DurableStore(data).read())


def test_columns_that_a_stream_was_given_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = EngineConfig(chunk_rows=64, piece_rows=16)
    soup = RestartingPSoup(config, VirtualClock(0), tmp_path / "data")
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.push("s", pa.table({"x": range(64)}))
    soup.maintain()
    soup.execute("ALTER STREAM s ADD COLUMN y TEXT")
    soup.push("s", pa.table({"x": range(64), "y": ["a"] * 64}))
    soup.maintain()
    soup.store.close()
    looked, decode = list[int](), doctor.decode_chunk
    monkeypatch.setattr(
        doctor,
        "decode_chunk",
        lambda spec, content: (looked.append(len(spec.schema.attributes)), decode(spec, content))[1],
    )
    report = examine(soup.path)
    assert report.well and report.figures["streams"] == 1
    assert looked == [2, 2]


def test_a_first_chunk_whose_time_began_in_an_expired_one_is_sound(tmp_path: Path) -> None:
    soup = RestartingPSoup(EngineConfig(chunk_rows=64), VirtualClock(END), tmp_path)
    soup.execute("CREATE STREAM s (a BIGINT) RETENTION 200 ROWS")
    soup.push("s", pa.table({"a": range(300)}))
    soup.maintain()
    soup.push("s", pa.table({"a": range(100)}))
    soup.maintain()
    soup.store.close()
    database = apsw.Connection(str(tmp_path / "psoup.db"))
    number, rows, ties = database.execute("SELECT number, rows, ties FROM chunks").fetchone() or (0, 0, 0)
    database.close()
    assert number > 0 and ties > rows, "the time of the first chunk that is left is that of expired tuples, too"
    assert examine(tmp_path).findings == []
    change(tmp_path, f"UPDATE chunks SET ties = {rows - 1} WHERE number = {number}")
    assert "wrongly" in damage(tmp_path)[0].what

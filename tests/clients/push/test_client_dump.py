"""A stream as Parquet files and back: what is in them, exactly-once loads, what does not fit."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, FailedPrecondition, InvalidData, NotFound, Unavailable
from psoup_client.calls.dump import read_description
from psoup_client.ingest.stage import Stage
from psoup_testing.services.threaded_service import Serving

BASE = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
EVENT = (
    '(at TIMESTAMP NOT NULL, "n o" BIGINT, d DOUBLE, m DECIMAL(9,2), b BOOLEAN, x TEXT, day DATE)'
    " TIMESTAMP BY at LATENESS 10 SECONDS"
)


def table(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "at": pa.array([BASE + dt.timedelta(seconds=n) for n in numbers], pa.timestamp("us", "UTC")),
            "n o": [None if n % 5 == 0 else n for n in numbers],
            "d": [(0.5, float("nan"), -0.0, None)[n % 4] for n in numbers],
            "m": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(9, 2)),
            "b": [(True, False, None)[n % 3] for n in numbers],
            "x": [None if n % 7 == 0 else f"é {n}" for n in numbers],
            "day": [dt.date(2024, 1, 1 + n % 28) for n in numbers],
        }
    )


def rows(client: Client, stream: str) -> list[Any]:
    """All tuples of a stream, as text: NaN is equal to itself then."""
    query = client.register(f'SELECT _id, _time, * FROM "{stream}" BEGIN (START)')
    try:
        return [str(row) for row in query.invoke(wait_for=client.last_sequence).to_arrow().to_pylist()]
    finally:
        query.unregister()


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psoup_client.calls.dump.FILE_ROWS", 300)


def test_a_dump_is_loaded_as_it_was(
    client: Client, make_stream: Callable[[str], str], tmp_path: Path, small_files: None
) -> None:
    stream, told = make_stream(EVENT), list[tuple[int, int]]()
    for first in range(0, 1_000, 250):
        client.push(stream, table(first, 250))
    found = client.dump(stream, tmp_path / "d", progress=lambda done, total: told.append((done, total)))
    assert (found.rows, found.pending, told[-1]) == (990, 10, (990, 990))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d"]
    copy = f"{stream} copy"
    loaded = client.load(tmp_path / "d", copy)
    assert (loaded.accepted, loaded.late, loaded.duplicates) == (990, 0, 0)
    client.heartbeat(copy, BASE + dt.timedelta(days=1))
    assert rows(client, copy) == rows(client, stream)
    assert client.describe(copy).lateness == dt.timedelta(seconds=10)
    assert all(info.queries == 0 for info in client.streams() if info.name in (stream, copy))


def test_others_read_the_files(client: Client, make_stream: Callable[[str], str], tmp_path: Path) -> None:
    stream = make_stream("(page TEXT, ms BIGINT)")
    client.push(stream, {"page": ["a", "b", None], "ms": [1, None, 3]})
    client.dump(stream, tmp_path / "d")
    asked = f"SELECT _id, page, ms FROM '{tmp_path}/d/*.parquet' ORDER BY _id"
    assert duckdb.sql(asked).fetchall() == [(0, "a", 1), (1, "b", None), (2, None, 3)]
    assert pq.read_schema(tmp_path / "d" / "part-00000.parquet").names == ["_id", "_time", "page", "ms"]


def test_a_load_that_is_repeated_doubles_nothing(
    client: Client,
    make_stream: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small_files: None,
) -> None:
    """Cut off in the middle, then run again, then once more."""
    stream = make_stream("(x BIGINT)")
    for first in range(0, 2_000, 200):
        client.push(stream, {"x": list(range(first, first + 200))})
    files = len(client.dump(stream, tmp_path / "d").files)
    assert files >= 2
    commit = Stage.commit

    def cut(self: Stage, *arguments: Any, **options: Any) -> Any:
        done = commit(self, *arguments, **options)
        if done.batches:
            raise Unavailable("the reply is lost")
        return done

    with monkeypatch.context() as patched:
        patched.setattr(Stage, "commit", cut)
        with pytest.raises(Unavailable):
            client.load(tmp_path / "d", f"{stream}_copy")
    again = client.load(tmp_path / "d", f"{stream}_copy")
    assert again.duplicates == 1 and again.batches == files
    assert client.load(tmp_path / "d", f"{stream}_copy").duplicates == files
    found = client.register(f"SELECT x FROM {stream}_copy BEGIN (START)").invoke(wait_for=client.last_sequence)
    assert found.to_arrow()["x"].to_pylist() == list(range(2_000))


def test_an_altered_stream_is_dumped_with_its_columns(
    client: Client, make_stream: Callable[[str], str], tmp_path: Path
) -> None:
    stream = make_stream("(x BIGINT)")
    client.push(stream, {"x": [1]})
    client.alter_stream(f"ALTER STREAM {stream} ADD COLUMN note TEXT")
    client.push(stream, {"x": [2], "note": ["new"]})
    client.dump(stream, tmp_path / "d")
    client.load(tmp_path / "d", f"{stream}_copy")
    query = client.register(f"SELECT x, note FROM {stream}_copy BEGIN (START)")
    assert list(query.invoke(wait_for=client.last_sequence)) == [{"x": 1, "note": None}, {"x": 2, "note": "new"}]


def test_a_stream_that_has_tuples_is_left_alone(
    client: Client, make_stream: Callable[[str], str], tmp_path: Path
) -> None:
    stream = make_stream(EVENT)
    client.push(stream, table(0, 100))
    client.dump(stream, tmp_path / "d")
    with pytest.raises(FailedPrecondition, match=r"has had 100 tuples that are not of a load of .*/d, which") as caught:
        client.load(tmp_path / "d")  # into the stream it came from
    assert caught.value.reason == "STREAM_HAS_TUPLES"
    with pytest.raises(
        FailedPrecondition, match=r"begin at 2024-01-01 00:00:00.000000Z: they would be refused"
    ) as caught:
        client.load(tmp_path / "d", append=True)
    assert caught.value.reason == "LATE"
    info = client.describe(stream)
    assert (info.tuples + info.pending, info.late) == (100, 0)
    empty = make_stream("(x BIGINT)")
    client.push(empty, {"x": [1, 2]})
    client.dump(empty, tmp_path / "e")
    with pytest.raises(FailedPrecondition, match="has had 2 tuples"):
        client.load(tmp_path / "e")
    assert client.describe(empty).tuples == 2
    assert client.load(tmp_path / "e", append=True).accepted == 2
    assert client.load(tmp_path / "e").duplicates == 1  # it is known now
    assert client.describe(empty).tuples == 4


def test_an_appended_dump_comes_after_what_is_there(
    client: Client, make_stream: Callable[[str], str], tmp_path: Path, small_files: None
) -> None:
    first, second = make_stream(EVENT), make_stream(EVENT)
    client.push(first, table(0, 500))
    client.push(second, table(500, 700))
    files = len(client.dump(second, tmp_path / "d").files)
    with pytest.raises(FailedPrecondition, match="has had 500 tuples"):
        client.load(tmp_path / "d", first)
    done = client.load(tmp_path / "d", first, append=True)
    assert (done.accepted, done.late, done.batches) == (690, 0, files)


@contextmanager
def pushed_meanwhile(client: Client, target: str, before: bool = True) -> Iterator[None]:
    """Somebody moves the watermark of `target` by 600 s after each commit of a load, and first by 200 s before it."""
    commit = Stage.commit

    def committing(self: Stage, *arguments: Any, **options: Any) -> Any:
        if before:
            client.heartbeat(target, BASE + dt.timedelta(seconds=200))
        done = commit(self, *arguments, **options)
        client.heartbeat(target, BASE + dt.timedelta(seconds=600))
        return done

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Stage, "commit", committing)
        yield


@pytest.fixture
def dumped(client: Client, make_stream: Callable[[str], str], tmp_path: Path, small_files: None) -> Path:
    """A dump of 690 rows, in several files."""
    stream = make_stream(EVENT)
    for first in range(0, 700, 100):
        client.push(stream, table(first, 100))
    assert len(client.dump(stream, tmp_path / "d").files) > 1
    return tmp_path / "d"


@pytest.mark.parametrize("before", [False, True], ids=["between two files", "while one is on its way"])
def test_rows_that_have_become_late_are_not_sent(client: Client, dumped: Path, before: bool) -> None:
    target = f"{dumped.parent.name}_late"
    with pushed_meanwhile(client, target, before), pytest.raises(FailedPrecondition) as caught:
        client.load(dumped, target)
    assert caught.value.reason == "LATE"
    assert client.describe(target).late == 200 * before


def test_rows_that_were_not_taken_are_an_error(client: Client, dumped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Now, and whenever the load is repeated."""
    target = f"{dumped.parent.name}_refused"
    refused = pytest.raises(FailedPrecondition, match=r"of 690 rows are in stream .*; refused: [\d,]+ too late\.")
    with monkeypatch.context() as patched, pushed_meanwhile(client, target), refused as caught:
        patched.setattr("psoup_client.calls.load._check_not_late", lambda *_: None)
        client.load(dumped, target)
    assert caught.value.reason == "ROWS_REFUSED"
    taken = client.describe(target)
    assert int(caught.value.facts["accepted"]) == taken.tuples + taken.pending
    assert int(caught.value.facts["late"]) == taken.late > 0
    with pytest.raises(FailedPrecondition) as again:
        client.load(dumped, target)
    assert again.value.facts == caught.value.facts


def test_what_is_no_dump_is_refused(client: Client, make_stream: Callable[[str], str], tmp_path: Path) -> None:
    stream = make_stream("(x BIGINT)")
    client.push(stream, {"x": [1]})
    with pytest.raises(InvalidData, match=r"is not a dump: it has no stream\.json"):
        client.load(tmp_path)
    with pytest.raises(NotFound):
        client.dump("nothing", tmp_path / "n")
    client.dump(stream, tmp_path / "d")
    with pytest.raises(FileExistsError, match="is there already"):
        client.dump(stream, tmp_path / "d")
    with pytest.raises(InvalidData, match="x"):
        client.load(tmp_path / "d", make_stream("(y BIGINT NOT NULL)"))
    description = tmp_path / "d" / "stream.json"
    facts = json.loads(description.read_text())
    description.write_text(json.dumps({**facts, "form": 2}))
    with pytest.raises(InvalidData, match="is a dump of form 2, and this version of PSoup reads form 1"):
        client.load(tmp_path / "d")
    description.write_text(json.dumps(facts))
    (tmp_path / "d" / "part-00000.parquet").unlink()
    with pytest.raises(InvalidData, match=r"part-00000\.parquet is missing"):
        read_description(tmp_path / "d")


def test_the_commands_go_there_and_back(
    running: Serving, client: Client, make_stream: Callable[[str], str], tmp_path: Path
) -> None:
    runner, stream = CliRunner(), make_stream(EVENT)
    client.push(stream, table(0, 60))
    at = ["--address", running.address]
    said = runner.invoke(app, ["dump", stream, str(tmp_path / "d"), *at])
    assert said.exit_code == 0, said.output
    assert "Dumped 50 rows" in said.stderr and "10 tuples still waiting" in said.stderr
    said = runner.invoke(app, ["load", str(tmp_path / "d"), "--stream", f"{stream}_2", *at])
    assert said.exit_code == 0 and said.stderr.startswith("50 rows taken in 1 batch")
    said = runner.invoke(app, ["load", str(tmp_path / "d"), "--stream", f"{stream}_2", "--json", *at])
    assert json.loads(said.stdout)["duplicates"] == 1
    said = runner.invoke(app, ["load", str(tmp_path / "d"), *at])
    assert (said.exit_code, said.stdout) == (5, "")
    assert f"stream '{stream}' has had 60 tuples" in said.stderr
    said = runner.invoke(app, ["load", str(tmp_path / "d"), "--append", *at])
    assert said.exit_code == 5 and "would be refused as late" in said.stderr
    assert client.describe(stream).late == 0


@pytest.mark.parametrize(
    "name", ["../x.parquet", "/etc/passwd", "", ".", "part-0.parquet", "part-00000.parquet/..", "part-00000.parquet\n"]
)
def test_a_dump_that_names_a_file_elsewhere_is_refused(
    client: Client, make_stream: Callable[[str], str], tmp_path: Path, name: str
) -> None:
    stream = make_stream("(a BIGINT)")
    pq.write_table(pa.table({"_id": [0], "_time": [0], "a": [7]}), tmp_path / "x.parquet")
    described(tmp_path / "d", [[name, 1]], stream)
    with pytest.raises(InvalidData, match="names the file"):
        client.load(tmp_path / "d", stream)
    assert client.describe(stream).tuples == 0


def test_a_link_or_a_pipe_in_a_dump_is_refused(
    client: Client, make_stream: Callable[[str], str], tmp_path: Path
) -> None:
    stream = make_stream("(a BIGINT)")
    pq.write_table(pa.table({"_id": [0], "_time": [0], "a": [7]}), tmp_path / "x.parquet")
    described(tmp_path / "d", [["part-00000.parquet", 1]], stream)
    part = tmp_path / "d" / "part-00000.parquet"
    part.symlink_to(tmp_path / "x.parquet")
    with pytest.raises(InvalidData, match=r"part-00000\.parquet is a link"):
        client.load(tmp_path / "d", stream)
    part.unlink()
    os.mkfifo(part)
    with pytest.raises(InvalidData, match=r"part-00000\.parquet is not a file"):
        client.load(tmp_path / "d", stream)
    assert client.describe(stream).tuples == 0


@pytest.mark.parametrize("files", [None, 5, ["x"], [["part-00000.parquet"]], [["part-00000.parquet", "many"]]])
def test_a_description_that_is_something_else_is_refused(tmp_path: Path, files: object) -> None:
    described(tmp_path / "d", files, "s")
    with pytest.raises(InvalidData, match="is not a dump"):
        read_description(tmp_path / "d")
    for text in ("[]", "nothing", '{"form": 1}', "null"):
        (tmp_path / "d" / "stream.json").write_text(text)
        with pytest.raises(InvalidData, match="is not a dump"):
            read_description(tmp_path / "d")


def described(folder: Path, files: object, stream: str) -> None:
    folder.mkdir()
    facts = {"form": 1, "stream": stream, "create": "", "event_time": False, "files": files}
    (folder / "stream.json").write_text(json.dumps(facts))


TABLE = "(k BIGINT, name TEXT, x DOUBLE NOT NULL, PRIMARY KEY (k, name))"


@pytest.mark.parametrize("options", ["", " TIMESTAMP BY at LATENESS 10 SECONDS"])
def test_the_open_rows_of_a_table_are_dumped_and_loaded(
    client: Client, tmp_path: Path, small_files: None, options: str
) -> None:
    """Earlier versions are not in the dump; a second load changes nothing."""
    name = "prices in time" if options else "prices"
    copy = f"{name} copied"
    columns = TABLE if not options else TABLE.replace("(k", "(at TIMESTAMP NOT NULL, k", 1)
    client.create_stream(f'CREATE TABLE "{name}" {columns}{options}')
    for step in range(3):
        numbers = range(step, 700)
        rows_pushed = pa.table(
            {
                "at": pa.array([BASE + dt.timedelta(minutes=step)] * len(numbers), pa.timestamp("us", "UTC")),
                "k": list(numbers),
                "name": ["é"] * len(numbers),
                "x": [step + n / 2 for n in numbers],
            }
        )
        client.push(name, rows_pushed if options else rows_pushed.drop_columns(["at"]))
    if options:
        client.heartbeat(name, BASE + dt.timedelta(days=1))
    dumped = client.dump(name, tmp_path / "d")
    assert dumped.is_table and dumped.rows == 700 and len(dumped.files) == 3
    for duplicates in (0, 3):
        loaded = client.load(tmp_path / "d", copy)
        assert (loaded.accepted, loaded.duplicates) == (700, duplicates)
    if options:
        client.heartbeat(copy, BASE + dt.timedelta(days=1))
    shown = []
    for table_name in (name, copy):
        query = client.register(f'SELECT k, name, x FROM "{table_name}"')
        rows = query.invoke(wait_for=client.last_sequence).to_arrow().to_pylist()
        shown.append(sorted(rows, key=lambda row: row["k"]))
        query.unregister()
    assert shown[0] == shown[1] and len(shown[0]) == 700

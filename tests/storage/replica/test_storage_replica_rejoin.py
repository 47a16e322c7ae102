"""A directory whose copy was taken over becomes a standby, and what the copy lacks is kept beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.errors import FailedPrecondition, Internal, InvalidInput, PSoupError
from psoup_cli.app import app
from psoup_storage.durable.directory import AUDIT, DATABASE, DIVERGED, LOCK, DataDirectory
from psoup_storage.durable.tools.doctor import examine
from psoup_storage.formats.files import sync_directory
from psoup_storage.replica import rejoin as rejoining
from psoup_storage.replica import standby_swap, tail_files
from psoup_storage.replica.fences import read_fences
from psoup_storage.replica.rejoin import rejoin
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.standby_directory import NOTE
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.copy_target import begin, copied, push, uploader_in, wait_for_copy
from psoup_testing.engines.diverged_rows import kept_table, kept_values
from psoup_testing.engines.format_fixture import START, Soup
from psoup_testing.engines.standby_soup import begin_promotion, follow, standby, store_of, take_up
from psoup_testing.oracles.questions import again


@contextmanager
def served(path: Path) -> Iterator[Soup]:
    """A directory that is served without a copy."""
    soup = Soup(path, START)
    try:
        yield soup
    finally:
        soup.store.close()


def take_over(target: DirectoryTarget, path: Path) -> int:
    """Let the directory `heir` take over the copy of `data`, which has the value 1. Returns the number of the fence."""
    with copied(path / "data", target) as soup:
        begin(soup)
        push(soup, 1)
    restore_copy(target, path / "heir", takes_over=True)
    return read_fences(target).epoch


def followed_values(path: Path, target: DirectoryTarget) -> list[int]:
    """The answer of the query of `begin` at a standby that has followed the copy to its end."""
    with standby(path, target) as soup:
        follow(soup)
        return [int(value) for value in again(soup.invoke, 1).to_table()["x"].to_pylist()]


def go_on(path: Path) -> None:
    """Events of the older service that the copy lacks."""
    with served(path) as soup:
        push(soup, 2, 3)
        soup.register("SELECT x\nFROM s WHERE x > 2", key="large", labels={"user": "u1"})
        soup.execute("CREATE STREAM t (y TEXT)")
        soup.push("t", pa.table({"y": ["a", None]}), "feed", 4, 0)


def test_what_the_copy_lacks_is_kept_and_the_directory_is_a_standby(tmp_path: Path) -> None:
    target, data = DirectoryTarget(tmp_path / "copy"), tmp_path / "data"
    fence = take_over(target, tmp_path)
    go_on(data)
    (data / AUDIT).write_text("a call\n")
    with pytest.raises(FailedPrecondition, match=r"psoup replica rejoin .*copy DIR keeps them"), copied(data, target):
        pass
    tail = rejoin(target, data).diverged
    assert tail is not None and tail.folder == str(data / DIVERGED / str(fence))
    assert (tail.first, tail.last, tail.events, tail.fence) == (4, 8, 5, fence)
    assert [(file.stream, file.rows, file.file) for file in tail.streams] == [
        ("s", 2, "s.1.parquet"),
        ("t", 2, "t.2.parquet"),
    ]
    table = kept_table(data, "s")
    assert table is not None and table.to_pylist() == [
        {"_sequence": 4, "_time": pa.scalar(START, pa.timestamp("us", "UTC")).as_py(), "x": 2},
        {"_sequence": 5, "_time": pa.scalar(START, pa.timestamp("us", "UTC")).as_py(), "x": 3},
    ]
    assert kept_values(data, "t", "y") == ["a", None]
    assert (data / DIVERGED / str(fence) / "events.txt").read_text().splitlines() == [
        "4  1 row was pushed to s (stream 1)",
        "5  1 row was pushed to s (stream 1)",
        "6  query 2 was registered, key large, user = u1: SELECT x FROM s WHERE x > 2",
        "7  t (stream 2) was created: CREATE STREAM t (y TEXT)",
        "8  2 rows were pushed to t (stream 2), producer feed, epoch 4, batch 0",
    ]
    with copied(tmp_path / "heir", target) as heir:
        push(heir, 7)
        wait_for_copy(heir)
    assert followed_values(data, target) == [1, 7]
    assert (data / AUDIT).read_text() == "a call\n"
    repeated = rejoin(target, data)
    assert repeated.before and repeated.diverged == tail
    assert examine(data).well


def test_a_directory_without_later_events_keeps_nothing(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    take_over(target, tmp_path)
    assert rejoin(target, tmp_path / "data").diverged is None
    assert not (tmp_path / "data" / DIVERGED).exists()
    assert followed_values(tmp_path / "data", target) == [1]


def test_a_directory_that_is_fenced_again_keeps_both_tails(tmp_path: Path) -> None:
    """The heir is fenced by another one, too: both older directories follow the newest."""
    target = DirectoryTarget(tmp_path / "copy")
    first = take_over(target, tmp_path)
    with copied(tmp_path / "heir", target) as heir:
        push(heir, 10)
        wait_for_copy(heir)
    restore_copy(target, tmp_path / "second", takes_over=True)
    go_on(tmp_path / "data")
    with served(tmp_path / "heir") as heir:
        push(heir, 20)
    for name in ("data", "heir"):
        tail = rejoin(target, tmp_path / name).diverged
        assert tail is not None and (tail.fence == first) == (name == "data")
    assert kept_values(tmp_path / "data", "s") == [2, 3] and kept_values(tmp_path / "heir", "s") == [20]
    for name in ("data", "heir"):
        assert followed_values(tmp_path / name, target) == [1, 10]


def test_a_standby_that_begins_again_keeps_the_rows(tmp_path: Path) -> None:
    target, data = DirectoryTarget(tmp_path / "copy"), tmp_path / "data"
    take_over(target, tmp_path)
    go_on(data)
    rejoin(target, data)
    with standby(data, target) as soup:
        place = store_of(soup).place
        store_of(soup).note(NOTE, place._replace(gap="events are missing").text(), sync=True)
    with copied(tmp_path / "heir", target) as heir:
        push(heir, 7)
        wait_for_copy(heir)
    restore_copy(target, tmp_path / "second", takes_over=True)
    assert followed_values(data, target) == [1, 7]
    assert kept_values(data, "s") == [2, 3]


def test_rows_of_a_table_say_what_they_change(tmp_path: Path) -> None:
    target, data = DirectoryTarget(tmp_path / "copy"), tmp_path / "data"
    with copied(data, target) as soup:
        soup.execute("CREATE TABLE prices (k TEXT, x BIGINT, y BIGINT, PRIMARY KEY (k))")
        soup.push("prices", pa.table({"k": ["a", "b"], "x": [1, 2], "y": [3, 4]}))
    restore_copy(target, tmp_path / "heir", takes_over=True)
    with served(data) as soup:
        soup.push("prices", pa.table({"k": ["a"], "x": [5], "_patch": [True]}))
        soup.push("prices", pa.table({"k": ["b"], "_deleted": [True]}))
        soup.execute("ALTER TABLE prices ADD COLUMN z BIGINT")
    rejoin(target, data)
    table = kept_table(data, "prices")
    assert table is not None
    rows = table.drop_columns(["_sequence", "_time"]).to_pylist()
    assert [(row["k"], row["x"], row["y"], row["z"]) for row in rows] == [("a", 5, None, None), ("b", None, None, None)]
    assert [bool(row["_deleted"]) for row in rows] == [False, True]
    assert rows[0]["_patch"] and rows[0]["_given"] == ["k", "x"] and not rows[1]["_patch"]


def test_attached_history_is_kept(tmp_path: Path) -> None:
    target, data = DirectoryTarget(tmp_path / "copy"), tmp_path / "data"
    times = [START - 1_000_000 * number for number in range(50, 0, -1)]
    table = pa.table({"at": pa.array(times, pa.timestamp("us")), "x": range(50)})
    with copied(data, target) as soup:
        soup.execute("CREATE STREAM s (at TIMESTAMP, x BIGINT) TIMESTAMP BY at RETENTION 1 DAY ARCHIVE 9 DAYS")
        soup.push("s", table.slice(49).set_column(0, "at", pa.array([START], pa.timestamp("us"))))
    restore_copy(target, tmp_path / "heir", takes_over=True)
    with served(data) as soup:
        write(tmp_path / "job", soup.engine.snapshot().stream("s", soup.tenant).spec, table, times, [20])
        attach(soup, "s", "job", tmp_path / "job")
    tail = rejoin(target, data).diverged
    assert tail is not None and kept_values(data, "s") == list(range(50))
    text = (Path(tail.folder) / "events.txt").read_text()
    assert text == "3  the history of the job job was attached to s (stream 1): 50 rows\n"


def refused(target: Any, path: Path) -> str:
    """The message of a refused rejoin, which changes nothing."""

    def files() -> dict[Path, bytes]:
        parts = [file for file in path.rglob("*") if file.is_file() and file.stat().st_size and file.name != LOCK]
        return {file: file.read_bytes() for file in parts}

    before = files()
    with pytest.raises(PSoupError) as problem:
        rejoin(target, path)
    assert files() == before and not (path / DIVERGED).exists()
    return problem.value.message


def test_what_is_no_fenced_directory_is_refused(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    take_over(target, tmp_path)
    assert "is not the data directory of a service" in refused(target, tmp_path / "nowhere")
    assert "has no copy of a service" in refused(DirectoryTarget(tmp_path / "none"), tmp_path / "data")
    assert "no other service took over the copy" in refused(target, tmp_path / "heir"), "it was not started yet"
    restore_copy(target, tmp_path / "restored")
    assert "not given yet" in refused(target, tmp_path / "restored")
    with copied(tmp_path / "heir", target) as heir:
        push(heir, 2)
        with pytest.raises(InvalidInput, match="is in use by another service"):
            rejoin(target, tmp_path / "heir")
    assert "psoup serve --data-dir" in refused(target, tmp_path / "heir")
    with served(tmp_path / "other") as other:
        begin(other)
    assert "has never written the copy" in refused(target, tmp_path / "other")


def test_a_directory_with_another_history_is_refused(tmp_path: Path) -> None:
    """Two services on copies of one directory: the copy has the events of one of them."""
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
    shutil.copytree(tmp_path / "data", tmp_path / "twin")
    with copied(tmp_path / "data", target) as soup:
        push(soup, 1, 2)
        wait_for_copy(soup)
    restore_copy(target, tmp_path / "heir", takes_over=True)
    with served(tmp_path / "twin") as soup:
        push(soup, 8, 9, 10)
    assert "event 3 of" in refused(target, tmp_path / "twin")


def test_a_damaged_directory_is_refused(tmp_path: Path) -> None:
    target, data = DirectoryTarget(tmp_path / "copy"), tmp_path / "data"
    take_over(target, tmp_path)
    go_on(data)
    content = bytearray((data / DATABASE).read_bytes())
    content[100:4000] = bytes(3900)
    (data / DATABASE).write_bytes(content)
    with pytest.raises((Internal, InvalidInput)):
        rejoin(target, data)
    assert (data / DATABASE).read_bytes() == content


@contextmanager
def states(path: Path, folder: Path) -> Iterator[list[Path]]:
    """Copy a directory before each change of it in the block: the states in which a kill would leave it."""
    left = list[Path]()

    def before(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*values: Any, **options: Any) -> Any:
            left.append(folder / str(len(left)))
            shutil.copytree(path, left[-1], ignore=shutil.ignore_patterns("lock"))
            return change(*values, **options)

        return changed

    with (
        patch.object(Path, "rename", before(Path.rename)),
        patch.object(Path, "unlink", before(Path.unlink)),
        patch.object(standby_swap, "sync_directory", before(sync_directory)),
        patch.object(standby_swap, "_remove", before(standby_swap._remove)),
        patch.object(tail_files, "sync_directory", before(sync_directory)),
        patch.object(rejoining, "write_diverged", before(tail_files.write_diverged)),
        patch.object(rejoining, "change", before(standby_swap.change)),
    ):
        yield left


@pytest.mark.long
@pytest.mark.seeded("old data that goes before what the copy lacks is kept")
def test_a_rejoin_that_is_killed_at_any_step_loses_nothing(tmp_path: Path) -> None:
    target, data = DirectoryTarget(tmp_path / "copy"), tmp_path / "data"
    take_over(target, tmp_path)
    go_on(data)
    with states(data, tmp_path / "states") as left:
        rejoin(target, data)
    assert len(left) > 12
    cut_off = 0
    for number, state in enumerate(left):
        cut_off += not (state / DATABASE).exists()
        if number % 2 and not (state / DATABASE).exists():  # a standby's start goes on, too
            assert followed_values(state, target) == [1]
        tail = rejoin(target, state).diverged
        assert tail is not None and tail.folder.startswith(str(state))
        assert kept_values(state, "s") == [2, 3] and kept_values(state, "t", "y") == ["a", None]
        assert followed_values(state, target) == [1]
        assert sorted(path.name for path in state.iterdir() if path.name.startswith("standby")) == []
    assert cut_off > 3


def test_a_directory_whose_change_was_cut_off_takes_no_service_that_writes(tmp_path: Path) -> None:
    target, data = DirectoryTarget(tmp_path / "copy"), tmp_path / "data"
    take_over(target, tmp_path)
    go_on(data)
    with states(data, tmp_path / "states") as left:
        rejoin(target, data)
    cut_off = next(state for state in left if not (state / DATABASE).exists())
    with pytest.raises(InvalidInput, match="has other files"):
        DataDirectory(cut_off)


def test_the_command_tells_what_was_kept(tmp_path: Path) -> None:
    target, data = DirectoryTarget(tmp_path / "copy"), tmp_path / "data"
    take_over(target, tmp_path)
    go_on(data)
    place, runner = str(tmp_path / "copy"), CliRunner()
    result = runner.invoke(app, ["replica", "rejoin", place, str(tmp_path / "heir")])
    assert result.exit_code == 2 and "no other service took over" in result.output
    result = runner.invoke(app, ["replica", "rejoin", place, str(data)])
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    assert f"{place} lacks the events 4 to 8 of {data}." in output
    assert "2 rows of s: s.1.parquet" in output and "5 events in words: events.txt" in output
    assert f"psoup serve --standby {place} --data-dir {data}" in output
    result = runner.invoke(app, ["replica", "rejoin", place, str(data), "--json"])
    assert result.exit_code == 0 and '"standby_before": true' in result.output.replace('":true', '": true')


def test_writers_that_a_promotion_fenced_become_standbys(tmp_path: Path) -> None:
    """The first writer, and a promoted standby that the next promotion fenced. All have one incarnation."""
    copy = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", copy) as soup:
        begin(soup)
        push(soup, 1)
        wait_for_copy(soup)
        with ExitStack() as standbys:
            first, second = (standbys.enter_context(standby(tmp_path / name, copy)) for name in "ab")
            begin_promotion(first)
            take_up(first)
            push(soup, 99)
            uploader_in(soup)._thread.join(60)
            push(first, 2)
            wait_for_copy(first)
            begin_promotion(second)
            take_up(second)
            push(first, 99)
            uploader_in(first)._thread.join(60)
            push(second, 3)
            wait_for_copy(second)
    for name in ("data", "a"):
        assert rejoin(copy, tmp_path / name).diverged is not None
        assert kept_values(tmp_path / name, "s") == [99]
        assert followed_values(tmp_path / name, copy) == [1, 2, 3]
    with pytest.raises(FailedPrecondition, match="no other service took over"):
        rejoin(copy, tmp_path / "b")

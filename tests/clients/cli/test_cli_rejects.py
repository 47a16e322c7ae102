"""psoup push --rejects of what only the service refuses: files of all formats, each way of pushing, the exit codes."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from psoup_client import Client
from psoup_testing.services.command import Psoup
from psoup_testing.suite.sweeps import swept

MakeStream = Callable[[str], str]

ROWS = [
    {"n": 1, "at": "2026-07-01T12:00:00Z", "x": "a"},
    {"n": 2, "at": "2026-07-01T11:00:00Z", "x": "late"},
    {"n": 3, "at": "2026-07-01T12:00:00Z", "x": "b"},
    {"n": 4, "at": "2126-07-01T12:00:00Z", "x": "ahead"},
    {"n": 5, "at": "2026-07-01T11:59:59Z", "x": "late, too"},
    {"n": 6, "at": "2026-07-01T12:00:01Z", "x": "c"},
]
"""Of these, behind a row of 12:00, two are late and one is ahead."""
WORDS = {"late": "it is too late: its time is below the watermark of the stream"}
OLDER = (
    "Late rows are older than the newest row by more than the stream's LATENESS: push files in the order of time, or"
    " give the stream a greater one (ALTER STREAM … LATENESS)"
)
WORDS["ahead"] = "it is too far ahead of the clock: the sender's clock is fast, or the stream needs a greater AHEAD"


def texts(rows: list[dict[str, Any]]) -> str:
    """Rows as a CSV with a header; the fifth stands on two lines."""
    lines = [f'{row["n"]},{row["at"]},"{row["x"].replace(", ", chr(10))}"' for row in rows]
    return "\n".join(["n,at,x", *lines]) + "\n"


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows in the format that the name says."""
    table = pa.Table.from_pylist(rows)
    match path.name.removeprefix("rows."):
        case "csv":
            path.write_text(texts(rows))
        case "csv.gz":
            path.write_bytes(gzip.compress(texts(rows).encode()))
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
        case "parquet":
            pq.write_table(table, path, row_group_size=2)
        case "arrow":
            pyarrow.feather.write_feather(table, path)
        case name:
            raise AssertionError(name)


@pytest.fixture
def events(client: Client, make_stream: MakeStream) -> str:
    name = make_stream("(n BIGINT, at TIMESTAMP NOT NULL, x TEXT) TIMESTAMP BY at")
    client.push(name, [{"n": 0, "at": "2026-07-01T12:00:00Z"}])
    return name


def written(path: str = "r.csv") -> list[tuple[str, int, str]]:
    """What is in the rejects: the file, the line, the first word of the reason that tells them apart."""
    kinds = {why: kind for kind, why in WORDS.items()}
    with open(path, newline="") as file:
        return [
            (row["file"], int(row["line"]), kinds.get(row["reason"], row["reason"])) for row in csv.DictReader(file)
        ]


def numbers(client: Client, stream: str) -> list[int]:
    """What is in the stream, behind all that was pushed: the reply to a heartbeat names the last event there is."""
    client.heartbeat(stream, "1970-01-01")
    answer = client.ask(f"SELECT n FROM {stream} ORDER BY n").to_arrow()
    return [row["n"] for row in answer.to_pylist()]


LINES = {"csv": (3, 6, 5), "csv.gz": (3, 6, 5), "jsonl": (3, 9, 7), "parquet": (2, 5, 4), "arrow": (2, 5, 4)}
"""Where the two late rows are, and the one ahead."""


WAYS: list[tuple[str, list[str]]] = [(kind, []) for kind in LINES]
WAYS += [(kind, [way]) for kind in ("csv.gz", "parquet") for way in ("--whole", "--ids")]


@pytest.mark.parametrize(("kind", "way"), swept(WAYS, fast=3))
def test_rows_refused_for_their_times_are_written_down(
    psoup: Psoup, client: Client, events: str, tmp_path: Path, kind: str, way: list[str]
) -> None:
    write(tmp_path / f"rows.{kind}", ROWS)
    ran = psoup("push", events, f"rows.{kind}", "--rejects", "r.csv", *way)
    assert ran.code == 6
    assert "refused: 2 too late, 1 too far ahead (r.csv); watermark 2026-07-01T12:00:01Z." in ran.err
    places = zip(LINES[kind], ("late", "late", "ahead"), strict=True)
    assert written() == [(f"rows.{kind}", line, why) for line, why in places]
    assert numbers(client, events) == [0, 1, 3, 6]


@pytest.mark.long
def test_of_several_files_and_pieces(
    psoup: Psoup, client: Client, events: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small pieces, rows that do not fit among the others, and files in which every other row is late."""
    monkeypatch.setattr("psoup_proto.csv_rows.records.PIECE_BYTES", 300)
    expected = set[tuple[str, int, str]]()
    for name in ("1.csv", "2.csv"):
        lines = ["n,at,x"]
        for n in range(200):
            kind = "late" if n % 2 else "unfit" if n % 50 == 0 else ""
            lines.append(f"{'?' if kind == 'unfit' else n},2026-07-01T{11 if kind == 'late' else 13}:00:00Z,x")
            expected |= {(name, n + 2, kind)} if kind else set()
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    for way in ([], ["--whole"], ["--ids"]):
        ran = psoup("push", events, "1.csv", "2.csv", "--rejects", "r.csv", *way)
        assert (ran.code, "200 too late, 8 rejected (r.csv)" in ran.err) == (6, True)
        found = [(file, line, "unfit" if "BIGINT" in why else why) for file, line, why in written()]
        assert (len(found), set(found)) == (len(expected), expected)


def test_standard_input_as_a_whole(psoup: Psoup, events: str) -> None:
    stdin = texts(ROWS).encode()
    ran = psoup("push", events, "-", "--format", "csv", "--whole", "--rejects", "r.csv", stdin=stdin)
    assert ran.code == 6
    assert written() == [("standard input", 3, "late"), ("standard input", 6, "late"), ("standard input", 5, "ahead")]


def test_a_name_that_is_sent_again_writes_the_same(psoup: Psoup, events: str, tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", ROWS)
    said = list[list[tuple[str, int, str]]]()
    for _ in range(2):
        ran = psoup("push", events, "rows.csv", "--whole", "--id", "monday", "--rejects", "r.csv")
        assert ran.code == 6
        said.append(written())
    assert said[0] == said[1] and len(said[0]) == 3
    write(tmp_path / "rows.csv", ROWS[:2])
    assert psoup("push", events, "rows.csv", "--whole", "--id", "monday", "--rejects", "r.csv").code == 6
    assert written() == [], "what was taken under the name were other rows"


def test_the_exit_code_says_what_was_taken(psoup: Psoup, events: str, tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", ROWS[1:2])
    ran = psoup("push", events, "rows.csv", "--rejects", "r.csv")
    assert (ran.code, ran.err) == (5, f"psoup: rows.csv: 1 row is too late, and none was taken. {OLDER}\n")
    assert written() == [("rows.csv", 2, "late")]
    write(tmp_path / "rows.csv", ROWS[:1])
    assert psoup("push", events, "rows.csv", "--rejects", "r.csv").code == 0
    assert written() == []
    write(tmp_path / "rows.csv", ROWS)
    [told] = psoup("push", events, "rows.csv", "--rejects", "r.csv", "--json").rows
    assert (told["accepted"], told["late"], told["ahead"], told["rejected"]) == (3, 2, 1, 0)
    assert "refused" not in told


def test_a_refusal_for_times_says_where_the_rows_are_and_what_helps(psoup: Psoup, events: str, tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", ROWS[3:4])
    ran = psoup("push", events, "rows.csv")
    assert (ran.code, ran.err) == (
        5,
        "psoup: rows.csv: 1 row is too far ahead, and none was taken. Rows that are too far ahead are later than the"
        " service's clock by more than the stream's AHEAD: correct their times, or give the stream a greater one (ALTER"
        " STREAM … AHEAD). --rejects FILE lists the refused rows\n",
    )
    write(tmp_path / "rows.csv", ROWS)
    assert psoup("push", events, "rows.csv").err.endswith("--rejects FILE lists the refused rows.\n")
    assert "--rejects FILE" not in psoup("push", events, "rows.csv", "--rejects", "r.csv").err
    assert "--rejects FILE" not in psoup("push", events, "rows.csv", "--refused", "divert").err


def test_a_derived_stream_takes_no_files(psoup: Psoup, client: Client, events: str, tmp_path: Path) -> None:
    derived = f"{events}_derived"
    client.execute(f"CREATE STREAM {derived} AS (SELECT n FROM {events})")
    try:
        write(tmp_path / "rows.csv", ROWS)
        ran = psoup("push", derived, "rows.csv")
        assert (ran.code, ran.err) == (
            5,
            f"psoup: stream '{derived}' is derived by the service, which alone adds its rows; push the rows into its"
            f" sources: {events}\n",
        )
    finally:
        client.execute(f"DROP STREAM {derived}")


def test_values_that_only_the_service_refused(
    psoup: Psoup, client: Client, make_stream: MakeStream, tmp_path: Path
) -> None:
    """A text that is too long, an infinite time, NULL where the stream has its time: each of them refused alone."""
    name = make_stream("(n BIGINT, at TIMESTAMP, x TEXT, day DATE) TIMESTAMP BY at")
    far, second = 2**63 - 1, 1_000_000
    columns = {
        "n": pa.array(range(6)),
        "at": pa.array([second, second, far, None, second, second], pa.timestamp("us", "UTC")),
        "x": pa.array(["a", "b" * (2**20 + 1), "c", "d", "e", "f"]),
        "day": pa.array([0, 1, 2, 3, 1 - 2**31, 5], pa.int32()).cast(pa.date32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    assert psoup("push", name, "rows.parquet").code == 1
    for way in (["--dry-run"], [], ["--whole"]):
        ran = psoup("push", name, "rows.parquet", "--rejects", "r.csv", *way)
        assert ran.code == 6, ran.err
        assert written() == [
            ("rows.parquet", 2, "the text in column 'x' has 1,048,577 bytes; 1,048,576 is the most in one value"),
            (
                "rows.parquet",
                3,
                "the TIMESTAMP in column 'at' is infinity, which is not a time here; send NULL or a time",
            ),
            ("rows.parquet", 4, "'at' is NULL, but it is the stream's TIMESTAMP BY"),
            ("rows.parquet", 5, "the DATE in column 'day' is -infinity, which is not a time here; send NULL or a time"),
        ]
    assert numbers(client, name) == [0, 0, 5, 5]


def test_refused_raise_ends_the_push_at_the_row(psoup: Psoup, client: Client, events: str, tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", ROWS)
    for way in ([], ["--ids"]):
        ran = psoup("push", events, "rows.csv", "--refused", "raise", *way)
        assert ran.code == 1
        assert "rows.csv: line 3: its time 2026-07-01 11:00:00Z is too late by 1:00:00" in ran.err
        assert "2 more rows are refused. None of the 6 rows was taken" in ran.err
        assert "--refused count" in ran.err and 'refused="count"' not in ran.err
        assert OLDER in ran.err and "0 rows before it were taken." in ran.err
    assert numbers(client, events) == [0]


def test_refused_raise_takes_the_files_as_a_whole(psoup: Psoup, client: Client, events: str, tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", ROWS)
    ran = psoup("push", events, "rows.csv", "--refused", "raise", "--whole", "--rejects", "r.csv")
    assert (ran.code, "None of the 6 rows was taken" in ran.err) == (1, True)
    assert [line for _, line, _ in written()] == [3, 6, 5]
    (tmp_path / "first.csv").write_text(texts(ROWS[:1]))
    files = ("first.csv", "rows.csv")
    for more, given in (((*files,), None), ((*files, "--rejects", "r.csv"), None), (("-", "--format", "csv"), True)):
        typed = texts(ROWS).encode() if given else b""
        ran = psoup("push", events, *more, "--refused", "raise", "--whole", stdin=typed)
        file = "standard input" if given else "rows.csv"
        assert f"{file}: line 3: its time 2026-07-01 11:00:00Z is too late by 1:00:00" in ran.err
        assert f"ask that the other rows are taken (--refused count). {OLDER}" in ran.err
    assert numbers(client, events) == [0]
    write(tmp_path / "rows.csv", [row for row in ROWS if row["n"] in (1, 3)])
    ran = psoup("push", events, "rows.csv", "--refused", "raise", "--whole", "--id", "monday")
    assert (ran.code, numbers(client, events)) == (0, [0, 1, 3])


def test_refused_divert_keeps_the_rows(psoup: Psoup, client: Client, events: str, tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", ROWS)
    ran = psoup("push", events, "rows.csv", "--refused", "divert", "--rejects", "r.csv")
    assert ran.code == 6
    assert (
        f"3 rows taken in 1 batch; refused, and kept in {events}_late: 2 too late, 1 too far ahead (r.csv)" in ran.err
    )
    assert [line for _, line, _ in written()] == [3, 6, 5]
    assert (numbers(client, events), numbers_late(client, events)) == ([0, 1, 3, 6], [2, 4, 5])
    write(tmp_path / "rows.csv", ROWS[1:2])
    ran = psoup("push", events, "rows.csv", "--refused", "divert")
    assert (ran.code, f"none was taken; {events}_late has the late ones" in ran.err) == (5, True)
    ran = psoup("push", events, "rows.csv", "--refused", "divert", "--whole")
    assert (ran.code, "leave --whole out" in ran.err) == (2, True)


def numbers_late(client: Client, stream: str) -> list[int]:
    answer = client.ask(f"SELECT n FROM {stream}_late ORDER BY n").to_arrow()
    return [row["n"] for row in answer.to_pylist()]

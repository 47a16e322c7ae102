"""Tables on standard output: Rich for what is short, row by row for what is long."""

import csv
import datetime as dt
import io
import time
from contextlib import redirect_stdout

import pytest

from psoup_cli.output import SAMPLE, print_list, print_pairs, print_table


def _printed(rows: list[tuple[object, ...]]) -> list[str]:
    out = io.StringIO()
    with redirect_stdout(out):
        print_table(["n", "name", "x"], iter(rows), [True, False, True])
    return out.getvalue().splitlines()


def test_rows_after_the_sample_are_in_line() -> None:
    rows = [(number, f"row {number}" if number % 3 else "日本", None) for number in range(1, 2 * SAMPLE)]
    lines = _printed(rows)
    assert len(lines) == 2 + len(rows)
    assert lines[2 + 400] == " 401   row 401    NULL"  # of the sample, which Rich prints
    assert lines[2 + 1_401] == "1402   row 1402   NULL"
    assert lines[2 + 1_202] == "1203   日本       NULL"
    assert _printed(rows[:2]) == ["n   name       x", "────────────────", "1   row 1   NULL", "2   row 2   NULL"]


def _listed(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: terminal)
    facts = [
        {"name": "a", "labels": {"user": "u,1"}, "at": dt.datetime(2026, 7, 1, tzinfo=dt.UTC), "parts": [1, 2]},
        {"name": 'say "b"\nand c', "labels": {}, "at": None, "parts": []},
    ]
    with redirect_stdout(out):
        print_list(["name", "size"], [("a", 1_000), ("b and c", 2)], facts, [False, True])
    return out.getvalue()


def test_a_list_is_csv_in_a_pipe_and_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert _listed(terminal=True, monkeypatch=monkeypatch).splitlines() == [
        "name      size",
        "──────────────",
        "a         1000",
        "b and c      2",
    ]
    piped = _listed(terminal=False, monkeypatch=monkeypatch)
    assert list(csv.reader(io.StringIO(piped, newline=""))) == [
        ["name", "labels", "at"],
        ["a", '{"user": "u,1"}', "2026-07-01T00:00:00Z"],
        ['say "b"\nand c', "{}", ""],
    ]


def test_no_line_of_a_table_ends_with_blanks() -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        print_table(["n", "name"], [(1, "long enough"), (2, "short")])
        print_pairs([("name", "long enough"), ("n", 1)])
    assert [line for line in out.getvalue().splitlines() if line != line.rstrip()] == []
    assert len(out.getvalue().splitlines()) == 6


def test_a_long_value_pushes_the_rest_of_its_row() -> None:
    rows: list[tuple[object, ...]] = [(1, "a", 2)] * SAMPLE + [(1, "a long one", 2), (3, "b", 4)]
    assert _printed(rows)[-2:] == ["1   a long one   2", "3   b      4"]


@pytest.mark.long
def test_many_rows_take_seconds_not_minutes() -> None:
    started = time.thread_time()
    _printed([(number, "some text", 2.5) for number in range(100_000)])
    assert time.thread_time() - started < 20

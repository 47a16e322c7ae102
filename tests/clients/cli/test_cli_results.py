"""psoup results: tuples down, queries across."""

import json
import sys
from pathlib import Path

import pytest

from psoup_testing.services.command import ROWS, Psoup


def test_a_picture(psoup: Psoup, filled: str) -> None:
    some = psoup("register", f"SELECT id FROM {filled} WHERE id <> 2", "--key", "others").out.strip()
    every = psoup("register", f"SELECT id FROM {filled}", "--label", "user=u1").out.strip()
    drawn = psoup("results", filled)
    assert drawn.out.splitlines()[-4:] == [
        "0        # #",
        "1        . #",
        "2        # #",
        f"1 others: 2   2 {every}: 3",
    ]
    assert drawn.err == ""
    last = psoup("results", filled, "--last", "1", "--query", "others")
    assert last.out.splitlines()[1:] == ["2        #", "1 others: 1"]
    assert last.err == ""  # what was asked for is there
    assert psoup("results", filled, "--query", "others", "--json").rows == [
        {"tuple_id": 0, "query_ids": [some]},
        {"tuple_id": 1, "query_ids": []},
        {"tuple_id": 2, "query_ids": [some]},
    ]
    assert psoup("results", filled, "--label", "user=u1").out.splitlines()[0] == "tuple    1"
    assert psoup("results", filled, "--label", "user=no").err.startswith("No query is on that stream")


def test_what_is_wrong(psoup: Psoup, filled: str) -> None:
    assert psoup("results", "nothing").code == 4
    assert psoup("results", filled, "--query", "none").code == 4
    assert psoup("results", filled, "--begin", "x").code == 2
    assert psoup("results", filled, "--query", "a", "--label", "b=c").code == 2


def test_a_terminal_is_not_overrun(psoup: Psoup, filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = tmp_path / "more.jsonl"
    more.write_text("".join(json.dumps({**ROWS[2], "id": number}) + "\n" for number in range(40)))
    assert psoup("push", filled, str(more)).code == 0
    several = tmp_path / "queries.csv"
    several.write_text("id,key\n" + "".join(f"{number},a-long-key-{number}\n" for number in range(40)))
    told = psoup("register", f"SELECT id FROM {filled} WHERE id > $id", "--params", str(several), "--key", "key")
    assert told.code == 0
    monkeypatch.setenv("LINES", "20")
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    drawn = psoup("results", filled)
    lines = [*drawn.out.splitlines(), *drawn.err.splitlines()]
    assert len(lines) <= 20
    assert max(map(len, drawn.out.splitlines())) <= 50
    assert lines[0].split()[1:] == [str(number % 10) for number in range(1, 22)]
    assert lines[10].split()[0] == "42"  # the newest
    assert drawn.err.startswith("Left out: older tuples, later queries, names of queries. ")

"""psoup recharge: a file of copies is filled, brought up to date, read without a service, and told what is wrong."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from psoup_testing.services.command import Psoup


def rows_of(out: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(out)))


def test_copies_are_kept_in_a_file(psoup: Psoup, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ([], ["watch"], ["status"], ["forget", "x"], ["history"]):
        ran = psoup("recharge", *command)
        assert (ran.code, "psoup-recharge.db does not exist; name another" in ran.err) == (4, True), command
    assert psoup("recharge", "add", "all_rows", f"SELECT * FROM {filled} BEGIN (START)").code == 0
    number = ["--priority", "2", "--fresh", "15min"]
    assert psoup("recharge", "add", "number", f"SELECT count(*) AS n FROM {filled} BEGIN (START)", *number).code == 0
    first = psoup("recharge")
    assert [(row["name"], row["state"]) for row in rows_of(first.out)] == [
        ("number", "complete"),
        ("all_rows", "complete"),
    ]
    again = psoup("recharge", "--budget", "200kB", "--max-time", "10s", "--json")
    assert [json.loads(line)["name"] for line in again.out.splitlines()] == ["all_rows"]
    assert "fresh enough: number" in again.err
    monkeypatch.setenv("PSOUP_ADDRESS", "127.0.0.1:1")  # nothing is there
    shown = psoup("recharge", "show", "ALL_rows")
    count = len(rows_of(shown.out))
    assert count > 0 and f"{count} rows, as of 2024-05-01 14:00:00Z, " in shown.err and " ago." in shown.err
    assert json.loads(psoup("recharge", "show", "number", "--json").out) == {"n": count}
    assert rows_of(psoup("recharge", "show", "--sql", "SELECT count(*) AS n FROM all_rows").out) == [{"n": str(count)}]
    listed = [json.loads(line) for line in psoup("recharge", "status", "--json").out.splitlines()]
    assert [(row["name"], row["rows"], row["certainty"], row["clock_set"]) for row in listed] == [
        ("number", 1, "as of", 0),
        ("all_rows", count, "as of", 0),
    ]
    assert all(0 <= row["age"] < 900 and row["estimated_now"] for row in listed)
    lines = [json.loads(line) for line in psoup("recharge", "history", "--json").out.splitlines()]
    assert [(line["left_out"], line["why"]) for line in lines] == [("", ""), ("", "")]
    assert [row["name"] for row in rows_of(psoup("recharge", "history", "--copies").out)] == [
        "all_rows",
        "all_rows",
        "number",
    ]
    assert psoup("recharge").code == 3, "no service"
    assert "its query stands" in psoup("recharge", "forget", "number", "--keep-query").err


def test_adding_a_name_again_says_what_it_did(psoup: Psoup, filled: str) -> None:
    first, other = (f"SELECT * FROM {filled} {rest}BEGIN (START)" for rest in ("", "LIMIT 1 "))
    psoup("recharge", "add", "here", first, "--priority", "3")
    psoup("recharge")
    assert "keeps here already; nothing has changed" in psoup("recharge", "add", "HERE", first, "--priority", "3").err
    again = psoup("recharge", "add", "here", first, "--order", "oldest")
    assert "here already; priority is none instead of 3.0, order is oldest instead of newest" in again.err
    refused = psoup("recharge", "add", "here", other)
    assert refused.code == 5 and f"has a copy here already, of the statement {first}; with --replace" in refused.err
    assert "of the query with the key k" in psoup("recharge", "add", "here", "--key", "k").err
    assert [row["rows"] for row in rows_of(psoup("recharge", "status").out)] == ["3"]
    assert psoup("recharge", "add", "here", other, "--replace").code == 0
    assert [row["rows"] for row in rows_of(psoup("recharge").out)] == ["1"]
    assert psoup("recharge", "forget", "here").code == 0
    for command in ([], ["watch"]):
        ran = psoup("recharge", *command)
        assert ran.code == 0 and "keeps no query yet" in ran.err


def test_what_is_wrong_is_told(psoup: Psoup, filled: str, tmp_path: Path) -> None:
    assert psoup("recharge", "add", "bad", "SELECT nothing FROM nowhere").code == 0
    assert psoup("recharge", "add", "good", f"SELECT * FROM {filled} BEGIN (START)").code == 0
    ran = psoup("recharge")
    assert ran.code == 1 and "nowhere" in rows_of(ran.out)[0]["state"]
    assert rows_of(ran.out)[1]["state"] == "complete"
    assert "nowhere" in psoup("recharge", "status").out
    for arguments, code, what in (
        (["--budget", "12 parsecs"], 2, "no number of bytes"),
        (["--max-time", "soon"], 2, "no span of time"),
        (["add", "a", "SELECT 1", "--fresh", "often"], 2, "--fresh is 'often', no span of time: 10s"),
        (["add", "a", "SELECT 1", "--share", "2"], 1, "share is 2.0; it is a part of the budget"),
        (["add", "a", "SELECT 1", "--order", "best"], 1, "it is newest or oldest"),
        (["--only", "missing"], 4, "keeps no query 'missing'"),
        (["add", "1a", "SELECT 1"], 1, "not a valid name of a copy"),
        (["add", "a"], 1, "one of them"),
        (["show", "missing"], 4, "keeps no query 'missing'"),
        (["show"], 2, "give the name of a copy"),
        (["show", "--sql", "DROP TABLE queries"], 1, "SQLite says"),
        (["forget", "missing"], 4, "keeps no query 'missing'"),
        (["--profile", "missing.toml"], 1, "missing.toml: No such file"),
        (["--store", "missing.db", "status"], 4, "missing.db does not exist; name another with --store"),
        (["--store", "missing.db", "show", "bad"], 4, "missing.db does not exist"),
        (["--store", str(tmp_path), "status"], 1, "is a folder, a pipe or a device"),
        (["--store", "/dev/zero", "add", "a", "SELECT 1"], 1, "/dev/zero is a folder, a pipe or a device"),
        (["--store", "missing/there.db", "add", "a", "SELECT 1"], 1, "cannot be opened"),
        (["--budget", "1kB", "watch"], 2, "--budget is for psoup recharge alone, not for watch"),
        (["--address", "127.0.0.1", "forget", "bad"], 2, "--address stands behind forget"),
    ):
        ran = psoup("recharge", *arguments)
        assert ran.code == code and what in ran.err, arguments
    profile = tmp_path / "profile.toml"
    profile.write_text(f'[more]\nsql = "SELECT * FROM {filled} LIMIT 1 BEGIN (START)"\npriority = 7\n')
    assert rows_of(psoup("recharge", "--profile", str(profile)).out)[0]["name"] == "more"
    assert "unregistered" in psoup("recharge", "forget", "good").err
    psoup(
        "recharge", "add", "large", f"SELECT *, _id FROM {filled} BEGIN (START)", "--share", "0.5", "--order", "oldest"
    )
    err = psoup("recharge", "--budget", "60B").err
    assert "the bytes were spent, left for next time: " in err and "large" in err


def test_the_store_is_named_before_or_behind_a_command(psoup: Psoup, filled: str) -> None:
    """A command's own option wins over the group's option."""
    statement = f"SELECT * FROM {filled} BEGIN (START)"
    assert psoup("recharge", "add", "here", statement, "--store", "x.db").code == 0
    assert psoup("recharge", "--store", "x.db").code == 0
    for command in (["show", "here"], ["status"], ["history"], ["forget", "here", "--keep-query"]):
        before = psoup("recharge", "--store", "x.db", *command) if command[0] != "forget" else None
        behind = psoup("recharge", "--store", "no.db", *command, "--store", "x.db")
        assert behind.code == 0, behind.err
        assert before is None or len(before.out) == len(behind.out) or command == ["status"]
        assert "no.db does not exist" in psoup("recharge", "--store", "x.db", *command, "--store", "no.db").err
    assert not Path("psoup-recharge.db").exists()


def test_the_clocks_address_is_named_before_or_behind_accept(psoup: Psoup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSOUP_ADDRESS", "127.0.0.1:1")  # nothing is there
    for place in (["clock", "--address", "127.0.0.1:2", "accept"], ["clock", "accept", "--address", "127.0.0.1:2"]):
        assert "no PSoup service answers at 127.0.0.1:2" in psoup(*place).err
    assert "--json is for psoup clock alone" in psoup("clock", "--json", "accept").err

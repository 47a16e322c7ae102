"""psoup register --amount, psoup alter, and the column of amounts."""

from __future__ import annotations

import sys

import pytest

from psoup_testing.services.command import Psoup


def registered(psoup: Psoup, sql: str, *more: str) -> str:
    ran = psoup("register", sql, *more)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def kept(psoup: Psoup, stream: str) -> list[tuple[str, bool, bool]]:
    return [(row["amount"], row["eager"], row["active"]) for row in psoup("queries", "--stream", stream, "--json").rows]


def test_queries_are_registered_with_an_amount_and_listed(
    psoup: Psoup, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    registered(psoup, f"SELECT id FROM {filled}")
    assert psoup("queries", "--stream", filled).out.split()[:3] == ["id", "window", "query"]
    registered(psoup, f"SELECT id FROM {filled}", "--amount", "none", "--inactive")
    eager = registered(psoup, f"SELECT id FROM {filled}", "--amount", "complete", "--eager")
    registered(psoup, f"SELECT id FROM {filled}", "--inactive")
    registered(psoup, f"SELECT id FROM {filled}", "--amount", "auto")
    registered(psoup, f"SELECT id FROM {filled}", "--amount", "auto", "--inactive")
    assert kept(psoup, filled) == [
        ("partial", False, True),
        ("none", False, False),
        ("complete", True, True),
        ("partial", False, False),
        ("auto", False, True),
        ("auto", False, False),
    ]
    lines = psoup("queries", "--stream", filled).out.splitlines()
    assert lines[0].split() == ["id", "amount", "window", "query"]
    assert [line.split("landmark")[0].partition(" ")[2].strip() for line in lines[2:]] == [
        "",
        "none, inactive",
        "complete, eager",
        "partial, inactive",
        "auto (partial)",
        "auto, inactive",
    ]
    assert psoup("invoke", eager).out == psoup("invoke", registered(psoup, f"SELECT id FROM {filled}")).out


def test_queries_are_altered_with_a_count_and_a_question(psoup: Psoup, filled: str) -> None:
    for number in range(3):
        registered(psoup, f"SELECT id FROM {filled}", "--key", f"{filled}/{number}", "--label", f"of={filled}")
    query = registered(psoup, f"SELECT id FROM {filled} WHERE id > 1")
    before = psoup("invoke", query).out
    done = psoup("alter", query, "--amount", "complete", "--eager")
    assert (done.code, done.err) == (0, "Changed 1 query.\n")
    assert psoup("alter", query, "--amount", "complete").err == "Changed 0 queries; 1 is so already.\n"
    assert psoup("invoke", query).out == before
    key = f"{filled}/1"
    assert psoup("alter", "--key", key, "--inactive").err == "Changed 1 query.\n"
    counted = psoup("alter", "--label", f"of={filled}", "--inactive", "--dry-run")
    assert (counted.code, counted.err) == (0, "Would change 2 queries; 1 is so already.\n")
    refused = psoup("alter", "--label", f"of={filled}", "--inactive")
    assert (refused.code, refused.err) == (1, "Change 2 queries? Nothing was done: say --yes.\n")
    assert kept(psoup, filled)[0] == ("partial", False, True)
    done = psoup("alter", "--label", f"of={filled}", "--inactive", "--yes")
    assert (done.code, done.err) == (0, "Changed 2 queries; 1 is so already.\n")
    assert psoup("alter", "--key-prefix", f"{filled}/", "--active", "--amount", "none", "--yes").code == 0
    assert kept(psoup, filled) == [*[("none", False, True)] * 3, ("complete", True, True)]
    assert psoup("alter", "--key-prefix", f"{filled}/x", "--active").err == "Changed 0 queries.\n"
    assert psoup("alter", query, "--no-eager").err == "Changed 1 query.\n"


def test_a_repeated_registration_says_that_the_amount_stays(psoup: Psoup, filled: str) -> None:
    arguments = ("register", f"SELECT id FROM {filled}", "--key", f"{filled}/again", "--amount")
    assert "registered before" not in psoup(*arguments, "none").err
    again = psoup(*arguments, "complete")
    assert again.code == 0 and "registered before, with amount none: it stays so" in " ".join(again.err.split())
    assert kept(psoup, filled) == [("none", False, True)]


def test_queries_are_parked_and_listed(psoup: Psoup, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    query = registered(psoup, f"SELECT id FROM {filled}", "--parked")
    other = registered(psoup, f"SELECT id FROM {filled}")
    answer = psoup("invoke", other).out
    assert psoup("alter", other, "--parked").err == "Changed 1 query.\n"
    lines = psoup("queries", "--stream", filled).out.splitlines()
    assert [line.split("landmark")[0].partition(" ")[2].strip() for line in lines[2:]] == ["partial, parked"] * 2
    assert "parked (inactive, and not in memory): evaluated at each invocation" in psoup("explain", query).out
    assert psoup("alter", query, "--not-parked").err == psoup("alter", other, "--active").err == "Changed 1 query.\n"
    assert kept(psoup, filled) == [("partial", False, False), ("partial", False, True)]
    assert psoup("invoke", query).out == psoup("invoke", other).out == answer
    assert "this call says active" in psoup("alter", query, "--active", "--parked").err


def test_what_is_wrong_is_named(psoup: Psoup, stream: str) -> None:
    query = registered(psoup, f"SELECT id FROM {stream}")
    for arguments, said in (
        (["--amount", "none"], "give IDs of queries, or --key, or --label, or --key-prefix"),
        ([query, "--key", "x", "--amount", "none"], "give IDs of queries, or --key, or --label, or --key-prefix"),
        ([query], "say what to change: --amount, --eager, --no-eager, --active, --inactive, --parked or --not-parked"),
        ([query, "--amount", "all"], "'all' is not one of 'none', 'partial', 'complete'"),
        (["--label", "of", "--active"], "--label 'of' is not NAME=VALUE"),
    ):
        wrong = psoup("alter", *arguments)
        assert wrong.code == 2 and said in " ".join(wrong.err.split()), wrong.err
    assert psoup("alter", "q-00000000-1", "--active").code == 4
    assert psoup("alter", "--key", "missing", "--active").code == 4
    assert psoup("register", f"SELECT id FROM {stream}", "--amount", "some").code == 2
    assert len(kept(psoup, stream)) == 1

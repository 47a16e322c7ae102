"""psoup check: what a statement would be."""

from __future__ import annotations

from psoup_testing.services.command import Psoup
from psoup_testing.services.reply_wait import asked_until


def test_a_statement_is_checked_without_being_registered(psoup: Psoup, filled: str) -> None:
    assert "3 tuples" in psoup("check", f"SELECT a.id FROM {filled} a").out
    checked = psoup("check", f"SELECT id FROM {filled}", "--json").rows[0]
    assert (checked["columns"], checked["tuples"]) == ([{"name": "id", "type": "BIGINT"}], 3)
    refused = psoup("check", f"SELECT ix FROM {filled}")
    assert refused.code == 1 and "line 1, column 8" in refused.err
    assert psoup("queries", "--stream", filled, "--json").rows == []


def test_a_check_shows_the_clocks_of_the_plan(psoup: Psoup, filled: str) -> None:
    sliding = f"SELECT a.id FROM {filled} [ROWS 9] a, {filled} [RANGE 1 HOUR] b WHERE a.id = b.id"
    assert f"weak, time, rows of {filled}" in psoup("check", sliding).out
    first = psoup("check", sliding, "--json").rows[0]["plan"][0]
    assert (first["clocks"], first["settled_pattern"], first["settled_after"]) == (
        ["time", f"rows of {filled}"],
        None,
        None,
    )
    assert psoup("stream", "create", f"CREATE STREAM {filled}_due (id BIGINT, t TIMESTAMP) TIMESTAMP BY t").code == 0
    band = "v.t BETWEEN d.t AND d.t + INTERVAL 90 SECONDS"
    absent = f"SELECT d.id FROM {filled}_due d ANTI JOIN {filled}_due v ON v.id = d.id AND {band}"
    assert f"strict, rows of {filled}_due; monotonic after 0:01:30" in psoup("check", absent).out
    first = psoup("check", absent, "--json").rows[0]["plan"][0]
    assert (first["settled_pattern"], first["settled_after"]) == ("monotonic", 90)


def test_a_check_shows_the_bound_of_the_state(psoup: Psoup, filled: str) -> None:
    text = psoup("check", f"SELECT DISTINCT id FROM {filled} [ROWS 9]").out
    assert "distinct: at most 9 rows, 81 bytes" in text and "source: at most 9 rows" in text
    assert "state" not in psoup("check", f"SELECT id FROM {filled}").out
    first = psoup("check", f"SELECT DISTINCT id FROM {filled}", "--json").rows[0]["plan"][0]
    reason = f"tuples of '{filled}' never leave it"
    assert first["state"] == {"rows": None, "nbytes": None, "text": f"unbounded, as {reason}", "unbounded": reason}


def test_a_derived_stream_shows_the_bound_of_its_state(psoup: Psoup, filled: str) -> None:
    select = f"SELECT DISTINCT id FROM {filled} [RANGE 1 HOUR]"
    assert psoup("stream", "create", f"CREATE STREAM {filled}_ids AS ({select})").code == 0
    text = asked_until(lambda: psoup("stream", "show", f"{filled}_ids").out, lambda text: "state bound" in text)
    assert f"the tuples of {filled} of 1 HOUR" in text
    assert psoup("stream", "drop", f"{filled}_ids", "--yes").code == 0

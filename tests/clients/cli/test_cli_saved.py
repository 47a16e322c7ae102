"""Saved searches in the shell: replaced, listed before they expire."""

from __future__ import annotations

from psoup_testing.services.command import Psoup


def test_a_query_is_replaced_and_shows_when_it_expires(psoup: Psoup, filled: str) -> None:
    sql = f"SELECT * FROM {filled}"
    first = psoup("register", sql, "--key", "k", "--expires-after", "90 days").out.strip()
    refused = psoup("register", f"{sql} LIMIT 5", "--key", "k")
    assert "its text is" in refused.err and "it expires after 90 days" in refused.err
    later = psoup("register", f"{sql} LIMIT 5", "--key", "k", "--replace", "--expires-after", "7 days").out.strip()
    assert f"was replaced by '{later}'" in psoup("invoke", first).err
    listed = psoup("queries", "--expiring", "9 days").out
    assert "expires" in listed.splitlines()[0] and later in listed
    assert "No query expires" in psoup("queries", "--expiring", "2 days").err
    psoup("unregister", later)
    assert "--replace is for queries with a --key" in psoup("register", sql, "--replace").err

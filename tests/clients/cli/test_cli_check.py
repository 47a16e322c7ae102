"""psoup check: what a statement would be."""

from __future__ import annotations

from psoup_testing.services.command import Psoup


def test_a_statement_is_checked_without_being_registered(psoup: Psoup, filled: str) -> None:
    assert "3 tuples" in psoup("check", f"SELECT a.id FROM {filled} a").out
    checked = psoup("check", f"SELECT id FROM {filled}", "--json").rows[0]
    assert (checked["columns"], checked["tuples"]) == ([{"name": "id", "type": "BIGINT"}], 3)
    refused = psoup("check", f"SELECT ix FROM {filled}")
    assert refused.code == 1 and "line 1, column 8" in refused.err
    assert psoup("queries", "--stream", filled, "--json").rows == []

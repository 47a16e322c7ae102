"""psoup status says what answers show, what they do not show yet, and how queries are kept."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

import pytest

from psoup_client import Client
from psoup_testing.services.command import ROWS, Psoup


def test_status_says_how_many_events_are_not_visible(
    psoup: Psoup, stream: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.wait_for(client.push(stream, [ROWS[0]]).sequence)
    info = client.info()
    assert info.acknowledged == info.sequence > 0
    assert re.search(rf"^sequence +{info.sequence:,}, the last event that answers show *$", psoup("status").out, re.M)
    behind = dataclasses.replace(info, sequence=7, acknowledged=10)
    monkeypatch.setattr(Client, "info", lambda _: behind)
    said = psoup("status").out
    assert "7, the last event that answers show; 3 acknowledged events are not visible yet" in said
    assert dataclasses.replace(info, sequence=7, acknowledged=0).not_visible == 0  # an older service


def test_status_says_why_changes_are_refused(
    psoup: Psoup, stream: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = client.info()
    assert info.refusing == ""
    assert "refused:" not in psoup("status").out
    full = dataclasses.replace(info, refusing="the disk of data is full")
    monkeypatch.setattr(Client, "info", lambda _: full)
    assert re.search(r"^changes +refused: the disk of data is full *$", psoup("status").out, re.M)
    assert psoup("status", "--json").rows[0]["refusing"] == "the disk of data is full"


def test_status_shows_how_queries_are_kept(psoup: Psoup, stream: str, client: Client) -> None:
    def numbers() -> Counter[str]:
        counts = client.info().queries
        assert counts is not None
        return Counter(dataclasses.asdict(counts))

    before, sql = numbers(), f"SELECT id FROM {stream}"
    client.register(sql)
    client.register(sql, amount="none")
    client.register(sql, amount="complete")
    client.register(sql, amount="complete", eager=True)
    client.register(sql, amount="auto")
    client.register(sql, amount="complete", eager=True, active=False)
    client.register_many(f"{sql} WHERE id = ?", [(1,), (2,)], parked=True)
    after = numbers()
    assert after - before == Counter(none=1, partial=2, complete=2, eager=1, auto=1, inactive=3, parked=2)
    said = psoup("status").out
    active = "{none} none, {partial} partial, {complete} complete ({eager} eager)".format(**after)
    assert re.search(rf"^amounts +of active queries: {re.escape(active)} *$", said, re.M)
    assert re.search(rf"^auto +{after['auto']} quer(y|ies) whose amount the service chooses *$", said, re.M)
    assert re.search(rf"^inactive +{after['inactive']} queries, {after['parked']} of them parked *$", said, re.M)
    assert psoup("status", "--json").rows[0]["queries"] == dict(after)

"""psoup status says what answers show, and what they do not show yet."""

from __future__ import annotations

import dataclasses
import re

import pytest

from psoup_client import Client
from psoup_testing.services.command import ROWS, Psoup


def test_status_says_how_many_events_are_not_visible(
    psoup: Psoup, stream: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.push(stream, [ROWS[0]])
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

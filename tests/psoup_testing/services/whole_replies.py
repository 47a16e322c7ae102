"""Replies about many queries that no clock ends: a test that reads one reply finds all outcomes in it."""

import pytest

from psoup_service.servicers import costs, many, sync
from psoup_service.watching import pages

_LONG_S = 3_600.0


def make_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let replies take an hour. In production they end after some tenths of a second, and the client asks again."""
    monkeypatch.setattr(many, "MANY_S", _LONG_S)
    monkeypatch.setattr(sync, "MANY_S", _LONG_S)
    monkeypatch.setattr(costs, "_MATCHES_S", _LONG_S)
    monkeypatch.setattr(pages, "_LONGEST_S", _LONG_S)

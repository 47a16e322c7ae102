"""Keys and labels over random histories with restarts: what is found is what stands."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from psoup.published import replaced
from psoup_storage.durable.log import departures, slices
from psoup_testing.tagging import KEPT, TagHistory

HISTORIES, STEPS = 6, 60


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "SLICE", 8)
    monkeypatch.setattr(slices, "KEPT_REPLACEMENTS", KEPT)
    monkeypatch.setattr(replaced.Succession.__init__, "__defaults__", (KEPT,))


@pytest.mark.parametrize("columnar", [1, 1_000])
def test_what_is_found_by_keys_and_labels_is_what_stands(tmp_path: Path, columnar: int) -> None:
    met = set[str]()
    for number in range(HISTORIES):
        history = TagHistory(tmp_path / str(number), random.Random(number), columnar)
        history.run(STEPS)
        met |= history.met
    assert met == {
        *("conflict", "again", "block conflict", "block again", "replaced", "block replaced", "expired"),
        *("restart", "killed", "restored"),
        *(f"at once by {what}" for what in ("IDs", "labels", "keys")),
    }

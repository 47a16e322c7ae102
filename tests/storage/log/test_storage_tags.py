"""Keys and labels over random histories with restarts: what is found is what stands."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _pytest.outcomes import Failed

from psoup.admission.queries import registration
from psoup.admission.queries.holders import KeyHolders
from psoup.admission.queries.tags import KnownTags
from psoup.engine.registry import Registry
from psoup.errors import PSoupError
from psoup.published import departures as replaced
from psoup.published.lifetimes import Lifetimes
from psoup_storage.durable.log import departures, slices
from psoup_testing.oracles.tags import KEPT, TagHistory
from psoup_testing.suite.sweeps import swept

HISTORIES, STEPS = 6, 60


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "SLICE", 8)
    monkeypatch.setattr(slices, "KEPT_REPLACEMENTS", KEPT)
    monkeypatch.setattr(replaced.Succession.__init__, "__defaults__", (KEPT,))


@pytest.mark.long
@pytest.mark.parametrize("columnar", swept([1, 1_000], fast=1))
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


def _key_is_free_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KnownTags, "query_of", lambda *_: -1)


def _block_is_returned_in_part(patch: pytest.MonkeyPatch) -> None:
    held = registration.held

    def careless(*call: Any) -> KeyHolders | None:
        known = held(*call)
        if known is None or known.sequence or len(known.replaced) == 1 or known.replaced[0] < 0:
            return known
        return KeyHolders(known.replaced, 1, int(known.replaced[0]))

    patch.setattr(registration, "held", careless)


def _label_of_a_removed_query_is_found(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registry, "replace", lambda *_: [])


def _forgotten_row_takes_its_replacement_along(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slices, "_left_of", lambda *_: None)


def _kill_shortens_lives(patch: pytest.MonkeyPatch) -> None:
    restore = Lifetimes.restore
    patch.setattr(Lifetimes, "restore", lambda self, saved, now: bool(saved) and restore(self, saved, now))


BUGS = (
    _key_is_free_too_early,
    _block_is_returned_in_part,
    _label_of_a_removed_query_is_found,
    _forgotten_row_takes_its_replacement_along,
    _kill_shortens_lives,
)


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS)
def test_the_histories_find_known_bugs(
    bug: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    for number in range(20):
        history = TagHistory(tmp_path / str(number), random.Random(number), 1)
        try:
            history.run(STEPS)
        except (AssertionError, Failed, PSoupError, KeyError):
            history.soup.store.close()
            return
    pytest.fail("no history fails")

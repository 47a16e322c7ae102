"""States that remove unused rows and values as soon as they are half of all, also in short histories."""

from __future__ import annotations

import pytest

from psoup.delta import value_table


@pytest.fixture(autouse=True)
def _small_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_table, "FEW", 1)

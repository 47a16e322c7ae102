"""No clock ends a reply about many queries: a busy machine would end it before its last outcome."""

import pytest

from psoup_testing.services.whole_replies import make_whole


@pytest.fixture(autouse=True)
def whole_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    make_whole(monkeypatch)

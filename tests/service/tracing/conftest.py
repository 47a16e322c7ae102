"""A collector has a minute for each request, also for the last one: a busy machine would drop spans."""

import pytest

from psoup_service.tracing import exporter


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_TIMEOUT_S", "_LAST_S", "_END_S"):
        monkeypatch.setattr(exporter, name, 60.0)

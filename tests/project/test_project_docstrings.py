"""Examples in docstrings do what they show."""

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup_testing.services.threaded_service import serving

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "psoup": ".",
    "psoup_storage": "storage",
    "psoup_service": "service",
    "psoup_client": "clients",
    "psoup_cli": "clients",
}


def modules_with_examples() -> list[str]:
    names = []
    for package, folder in PLACES.items():
        for path in sorted((ROOT / folder / package).rglob("*.py")):
            if ">>> " in path.read_text():
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                names.append(".".join(part for part in parts if part != "__init__"))
    return names


@pytest.fixture
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples of the SDK find a service of their own at `Client()`."""
    if not request.node.callspec.params["name"].startswith("psoup_client"):
        yield
        return
    with serving() as running:
        monkeypatch.setenv("PSOUP_ADDRESS", running.address)
        yield


@pytest.mark.parametrize("name", modules_with_examples())
@pytest.mark.usefixtures("service")
def test_examples_of_a_module(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0
    assert results.attempted > 0

"""Optional packages that settings need, looked for before a start compiles kernels and opens the data."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from psoup.errors import InvalidInput
from psoup_service.process.settings import Settings


def check_extras(settings: Settings, spec: Callable[[str], Any] = find_spec) -> None:
    """Raise InvalidInput for a setting whose package is not installed. `spec` is None for a missing package."""
    if settings.mcp and spec("mcp") is None:
        raise missing_mcp()


def missing_mcp() -> InvalidInput:
    """The error for the setting mcp without its package."""
    return InvalidInput(
        "mcp = true needs the package mcp, which is not installed: pip install 'psoup[server,mcp]'", reason="EXTRA"
    )

"""The service, for the commands that run or configure it. Only these commands import it.

All other commands work even if the service's code is missing or broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from psoup_cli.common import message

if TYPE_CHECKING:
    from psoup_service.process.settings_sources import Loaded


def load_settings(flags: Mapping[str, Any], config: str | None) -> Loaded:
    """Load the service's settings and print their notices. A refused setting is a usage error, exit code 2."""
    from psoup.errors import InvalidInput
    from psoup_service.process.settings_sources import load

    try:
        loaded = load(flags, config=Path(config) if config else None)
    except InvalidInput as problem:
        raise typer.BadParameter(problem.message) from None
    for notice in loaded.notices:
        message(f"psoup: {notice}")
    return loaded

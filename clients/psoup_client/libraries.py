"""Libraries that the client uses if they are installed: pandas and Polars."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def library(name: str) -> Any:
    """Import a library. Raises ModuleNotFoundError, with the command of pip that installs it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name != name:
            raise
        text = f"a frame of {name} needs {name}, which is not installed: pip install 'psoup[{name}]'"
        raise ModuleNotFoundError(text, name=name) from None

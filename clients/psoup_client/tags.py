"""Checks of keys and labels before a request is sent. The error names the argument."""

from __future__ import annotations

from collections.abc import Mapping

from psoup_client.errors import InvalidData


def check_key(key: str | None) -> None:
    """Raise InvalidData for an empty key, because a request cannot distinguish it from no key."""
    if key == "":
        raise InvalidData("the key is empty; give a text, or leave it out")


def check_labels(labels: object) -> None:
    """Raise TypeError for labels that are not a dict of texts."""
    if labels is not None and not isinstance(labels, Mapping):
        raise TypeError(f"labels is {labels!r}: give a dict of texts")
    for name, value in (labels or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"label {name!r} is {value!r}: its name and its value are texts")

"""The values of a setting in words: `a whole number from 0 to 65,535`, `auto, json or console`."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text that is not empty"}


def allowed(field: FieldInfo) -> str:
    """The allowed values of a setting, as words for the operator that gave another one."""
    kind = _kind(field.annotation)
    if get_origin(kind) is tuple:
        return "a list of texts"
    if get_origin(kind) is Literal:
        *others, last = map(str, get_args(kind))
        return f"{', '.join(others)} or {last}"
    limits = {
        name: limit
        for bound in field.metadata
        for name in ("ge", "gt", "le")
        if (limit := getattr(bound, name, None)) is not None
    }
    return f"{_KINDS[kind]}{_range(**limits)}"


def _range(ge: float | None = None, gt: float | None = None, le: float | None = None) -> str:
    if ge is not None:
        return f", {ge:,} or more" if le is None else f" from {ge:,} to {le:,}"
    if gt is not None:
        return f" over {gt:,}" if le is None else f" over {gt:,}, {le:,} at most"
    return ""


def _kind(annotation: Any) -> Any:
    """The type without None, which stands for a setting that is not set."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next(kind for kind in get_args(annotation) if kind is not type(None))
    return annotation

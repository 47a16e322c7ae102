"""Refusal of text that UTF-8 cannot hold: the error of protobuf itself names neither the text nor a way out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from psoup_client.errors import InvalidRequest

T = TypeVar("T", bound=type)


def refusing_surrogates(cls: T) -> T:
    """Make the public methods of a class raise InvalidRequest for text with half of a surrogate pair in it."""
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, _generator(method) if inspect.isgeneratorfunction(method) else _plain(method))
    return cls


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except UnicodeEncodeError as problem:
            raise _refusal(problem) from None

    return call


def _generator(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from method(*arguments, **named)
        except UnicodeEncodeError as problem:
            raise _refusal(problem) from None

    return call


def _refusal(problem: UnicodeEncodeError) -> InvalidRequest:
    text, place = str(problem.object), problem.start
    return InvalidRequest(
        f"the text is not UTF-8: {text[place]!a} at position {place} of {text[:40]!a} is half of a surrogate pair;"
        " decode the bytes that it comes from with the encoding they are in",
        reason="NOT_UTF8",
        facts={"position": str(place)},
    )

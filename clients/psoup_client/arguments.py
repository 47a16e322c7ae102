"""Checks of arguments that no request can hold. The error names the argument, which protobuf's own error does not.

ask(5)              TypeError: sql is 5: give a text
why(query, 1.5)     not checked here, because the annotation is neither a text nor a whole number alone
ask("… '\\ud800'")   InvalidRequest: half of a surrogate pair is not UTF-8
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeVar

from psoup_client.errors import InvalidRequest, PSoupError, without_frames

T = TypeVar("T", bound=type)
Result = TypeVar("Result")

_KINDS: Mapping[str, tuple[type[Any], str]] = {"str": (str, "a text"), "int": (Integral, "a whole number")}
_LEAST = -(2**63)
_END = 2**63
_NEVER = 1 << 32
"""The position of a keyword-only argument, above every real position."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """A checked argument: its position among the method's arguments, and its type."""

    place: int
    name: str
    kind: type[Any]
    wanted: str
    may_be_none: bool


def checking_arguments(cls: T) -> T:
    """Make the public methods of a class check their arguments.

    They raise TypeError if the annotation is a text or a whole number and the value is not, ValueError for a number
    beyond 64 bits, and InvalidRequest for a text with half of a surrogate pair.
    """
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            checked = [*_checked(method)]
            setattr(cls, name, (_generator if inspect.isgeneratorfunction(method) else _plain)(method, checked))
    return cls


def short_errors(method: Callable[..., Result]) -> Callable[..., Result]:
    """Make a method raise errors of the SDK without frames of the SDK."""
    return _plain(method, ())


def _checked(method: Callable[..., Any]) -> Iterator[_Checked]:
    for place, (name, parameter) in enumerate(inspect.signature(method).parameters.items()):
        kind, *others = str(parameter.annotation).split(" | ")
        if kind in _KINDS and others in ([], ["None"]):
            place = _NEVER if parameter.kind is parameter.KEYWORD_ONLY else place
            yield _Checked(place, name, *_KINDS[kind], bool(others) or parameter.default is not parameter.empty)


def _check(checked: Sequence[_Checked], arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    __tracebackhide__ = True
    for argument in checked:
        if argument.place < len(arguments):
            value = arguments[argument.place]
        elif argument.name in named:
            value = named[argument.name]
        else:
            continue
        if isinstance(value, argument.kind):
            if argument.kind is Integral and not _LEAST <= value < _END:
                raise ValueError(f"{argument.name} is {value}, which is out of the range of 64 bits")
        elif value is not None or not argument.may_be_none:
            shown = repr(value)
            raise TypeError(
                f"{argument.name} is {shown if len(shown) <= 60 else f'{shown[:60]}…'}: give {argument.wanted}"
            )


def _plain(method: Callable[..., Any], checked: Sequence[_Checked]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        _check(checked, arguments, named)
        try:
            return method(*arguments, **named)
        except PSoupError as problem:
            raise without_frames(problem)  # noqa: B904 - the same error again
        except UnicodeEncodeError as problem:
            raise _refusal(problem) from None

    return call


def _generator(method: Callable[..., Iterator[Any]], checked: Sequence[_Checked]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Iterator[Any]:
        __tracebackhide__ = True
        _check(checked, arguments, named)
        try:
            yield from method(*arguments, **named)
        except PSoupError as problem:
            raise without_frames(problem)  # noqa: B904 - the same error again
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

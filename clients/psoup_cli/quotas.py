"""Quotas of tenants as flags, one flag for each: `--tuple-bytes 2GiB`, `--queries none`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from psoup_recharge.quantities import read_bytes

QUOTAS = {
    "streams": "Streams.",
    "queries": "Standing queries.",
    "query_bytes": "Memory of its queries.",
    "tuple_bytes": "Memory of its tuples and producers.",
    "archive_bytes": "Its tuples on disk.",
    "producers": "Producers that are remembered.",
    "calls_per_second": "Calls in a second.",
    "open_calls": "Calls at a time.",
    "pushed_bytes_per_second": "Tuples pushed in a second.",
    "receive_bytes": "Requests that are being received.",
    "staged_bytes": "Batches in parts, until they are committed.",
    "stages": "Batches in parts at a time.",
    "pinned_bytes": "Memory that open answers keep.",
    "watchers": "Watches at a time.",
    "prepare_share": "Processor seconds a second of registrations, and questions of a new form.",
    "join_share": "Processor seconds a second of the join.",
    "read_share": "Processor seconds a second of answers.",
    "matches_per_second": "Matches in a second.",
    "group_keys": "Groups of one answer.",
    "kept_bytes": "Folds, pairs, indexes kept for its answers.",
    "weight": "Its share where tenants wait for one another, beside 1.",
}
"""The description of each quota, by its name."""

NONE = "none"

LEAST_WEIGHT = 0.01
"""The least weight that the service accepts."""

MOST_WEIGHT = 100.0
"""The greatest weight that the service accepts."""

_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[0-9](_?[0-9]){0,20}", re.ASCII)


def with_quotas(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's argument `quotas` by a flag for each quota.

    The argument then has the quotas that were given.
    """

    @functools.wraps(command)
    def run(**values: Any) -> None:
        given = {name: text for name in QUOTAS if (text := values.pop(name)) is not None}
        command(**values, quotas={name: read_quota(name, text) for name, text in given.items()})

    signature = inspect.signature(command, eval_str=True)
    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_flag(name, about))
        for name, about in QUOTAS.items()
    ]
    others = [parameter for parameter in signature.parameters.values() if parameter.name != "quotas"]
    arranged = [others[0], *flags, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in others[1:])]
    run.__signature__ = signature.replace(parameters=arranged)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in arranged}
    return run


def read_quota(name: str, text: str) -> float:
    """Parse the text of a flag.

    `none` gives 0, which means no limit, so a written 0 is refused. Raises BadParameter.
    """
    flag = f"--{name.replace('_', '-')}"
    if text.strip().lower() == NONE and name != "weight":
        return 0
    number = _weight(flag, text) if name == "weight" else _limit(flag, name, text)
    if not number:
        raise typer.BadParameter(f"{flag} is {text!r}: write {NONE} for no limit, or a number above 0")
    return number


def _weight(flag: str, text: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text.strip()) else 0.0
    if not LEAST_WEIGHT <= number <= MOST_WEIGHT:
        raise typer.BadParameter(
            f"{flag} is {text!r}: write a number from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}; the default is 1"
        )
    return number


def _limit(flag: str, name: str, text: str) -> float:
    if "bytes" in name:
        try:
            return read_bytes(text)
        except ValueError as problem:
            raise typer.BadParameter(f"{flag} is {problem}; {NONE} is no limit") from None
    share = name.endswith(("_share", "_per_second"))
    if not (_NUMBER if share else _WHOLE_NUMBER).fullmatch(text.strip()):
        raise typer.BadParameter(
            f"{flag} is {text!r}, not a valid {'number' if share else 'whole number'}; {NONE} means no limit"
        )
    return float(text) if share else int(text)


def _flag(name: str, about: str) -> Any:
    metavar = "SIZE" if "bytes" in name else "N"
    return Annotated[str | None, typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=about)]

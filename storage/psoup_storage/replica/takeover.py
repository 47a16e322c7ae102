"""A takeover: the fence after which the copy belongs to another data directory."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from psoup.errors import InvalidInput
from psoup_storage.replica.chain import last_number, no_copy, owner_of
from psoup_storage.replica.fences import announce_fence, counting_object, read_fences
from psoup_storage.replica.objects import FENCE, object_name, pack
from psoup_storage.replica.targets import Target

_BLOCK = 16
"""Numbers that are tried in a row while the older writer takes one after the other."""
_REQUESTS = 16
"""The most requests at a time."""


def take_over(target: Target, incarnation: str, writer: str = "", promotion: int = 0, near: int = 0) -> int:
    """Write a fence for the data directory that will have `incarnation`. Returns its number, the next free one.

    `writer`, `promotion`: the name and the number of the promotion of a standby. `near`: see `last_number`.

    While the older writer takes numbers, each try is one request, so that the fence comes in between. Of two takeovers
    at once the later one counts. Raises InvalidInput if there is no copy, or nothing to restore in it, Internal for a
    damaged one, and Unavailable.
    """
    last = last_number(target, near) if owner_of(target) is not None else 0
    if not last:
        raise no_copy(target)
    if not counting_object(target, read_fences(target), last).base:
        raise InvalidInput(f"{target.place} has no base image yet, so nothing can take it over")
    facts: dict[str, Any] = {"kind": FENCE, "incarnation": incarnation, "previous": ""}
    facts |= {"writer": writer, "promotion": promotion} if promotion else {}
    numbers: Iterable[int] = [last + 1]
    with ThreadPoolExecutor(_REQUESTS, "psoup-takeover") as pool:
        while True:
            list(pool.map(partial(announce_fence, target), numbers))
            for number in numbers:
                if _fenced(target, number, facts):
                    return number
            numbers = range(number + 1, number + 1 + _BLOCK)


def _fenced(target: Target, number: int, facts: dict[str, Any]) -> bool:
    """Write the fence, if its number is free or has the same bytes: the reply of an earlier try was lost then."""
    content = pack(facts | {"number": number, "epoch": number, "time": time.time_ns() // 1_000})
    name = object_name(number)
    return target.create(name, content) or target.read(name) == content

"""The numbers of one copy: whose it is, and its last object.

The first writer creates the object `psoup-copy` with the incarnation of its data directory. Then it tries to create it
again. Storage that lets it does not honour conditional writes. Numbers are consecutive from 1 on. So some forty
requests find the last one, without a list of names.
"""

from __future__ import annotations

import json

from psoup.errors import Internal, InvalidInput, Unavailable
from psoup_storage.replica.headers import is_incarnation
from psoup_storage.replica.objects import FORM, NumberedObject, damaged, number_in, object_name, unpack
from psoup_storage.replica.targets import Target

OWNER = "psoup-copy"
_OWNER_BYTES = 4_096
"""The most bytes of the object `OWNER`."""
_FIRST = "first/{:015d}"


def no_copy(target: Target) -> InvalidInput:
    """The refusal of a place without a copy. Its name may be mistyped, or the first start has not come to an end."""
    return InvalidInput(f"{target.place} has no copy of a service (psoup serve --replicate makes one)")


def claim(target: Target, incarnation: str, heir: str = "") -> None:
    """Make a target the copy of a data directory, or check that it is. `heir`: the directory that took the copy over.

    Raises InvalidInput: reason COPY_OF_ANOTHER if it is the copy of another directory, NO_CONDITIONAL_WRITES for
    storage that overwrites objects. Raises Unavailable if the storage fails.
    """
    text = json.dumps({"form": FORM, "incarnation": incarnation}).encode()
    owner = owner_of(target)
    if owner is None and _create_first(target, text):
        owner = incarnation
    elif owner is None:
        owner = owner_of(target)
    owner = heir or owner
    if owner != incarnation:
        raise InvalidInput(
            f"{target.place} has the copy of another data directory (incarnation {owner}; this one is {incarnation});"
            " name a prefix that is empty. A restored directory has a new incarnation, and begins a copy of its own",
            reason="COPY_OF_ANOTHER",
        )
    if target.create(OWNER, text):
        raise _no_conditions(target, "overwrites an object although it is asked to create it only if its name is free")


def _create_first(target: Target, text: bytes) -> bool:
    """Create the object `OWNER`. Raises InvalidInput for storage that does not know the condition."""
    try:
        return target.create(OWNER, text)
    except Unavailable as problem:
        if "501 Not Implemented" in problem.message:
            raise _no_conditions(target, "cannot create an object only if its name is free") from problem
        raise


def _no_conditions(target: Target, why: str) -> InvalidInput:
    return InvalidInput(
        f"{target.place} {why} (If-None-Match: *); a copy needs storage that honours this condition",
        reason="NO_CONDITIONAL_WRITES",
    )


def owner_of(target: Target) -> str | None:
    """The incarnation of the data directory that is copied; None if there is no copy.

    Raises InvalidInput for a copy of another version's form.
    """
    content = target.read(OWNER)
    if content is None:
        return None
    try:
        facts = json.loads(content[:_OWNER_BYTES])
        form, incarnation = int(facts["form"]), str(facts["incarnation"])
        if not is_incarnation(incarnation):
            raise ValueError(incarnation)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as problem:
        raise InvalidInput(f"{target.place}/{OWNER} is not of a copy of PSoup", reason="COPY_PLACE") from problem
    if form != FORM:
        raise InvalidInput(
            f"{target.place} has a copy of form {form}, and this version of PSoup reads form {FORM}",
            reason="UNKNOWN_FORMAT",
        )
    return incarnation


def first_number(target: Target) -> int:
    """The number from which on no object was removed; 1 if none was. One request. See `old_objects`."""
    return max((number_in(name) or 1 for name in target.names_after(_FIRST.format(0))), default=1)


def first_name(number: int) -> str:
    """The name of the empty object that says from which number on no object was removed."""
    return _FIRST.format(number)


def last_number(target: Target, near: int = 0) -> int:
    """The number of the last object; 0 if there is none. A writer may add objects.

    `near`: the number of an object that was there. O(log of the objects after it) requests. Raises Internal, reason
    COPY_DAMAGED, if an object before the last one is missing.
    """
    while True:
        first = first_number(target)
        try:
            last = _last_from(target, max(first, near))
        except Internal:
            if first_number(target) == first:
                raise
        else:
            if last >= first or first_number(target) == first:
                return last  # else objects were removed meanwhile


def _last_from(target: Target, first: int) -> int:
    last, step = first - 1, 1
    while target.has(object_name(last + step)):
        last, step = last + step, 2 * step
    free = last + step
    while free - last > 1:
        middle = (last + free) // 2
        last, free = (middle, free) if target.has(object_name(middle)) else (last, middle)
    for later in target.names_after(object_name(last)):  # a service may write meanwhile
        while number_in(later) is not None and object_name(last) < later:
            last += 1
            if object_name(last) != later and not target.has(object_name(last)):
                raise damaged(target.place, last, f"it is missing, and {later} is there")
    return last


def read_object(target: Target, number: int) -> NumberedObject:
    """A numbered object. Raises Internal, reason COPY_DAMAGED, if it is missing or damaged.

    Raises Unavailable, reason COPY_REMOVED, if it is missing because a writer has removed old objects.
    """
    content = target.read(object_name(number))
    if content is None:
        check_removal(target, number)
        raise damaged(target.place, number, "it is missing")
    return unpack(number, content, target.place)


def check_removal(target: Target, number: int) -> None:
    """Raise Unavailable, reason COPY_REMOVED, if a writer has removed an object that is missing. One request."""
    if number < first_number(target):
        raise Unavailable(
            f"{target.place}/{object_name(number)} was removed meanwhile, since it is older than replicate_keep allows;"
            " try again",
            reason="COPY_REMOVED",
        )

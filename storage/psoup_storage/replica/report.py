"""A report about a copy: the events that it can restore, and whether all of it is sound."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from psoup.errors import Internal
from psoup_storage.replica.base_image import WrongFile, content_of
from psoup_storage.replica.chain import first_number, no_copy, owner_of, read_object
from psoup_storage.replica.fences import Fences, counting_object, read_fences
from psoup_storage.replica.objects import BASE, EVENTS, FENCE, NumberedObject, damaged, number_in, object_name
from psoup_storage.replica.restore import base_images, image_files, last_object
from psoup_storage.replica.segments import rows_of
from psoup_storage.replica.targets import Target

MOST_PROBLEMS = 10_000
"""The most problems that `verify` names."""


class Span(NamedTuple):
    """Events that can be restored, each one: from `first` to `last`, both included. Times are in microseconds.

    `begin`: when the oldest base image was made. `end`: when the last event, or the image with it, was copied.
    `images`: the number of base images of these events.
    """

    first: int
    last: int
    begin: int
    end: int
    images: int


def spans(target: Target) -> list[Span]:
    """The events that a copy can restore, the oldest first. O(base images) requests. Raises as `restore_copy`."""
    last, fences = last_object(target), read_fences(target)
    parts = list[Span]()
    end, later = last, NumberedObject(last.number + 1, {"kind": EVENTS, "after": -1}, memoryview(b""), "")
    for base in base_images(target, last):
        if later.number <= last.number:
            end = counting_object(target, fences, later.number - 1)
        first, begin = base.facts["sequence"], base.facts["time"]
        reach = int(end.facts["reach"])
        if parts and _goes_on(target, fences, later, reach, last):
            parts[-1] = parts[-1]._replace(first=first, begin=begin, images=parts[-1].images + 1)
        else:
            parts.append(Span(first, reach, begin, end.facts["time"], 1))
        later = base
    return parts[::-1]


def _goes_on(target: Target, fences: Fences, base: NumberedObject, reach: int, last: NumberedObject) -> bool:
    """Whether the segments around a base image lead from the event `reach`, before it, past the image's event."""
    if reach >= base.facts["sequence"]:
        return True
    for number in range(base.number + 1, last.number + 1):
        part = read_object(target, number)
        if part.kind == EVENTS and not fences.pass_over(part):
            return bool(part.facts["after"] <= reach)
    return False


class Verification(NamedTuple):
    """The result of `verify`. `problems`: what is wrong, in words."""

    objects: int
    files: int
    bytes: int
    problems: list[str]


def verify(target: Target, progress: Callable[[int, int], None] = lambda done, total: None) -> Verification:
    """Read a whole copy: every object, every file of base images, and the chain of hashes. O(bytes).

    `progress` is called with the number of objects that are read, and of all. Raises InvalidInput if there is no copy.
    """
    fences = read_fences(target)
    first = first_number(target)
    alone = {number for fence in fences for number in range(fence.before, fence.number + 1) if number < first}
    last = _greatest_number(target)
    files, problems, before = dict[str, bool](), list[str](), ""
    number = count = size = 0
    for name in target.names_after(object_name(0)):
        if len(problems) >= MOST_PROBLEMS:
            problems.append("the rest is not examined")
            break
        if (here := number_in(name)) is None:
            problems.append(f"{name} is not an object of a copy")
            continue
        if here < first and here not in alone:
            continue  # what a removal that was cut off has left
        if here > max(number + 1, first):
            problems.append(_missing(target, max(number + 1, first), here - 1))
            before = ""
        number, count = here, count + 1
        alone.discard(number)
        progress(number, last)
        try:
            part = read_object(target, number)
            if part.kind == EVENTS:
                rows_of(part, target.place)
        except Internal as problem:
            problems.append(_short(problem))
            before = ""
            continue
        size += len(part.payload)
        follows = not before or number <= first or part.kind == FENCE or part.facts["previous"] == before
        follows &= part.facts["incarnation"] == fences.writer(part.epoch)
        if not follows and not fences.pass_over(part):
            problems.append(f"{object_name(number)} does not follow the object before it")
        before = part.digest
        if part.kind == BASE and number >= first:
            size += _verify_files(target, part, files, problems)
    problems += [_missing(target, number, number) for number in sorted(alone)]
    return Verification(count, len(files), size, problems)


def _greatest_number(target: Target) -> int:
    """The greatest number of an object, also behind a gap. Raises InvalidInput if there is no copy."""
    last = max((number_in(name) or 0 for name in target.names_after(object_name(0))), default=0)
    if owner_of(target) is None or not last:
        raise no_copy(target)
    return last


def _missing(target: Target, first: int, last: int) -> str:
    why = "it is missing" if first == last else f"it is missing, as are all up to {object_name(last)}"
    return _short(damaged(target.place, first, why))


def _short(problem: Internal) -> str:
    return problem.message.partition("; psoup replica")[0]


def _verify_files(target: Target, base: NumberedObject, files: dict[str, bool], problems: list[str]) -> int:
    """Read the files of a base image that are not in `files` yet. Returns their bytes, and adds to `problems`."""
    size = 0
    try:
        images = image_files(base, target.place)
    except Internal as problem:
        problems.append(_short(problem))
        return 0
    for file in images:
        if file.object not in files:
            try:
                for _ in content_of(target, file):
                    pass
                files[file.object], size = True, size + file.size
            except (WrongFile, Internal):
                files[file.object] = False
        if not files[file.object]:
            problems.append(f"{object_name(base.number)}: its file {file.name} ({file.object}) is missing or changed")
    return size

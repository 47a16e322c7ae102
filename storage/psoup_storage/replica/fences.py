"""Fences: where another data directory took over a copy, and what counts no more since then.

    1 base  2 events  3 events │ 4 fence │ 5 base  6 events …
      epoch 0                             epoch 4: the number of the fence

A fence takes the next free number, so the storage decides what came before it. The older writer finds its number taken,
reads the fence, and stops. The newer writer has the events that a restore from the objects before the fence reaches.
Passed over by everyone are

    an object behind a fence    if its epoch is older than the fence
    events before a fence       if they are after the last event that the newer writer has

A restored directory that takes over has an incarnation of its own. A standby that was promoted goes on with the
incarnation of the older writer, because it has the same data. So the fence names the writer, too.

The name `fences/<number>` is written before the fence of that number. So one list of names finds all fences. If a
segment took the number first, the name has no fence, and is ignored. Fences are never deleted, nor is the object before
each that has its reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from psoup.errors import FailedPrecondition
from psoup.model import time_text
from psoup_storage.replica.chain import owner_of, read_object
from psoup_storage.replica.objects import EVENTS, FENCE, NumberedObject, damaged, number_in, object_name, unpack
from psoup_storage.replica.targets import Target

COPY_FENCED = "COPY_FENCED"
"""The reason of refusals of a service whose copy another one has taken over."""


class Fence(NamedTuple):
    """A fence. `incarnation`: of the data directory that goes on. `reach`: the last event that it has.

    `time`: when it was written, in microseconds. `writer`: the name of the directory as a writer of the copy: its
    incarnation, or the name of a promotion. `before`: the number of the last object before it that counts, which has
    the reach. `promotion`: the number of the promotion; 0 for a takeover by a restored directory.
    """

    number: int
    incarnation: str
    reach: int
    time: int
    writer: str
    before: int
    promotion: int = 0

    @property
    def promotes(self) -> bool:
        """Whether a standby goes on with the incarnation of the older writer."""
        return self.promotion > 0


class Fences:
    """The fences of a copy, in their order. `owner`: the incarnation of the directory that began the copy."""

    def __init__(self, owner: str | None, fences: Sequence[Fence] = ()) -> None:
        self._all = fences
        self._writers = {0: owner} | {fence.number: fence.incarnation for fence in fences}

    def __iter__(self) -> Iterator[Fence]:
        return iter(self._all)

    @property
    def last(self) -> Fence | None:
        """The last fence; None without one."""
        return self._all[-1] if self._all else None

    @property
    def epoch(self) -> int:
        """The epoch of the present writer; 0 before the first fence."""
        return self._all[-1].number if self._all else 0

    def epoch_at(self, number: int) -> int:
        """The epoch of the writer that an object belongs to, unless it is passed over. O(fences)."""
        return max([fence.number for fence in self._all if fence.number <= number], default=0)

    def writer(self, epoch: int) -> str | None:
        """The incarnation of the directory that writes in an epoch; None if the copy has no such epoch."""
        return self._writers.get(epoch)

    def knows(self, incarnation: str) -> bool:
        """Whether a directory has ever written this copy."""
        return incarnation in self._writers.values()

    def at(self, number: int) -> Fence | None:
        """The fence of a number; None if the object is not a fence. O(fences)."""
        return next((fence for fence in self._all if fence.number == number), None)

    def promotion(self, incarnation: str) -> int:
        """The number of the last promotion in an incarnation; 0 without one. O(fences)."""
        return max((each.promotion for each in self._all if each.incarnation == incarnation), default=0)

    def against(self, writer: str) -> Fence | None:
        """The fence that stopped a writer, with the last event of it that counts as `reach`; None without one.

        `writer`: its incarnation, or the name of its promotion.
        """
        names = [(0, self._writers[0]), *((fence.number, fence.writer) for fence in self._all)]
        last = max((epoch for epoch, name in names if name == writer), default=None)
        later = [fence for fence in self._all if last is not None and fence.number > last]
        return later[0]._replace(reach=min(fence.reach for fence in later)) if later else None

    def check(self, incarnation: str, place: str, writer: str = "") -> None:
        """Raise FailedPrecondition, reason COPY_FENCED, if a directory wrote this copy until another took it over.

        `writer`: its name as a writer, if that is not its incarnation.
        """
        if self.last is not None and (writer or incarnation) != self.last.writer and self.knows(incarnation):
            raise fenced(place, self.last.number, self.last.time)

    def end_of(self, part: NumberedObject) -> int:
        """The last event of a segment that counts: a newer writer may lack later ones. O(fences)."""
        return min([int(part.facts["last"]), *(fence.reach for fence in self._all if fence.number > part.number)])

    def pass_over(self, part: NumberedObject) -> bool:
        """Whether an object counts no more; see the module. O(fences)."""
        if any(part.epoch < fence.number < part.number for fence in self._all):
            return True
        return part.kind == EVENTS and self.end_of(part) <= part.facts["after"]


def read_fences(target: Target) -> Fences:
    """The fences of a copy. O(fences) requests. Raises Internal, reason COPY_DAMAGED, for a damaged one."""
    fences, owner = list[Fence](), owner_of(target)
    for name in target.names_after(_name(0)):
        number = number_in(name)
        content = None if number is None else target.read(object_name(number))
        if number is None or content is None:
            continue
        part = unpack(number, content, target.place)
        if part.kind == FENCE:
            earlier, incarnation = Fences(owner, fences), part.facts["incarnation"]
            before = counting_object(target, earlier, number - 1)
            facts = incarnation, before.facts["reach"], part.facts["time"], part.facts.get("writer", incarnation)
            promotion = part.facts.get("promotion", 0)
            if promotion:  # two standbys that were promoted at once may have written the same number
                promotion = max(promotion, earlier.promotion(incarnation) + 1)
            fences.append(Fence(number, *facts, before.number, promotion))
    return Fences(owner, fences)


def announce_fence(target: Target, number: int) -> None:
    """Write the name that leads readers to a fence. Call it before the fence is written."""
    target.create(_name(number), b"")


def counting_object(target: Target, fences: Fences, number: int) -> NumberedObject:
    """The last segment or manifest up to a number that counts. Raises as `read_object`."""
    part = read_object(target, number)
    while number > 1 and (part.kind == FENCE or fences.pass_over(part)):
        number -= 1
        part = read_object(target, number)
    if part.kind == FENCE:
        raise damaged(target.place, number, "it is a fence, and no object before it counts")
    return part


def fenced(place: str, number: int, time: int) -> FailedPrecondition:
    """The error for a service whose copy another one has taken over. `time`: of the fence, in microseconds."""
    return FailedPrecondition(
        f"another service took over the copy at {place} at {time_text(time)} ({object_name(number)}); this one stops."
        " Send clients to the other service. This data directory may have events that the other one lacks:"
        f" psoup replica rejoin {place} DIR keeps them in files, and makes the directory a standby",
        reason=COPY_FENCED,
    )


def _name(number: int) -> str:
    return f"fences/{number:015d}"

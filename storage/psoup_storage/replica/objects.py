"""A numbered object of a copy: a line with the checksum of the rest, a header of JSON, and a payload.

    psoup-copy 1 5f2c…            the form, and SHA-256 of everything after this line
    {"number": 42, "kind": "events", "incarnation": "…", "previous": "9a01…", "base": 17, "reach": 4711, …}
    …                             the payload: rows of the log, or nothing

Headers of all kinds have

    epoch      the number of the fence with which the writer of this object took over; 0 without one; see `fences`

    previous   the checksum of the object with the number before, so that the objects are a chain of hashes; "" for 1
    base       the number of the newest manifest of a base image before this object; 0 if there is none
    reach      the last event that a restore from `base` reaches by the segments up to this object; -1 without a base

Base images and the first segment after a start also have `notes`; see the module `notes`.

Segments, of the kind `events`, also have

    format     the format of the rows, which is the data directory's
    after      the event before the first row, `first` and `last`: the first and the last row
    time       when the last event reached the disk, in microseconds

Fences, of the kind `fence`, have `time`, when it was written, and the `incarnation` of the newer writer. The fence of a
promotion also has `writer`, the name of the promotion. They have no `base` and `reach`, and `previous` is "".

Manifests, of the kind `base`, also have

    format     the format of the database in the image
    sequence   the last event in the image, and `time`: when it was made
    after      the number of an object: all later events are in segments with greater numbers
    files      [name in the data directory, SHA-256 of the object in files/, its bytes, "" or "zstd", bytes of the file,
               the epoch in the name of the object]
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from psoup.errors import Internal
from psoup_storage.replica.headers import HEADER_BYTES, read_header
from psoup_storage.replica.targets import unusable

FORM = 1
"""The form of copies that this version writes and reads."""
EVENTS, BASE, FENCE = "events", "base", "fence"
_FIRST_LINE = b"psoup-copy %d %s\n"
_SHOWN = 60
_MOST_LINE = 200
"""The most bytes of the first line."""


@dataclass(frozen=True, slots=True)
class NumberedObject:
    """A numbered object. `digest`: the checksum of all of it, in hex, which the next one names."""

    number: int
    facts: dict[str, Any]
    payload: memoryview
    digest: str

    @property
    def kind(self) -> str:
        """`EVENTS`, `BASE` or `FENCE`."""
        return str(self.facts["kind"])

    @property
    def epoch(self) -> int:
        """The epoch of the writer."""
        return int(self.facts["epoch"])

    @property
    def base(self) -> int:
        """The number of the newest manifest, this object included; 0 if there is none."""
        return self.number if self.kind == BASE else int(self.facts["base"])


def object_name(number: int) -> str:
    """The name of a numbered object."""
    return f"log/{number:015d}"


def number_in(name: str) -> int | None:
    """The number at the end of an object's name; None if it has none."""
    digits = name.rpartition("/")[2]
    return int(digits) if len(digits) == 15 and digits.isascii() and digits.isdigit() else None


def pack(facts: dict[str, Any], payload: bytes = b"") -> bytes:
    """The content of a numbered object. O(bytes)."""
    rest = json.dumps(facts, separators=(",", ":")).encode() + b"\n" + payload
    return _FIRST_LINE % (FORM, hashlib.sha256(rest).hexdigest().encode()) + rest


def unpack(number: int, content: bytes, place: str) -> NumberedObject:
    """The object of a content that was read. Raises Internal, reason COPY_DAMAGED, if it is torn or has changed."""
    end = content.find(b"\n", 0, _MOST_LINE)
    words = content[: max(end, 0)].split(b" ")
    if len(words) != 3 or words[0] != b"psoup-copy":
        raise damaged(place, number, f"it begins with {content[:_SHOWN]!r}, as no object of a copy does")
    if words[1] != str(FORM).encode():
        raise damaged(place, number, f"its form is {words[1][:_SHOWN]!r}, and this version of PSoup reads form {FORM}")
    rest = memoryview(content)[end + 1 :]
    if hashlib.sha256(rest).hexdigest().encode() != words[2]:
        raise damaged(place, number, "its checksum is wrong: it is torn, or has changed since it was written")
    stop = content.find(b"\n", end + 1, end + 1 + HEADER_BYTES)
    if stop < 0:
        raise damaged(place, number, f"its header does not end within {HEADER_BYTES:,} bytes")
    try:
        facts = read_header(content[end + 1 : stop], number)
    except ValueError as problem:
        raise damaged(place, number, str(problem)) from problem
    return NumberedObject(number, facts, memoryview(content)[stop + 1 :], digest_of_content(content))


def digest_of_content(content: bytes) -> str:
    """The checksum that the next object names."""
    return hashlib.sha256(content).hexdigest()


def damaged(place: str, number: int, why: str) -> Internal:
    """The error for a numbered object that cannot be used."""
    return unusable(place, object_name(number), why)

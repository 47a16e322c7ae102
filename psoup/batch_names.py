"""Which column of a batch is which attribute of its stream: by name, in any case.

Asked twice of a batch: of its schema message, before anything is decoded, and of what was decoded.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.errors import InvalidBatch
from psoup.model import Schema


def positions(schema: Schema, names: Sequence[str]) -> dict[str, int]:
    """Where each attribute is among the `names` of a batch's columns (any case), by its name in lower case.

    Raises InvalidBatch for a name that comes twice or that the schema does not have, and for one that is NOT NULL and
    missing. O(columns): asked before the values are decoded.
    """
    by_name: dict[str, int] = {}
    for position, name in enumerate(names):
        if name.lower() in by_name:
            raise InvalidBatch(f"column {name!r} comes twice in the batch; send it once", column=name)
        by_name[name.lower()] = position
    found: dict[str, int] = {}
    for attribute in schema.attributes:
        name = attribute.name.lower()
        if name in by_name:
            found[name] = by_name.pop(name)
        elif not attribute.nullable:
            raise InvalidBatch(f"column {attribute.name!r} is missing and is NOT NULL", column=attribute.name)
    if by_name:
        extra = ", ".join(repr(names[p]) for p in by_name.values())
        raise InvalidBatch(f"the stream has no column {extra}; its columns are {', '.join(schema.names)}", column=extra)
    return found

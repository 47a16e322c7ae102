"""The notes beside the events that a copy needs: by them a standby knows the writer's address, and the tokens that the
writer has given.

first segment after a start, and each base image     {"lives": "…", "sync-keys": "…", "writer": "db1.example.org:7433"}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WRITER = "writer"
"""The name of the note with the address of the service that writes; empty if it is not known."""
COPIED = ("lives", "sync-keys", WRITER)
"""The names of the notes: the starts of the data directory, the keys that sign tokens of copies, and the writer."""
MOST_BYTES = 64 * 1024
"""The most bytes of a note."""

Notes = dict[str, str]
"""Notes by their names."""


def notes_of(noted: Callable[[str], str]) -> Notes:
    """The notes of a store. `noted`: the last note under a name."""
    return {name: noted(name) for name in COPIED}


def notes_in(facts: dict[str, Any]) -> Notes:
    """The notes in the header of a numbered object; none if it has none. Other names are left out."""
    notes = facts.get("notes")
    if not isinstance(notes, dict):
        return {}
    lines = {name: str(notes[name]) for name in COPIED if name in notes}
    return {name: line for name, line in lines.items() if len(line) <= MOST_BYTES and "\n" not in line}

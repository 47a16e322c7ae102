"""Notes: values that readers derive from a published value and leave in it for the next reader.

    RUNS = NoteKind[RunKey, ChunkRun](64)          the module that makes the notes declares their kind, with its types
    view.notes.table(RUNS) ──> {key: note}         one bounded table for each kind, in each published value

A published value knows no types of the rooms above it: it holds the notes, and their kind has the types. A note depends
on the published value alone, never changes, and is freed with it. So any thread may make a note. If two threads make
the same note at once, only time is lost.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Note = TypeVar("Note")


class NoteKind(Generic[Key, Note]):
    """A kind of notes. `most`: the most notes of this kind in one published value."""

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        self.most = most


class NoteTable(dict[Key, Note]):
    """The notes of one kind in one published value."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def note(self, key: Key, note: Note) -> Note:
        """Leave a note, and return it. A full table is emptied first; readers then make the notes that they need again.
        O(1).
        """
        if len(self) >= self._most:
            self.clear()
        self[key] = note
        return note


class ReaderNotes:
    """The notes in one published value, by kind."""

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: dict[NoteKind[Any, Any], NoteTable[Any, Any]] = {}

    def table(self, kind: NoteKind[Key, Note]) -> NoteTable[Key, Note]:
        """The notes of a kind. O(1)."""
        try:
            return self._tables[kind]
        except KeyError:
            return self._tables.setdefault(kind, NoteTable(kind.most))

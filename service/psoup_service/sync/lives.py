"""The lives of a data directory: each start begins one. So a directory shows that it was put back to an older state.

    first start        life A from event 0
    second start       life A from event 0, life B from event 120      A ended with event 120
    put back, third    life A from event 0, life C from event 90       A ended with event 90, and had no event 100
    a standby of the third is promoted: life D from event 95           C ended with event 95, and had no event 97

A file system snapshot, or a copied directory, keeps its incarnation. It then gives the same tuple IDs to different
tuples. A client's token belongs to other data if the list lacks its life. It also does if its event is after the end of
its life.
"""

from __future__ import annotations

import secrets

from psoup_storage.contract import Store

LIFE_BYTES = 8
_NOTE = "lives"
_MOST = 1_000
"""The most lives that are remembered. A copy that was not synchronised for more starts is sent from the start again."""


class Lives:
    """The lives of a store's data. Made once at a start, before the first call.

    A standby begins no life. It has the lives of the writer, from a note in the copy. A promotion begins one.
    """

    def __init__(self, store: Store) -> None:
        """Begin a life, and note it in the store. Blocks for the disk."""
        self._store = store
        self._ended: dict[bytes, int] = {}
        """The last event of each earlier life."""
        self._present = secrets.token_bytes(LIFE_BYTES)
        self._note = ""
        if store.follows:
            self._look()
        else:
            self.begin()

    def begin(self) -> None:
        """Begin a life after the store's last event. The older writer of a standby may have had later events: they are
        after the end of its life. Blocks for the disk.
        """
        store = self._store
        self._take([*_read(store.noted(_NOTE))[1 - _MOST :], (secrets.token_bytes(LIFE_BYTES), store.sequence)])
        store.note(_NOTE, self._note, sync=True)

    @property
    def present(self) -> bytes:
        """The present life. O(1); at a standby it reads the note."""
        self._look()
        return self._present

    def knows(self, life: bytes) -> bool:
        """Whether a life belongs to this data, which may lack the life's last events."""
        return life == self.present or life in self._ended

    def has(self, life: bytes, sequence: int, newest: int) -> bool:
        """Whether an event of a life has happened in this data. `newest`: the last event so far."""
        end = newest if life == self.present else self._ended.get(life, -1)
        return sequence <= end

    def may_come(self, life: bytes, sequence: int, newest: int) -> bool:
        """Whether a standby may still get an event of a life: one of the present life, or of a life that it does not
        know yet. False at a writer."""
        return self._store.follows and (not self.knows(life) or (life == self.present and sequence > newest))

    def _look(self) -> None:
        """Take over the note, if the writer has begun another life."""
        if self._store.follows and (note := self._store.noted(_NOTE)) != self._note and (lives := _read(note)):
            self._take(lives)

    def _take(self, lives: list[tuple[bytes, int]]) -> None:
        present, end = lives[-1]
        ended = dict[bytes, int]()
        for life, first in reversed(lives[:-1]):
            ended[life] = end
            end = min(end, first)  # if only the database was put back, the note has later lives
        self._note = ",".join(f"{life.hex()}:{first}" for life, first in lives)
        self._ended, self._present = ended, present


def _read(note: str) -> list[tuple[bytes, int]]:
    """The lives of a note, each with the last event before it; none if it cannot be read."""
    try:
        pairs = [entry.split(":") for entry in note.split(",")] if note else []
        return [(bytes.fromhex(life), int(first)) for life, first in pairs]
    except ValueError:
        return []

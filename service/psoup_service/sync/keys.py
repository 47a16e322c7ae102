"""The keys that sign tokens of copies: a note in the data directory, which `psoup doctor --rotate-key` changes.

first start     7:…                made, if there is none
rotated         8:…, 7:…           new tokens are signed with the first; those of the one before are valid, too
rotated again   9:…, 8:…           copies whose tokens are still of key 7 are sent from the start again
"""

from __future__ import annotations

import secrets
from contextlib import closing
from pathlib import Path

from psoup.errors import InvalidInput
from psoup_storage.contract import Store
from psoup_storage.durable.directory import DATABASE, DataDirectory, Notes
from psoup_storage.durable.sqlite.structure import refuse_if_open

Keys = dict[int, bytes]
"""Keys by their numbers of one byte, the present key first."""

_NOTE = "sync-keys"
_VALID = 2
"""The number of newest keys whose tokens are valid."""
_BYTES = 32
_NUMBERS = 256


class StoredKeys:
    """The keys of a store's data, which never change while a writer runs. A standby has the writer's keys."""

    def __init__(self, store: Store) -> None:
        """Make and note a first key if there is none. Blocks for the disk."""
        self._store = store
        self._keys: Keys = {secrets.randbelow(_NUMBERS): secrets.token_bytes(_BYTES)}
        self.begin()

    def begin(self) -> None:
        """Read the keys, at a start and when a standby is promoted. A first key is noted. Blocks for the disk."""
        self._note = self._store.noted(_NOTE)
        noted = _read(self._note)
        self._keys = noted or self._keys
        if not (noted or self._store.follows):
            self._store.note(_NOTE, _text(self._keys), sync=True)

    @property
    def all(self) -> Keys:
        """The keys whose tokens are valid, the present one first. O(1); at a standby it reads the note."""
        if self._store.follows and (note := self._store.noted(_NOTE)) != self._note and (keys := _read(note)):
            self._note, self._keys = note, keys
        return self._keys


def rotate(path: Path | str) -> bool:
    """Make a new key in the data directory `path`, on which no service runs; returns whether there was one before.

    Tokens of the previous key stay valid until the next rotation. Raises InvalidInput if the path is not a data
    directory, or if a service runs on it. Raises InvalidInput if the directory cannot store a note.
    """
    path = Path(path)
    if not (path / DATABASE).is_file():
        raise InvalidInput(f"{path} is not a data directory: there is no {DATABASE} in it", reason="DATA_DIR")
    with closing(DataDirectory(path, to_look=True)), closing(Notes(path)) as notes:
        refuse_if_open(path / DATABASE)
        earlier = _read(notes.read(_NOTE))
        number = (next(iter(earlier)) + 1) % _NUMBERS if earlier else secrets.randbelow(_NUMBERS)
        keys = {number: secrets.token_bytes(_BYTES), **dict([*earlier.items()][: _VALID - 1])}
        notes.write(_NOTE, _text(keys), sync=True)
        if _read(notes.read(_NOTE)) != keys:
            raise InvalidInput(f"no new key can be written to {path}: see what room is left", reason="DATA_DIR")
    return bool(earlier)


def _text(keys: Keys) -> str:
    return ",".join(f"{number}:{key.hex()}" for number, key in keys.items())


def _read(note: str) -> Keys:
    """The keys of a note; none if it cannot be read."""
    try:
        pairs = [entry.split(":") for entry in note.split(",")] if note else []
        keys = {int(number) % _NUMBERS: bytes.fromhex(key) for number, key in pairs}
    except ValueError:
        return {}
    return keys if all(len(key) == _BYTES for key in keys.values()) else {}

"""The address of the service that writes, in the notes of its data directory: they travel with the copy.

advertise, or a place that it listens on ─> note ─> copy ─> standby: "send this call to the service that writes, at …"
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from psoup_storage import uploader_of
from psoup_storage.contract import Store
from psoup_storage.replica.notes import WRITER

_ANY = ("0.0.0.0", "[::]")
"""The hosts of a service that listens at all addresses of its machine."""


def note_writer(store: Store, advertise: str, places: Sequence[str]) -> None:
    """Note the address at which clients write to this service, if its events are copied.

    `places`: what it listens on, for an empty `advertise`. A place that other machines reach goes first.
    """
    address = advertise or _reached(places)
    if uploader_of(store) is not None and store.noted(WRITER) != address:
        store.note(WRITER, address)


def _reached(places: Sequence[str]) -> str:
    named = [place.replace(host, socket.gethostname(), 1) for place in places for host in _ANY if f"{host}:" in place]
    return next(iter([*named, *(place for place in places if not place.startswith("unix:")), *places]), "")

"""Stores of copies at the desk of `copying`: each entry of a store is a client, as a copy of the SDK is.

    Store.recharge ── StoreLine ──> the desk        each change that is applied is looked at, before and after

To kill a store, its files are copied in the middle of a transaction, and the test goes on with the copies.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from psoup_client.answer import rows_of
from psoup_client.errors import Unavailable
from psoup_proto.v1 import sync_pb2
from psoup_recharge import Store
from psoup_recharge.entry import Entry
from psoup_recharge.tables import schema_of
from psoup_testing.copies.copy_desk import Line, Manner

Look = Callable[["KeptCopy", Any, sync_pb2.Want, sync_pb2.Change], None]
Was = tuple[Any, list[tuple[Any, ...]]]
_NUMBERS = count(1)
MOST_REPLIES = 200


class Killed(BaseException):
    """The process of a store ends here; its files are `left`."""

    def __init__(self, left: Path) -> None:
        super().__init__(left)
        self.left = left


class LookedAtStore(Store):
    """A store whose changes are looked at. `kill_at`: end at that statement of the next change, 0 for after it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file.run("PRAGMA cache_size = 2")  # half of a change is in the file before it is whole
        self.look: Look = lambda *_: None
        self.kill_at: int | None = None
        self._statements = 0
        self.was: Was = (None, [])
        self.new = b""
        """The copy before the last change, and the token that came with that change."""
        for name in ("run", "run_many"):
            setattr(self._file, name, partial(self._counted, getattr(self._file, name)))

    def apply(
        self,
        entry: Entry,
        asked: sync_pb2.Want,
        change: sync_pb2.Change,
        streams: Sequence[sync_pb2.StreamTime],
        clock: int = 0,
    ) -> int | None:
        """Make a change, and have it looked at."""
        copy, want = KeptCopy(self, entry.name), sync_pb2.Want.FromString(asked.SerializeToString())
        want.accept_truncation = True
        was = self.was = copy.state()
        self._statements, self.new = 1, change.token
        gone = super().apply(entry, asked, change, streams, clock)
        self._statements = 0
        if gone is None:
            assert copy.same_as(was), "atomic: what was not to be changed has changed"
            return None
        assert was[0].token == want.token, "atomic: a change of a copy that has another token by now"
        if self.kill_at == 0:
            self._kill()
        self.look(copy, was, want, change)
        return gone

    def _counted(self, right: Callable[..., Any], *args: Any) -> Any:
        if self._statements:
            if self._statements == self.kill_at:
                self._kill()
            self._statements += 1
        return right(*args)

    def _kill(self) -> None:
        """End here: with the files as they are."""
        raise Killed(copied(self.path))


class KeptCopy:
    """An entry of a store, seen as a copy of the SDK is."""

    def __init__(self, store: LookedAtStore, name: str) -> None:
        self.store, self.name = store, name

    @property
    def _state(self) -> Any:
        rows = self.store._file.run("SELECT number, token, form FROM queries WHERE name = ?", self.name)
        ((number, token, stored),) = rows
        if stored is None:
            return SimpleNamespace(table=None, token=token, schema=None)
        form = sync_pb2.CopyForm.FromString(stored)
        ids = []
        if not form.whole and form.id_columns < 2:
            ids = [n for (n,) in self.store._file.run(f"SELECT _id FROM rows_{number} ORDER BY _id")]
        return SimpleNamespace(table=pa.table({"_id": pa.array(ids, pa.int64())}), token=token, schema=schema_of(form))

    def state(self) -> Was:
        """The held copy: its state and its rows."""
        return self._state, self.rows()

    def same_as(self, was: Was) -> bool:
        """Whether it holds what it held."""
        state, rows = self.state()
        return bool(state.token == was[0].token and repr(rows) == repr(was[1]))

    @property
    def complete(self) -> bool:
        """Whether it is the answer."""
        return self.store.entry(self.name).complete

    @property
    def query_id(self) -> str:
        """Nothing: it is asked for by its key, or its token."""
        return ""

    @property
    def _window(self) -> str:
        return self.store.entry(self.name).window

    @_window.setter
    def _window(self, window: str) -> None:
        entry = self.store.entry(self.name)
        self.store.adopt([replace(Entry(entry.name, key=entry.key), window=window)])

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows, in order."""
        forms = self.store._file.run("SELECT form FROM queries WHERE name = ?", self.name)
        return list(rows_of(self.store.read(self.name))) if forms[0][0] is not None else []


def copied(path: Path) -> Path:
    """The files of a store as they are on the disk, elsewhere."""
    other = path.with_name(f"{path.stem.partition('-')[0]}-{next(_NUMBERS)}.db")
    shutil.copyfile(path, other)
    for end in ("-journal", "-wal"):
        if (beside := path.with_name(path.name + end)).exists():
            shutil.copyfile(beside, other.with_name(other.name + end))
    return other


@dataclass(slots=True)
class StoreLine(Line):
    """The line of a store. `meanwhile`: what happens while the next reply is under way."""

    limited: bool = False
    """Ask in the present manner, not as the store does."""
    meanwhile: Callable[[], None] | None = None
    replies: int = 0
    """Replies of the present recharge."""

    def call(self, method: object, request: sync_pb2.SyncRequest, timeout: float | None) -> sync_pb2.SyncResponse:
        """Make a reply."""
        self.replies += 1
        assert self.replies < MOST_REPLIES, "resumable: a recharge does not end"
        if self.limited:
            for want in request.wants:
                want.accept_truncation = True
            return Line.call(self, method, request, timeout)
        self.asked = sync_pb2.SyncRequest()
        self.asked.CopyFrom(request)
        for want in self.asked.wants:
            want.accept_truncation = True
        reply = self.reply = self.desk.serve(self.asked)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
            self.reply = reply
        if self.manner.cut:
            raise Unavailable("the line was cut")
        return reply


def limited(manner: Manner) -> bool:
    """Whether a manner says how much comes in a reply."""
    return bool(manner.max_bytes or manner.max_rows or manner.oldest_first)

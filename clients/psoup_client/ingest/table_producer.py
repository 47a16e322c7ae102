"""The methods of a producer that change the rows of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from psoup_client.columns.casts import TimeOptions
from psoup_client.ingest.deletions import check_table, deletions
from psoup_client.ingest.patches import as_patches, check_same_columns
from psoup_client.inputs import Keys, Rows
from psoup_client.times import Instant

if TYPE_CHECKING:
    from psoup_client.schema import StreamInfo
    from psoup_client.session import Session


class TableProducer(ABC):
    """Base of `Producer`: upserts and deletions, as numbered batches among its other batches."""

    _info: StreamInfo
    _times: TimeOptions
    _client: Session

    @abstractmethod
    def push(
        self, data: Rows, *, position: bytes | None = None, after: bytes | None = None, timeout: float | None = None
    ) -> int:
        """Queue rows; see `Producer.push`."""

    def upsert(
        self,
        rows: Rows,
        *,
        patch: bool = False,
        position: bytes | None = None,
        after: bytes | None = None,
        timeout: float | None = None,
    ) -> int:
        """Queue rows for a table. Each replaces the row with its key. Returns the next number. As `push`.

        `patch`: the rows keep the values of columns that they lack, as in `Client.upsert`.
        """
        check_table(self._info, "upsert")
        if patch:
            check_same_columns(rows)
            rows = as_patches(self._info, self._client.convert(self._info.name, rows, self._times))
        return self.push(rows, position=position, after=after, timeout=timeout)

    def delete(self, keys: Keys, *, time: Instant | None = None, timeout: float | None = None) -> int:
        """Queue deletions by keys, as in `Client.delete`; returns the next number. Waits and raises as `push`."""
        check_table(self._info, "delete")
        times = TimeOptions(zone=self._client.timezone)
        return self.push(deletions(self._info, keys, time, times), timeout=timeout)

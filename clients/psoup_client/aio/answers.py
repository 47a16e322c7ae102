"""An answer that comes in pieces, for tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pyarrow as pa

from psoup_client.aio.shell import Holder, awaited
from psoup_client.answer import AnswerStream
from psoup_client.completeness import Completeness


class AsyncAnswerStream(Holder[AnswerStream]):
    """An answer in pieces of about 256 KiB, in bounded memory: `async for batch in answer`, once.

    Use it in an `async with` statement, which cancels the call at its end. All pieces belong to one snapshot. Readers
    of Arrow's C stream interface cannot wait in an event loop, so they take `await answer.read_all()`.
    """

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema: names as written in the SELECT list, and types."""
        return self._core.schema

    @property
    def completeness(self) -> Completeness:
        """The completeness of the rows, as of the pieces that have come."""
        return self._core.completeness

    async def __aenter__(self) -> AsyncAnswerStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        while (batch := await self._run(self._core._next)) is not None:
            yield batch

    read_all = awaited(AnswerStream.read_all)
    to_parquet = awaited(AnswerStream.to_parquet)
    close = awaited(AnswerStream.close)

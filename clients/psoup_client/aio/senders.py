"""Senders of rows, for tasks: a pipelined producer, and a batch in parts."""

from __future__ import annotations

from typing import Any

from psoup_client.aio.shell import Holder, awaited
from psoup_client.ingest.producer import Producer
from psoup_client.ingest.push import PushResult
from psoup_client.ingest.stage import Stage


class AsyncProducer(Holder[Producer]):
    """A pipelined, exactly-once sender of rows to `stream`, made by `AsyncClient.producer`. It has the names of
    `Producer`.

    `await producer.push(rows)` waits while the window is full. The sender is a task of the event loop, which also calls
    `on_reply`, `on_refused` and `on_wait`: plain functions, which must not block. Use it in an `async with` statement,
    which closes it at the end. For one task; each task needs its own producer.
    """

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._core.stream

    @property
    def name(self) -> str:
        """The name of the producer."""
        return self._core.name

    @property
    def epoch(self) -> int:
        """The epoch of the producer."""
        return self._core.epoch

    @property
    def acknowledged(self) -> int:
        """The first number that is not acknowledged yet: where a successor would go on."""
        return self._core.acknowledged

    @property
    def result(self) -> PushResult:
        """The sum of all replies so far."""
        return self._core.result

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._run(self._core.__exit__, *exception)

    def abandon(self) -> str:
        """End the producer without waiting. Returns a sentence about the batches that are lost, or ""."""
        return self._core.abandon()

    push = awaited(Producer.push)
    upsert = awaited(Producer.upsert)
    delete = awaited(Producer.delete)
    flush = awaited(Producer.flush)
    close = awaited(Producer.close)
    position = awaited(Producer.position)


class AsyncStage(Holder[Stage]):
    """An open batch of `stream`, made by `AsyncClient.stage`. It has the names of `Stage`.

    It is committed at the end of an `async with` statement, and aborted by an error. For one task.
    """

    @classmethod
    async def begin(
        cls, client: Any, stream: str, producer: str, epoch: int, number: int, since: int = 0
    ) -> AsyncStage:
        """Open a stage, as `Stage.begin`. `client`: an `AsyncClient`; its method `stage` is the short form."""
        core, connection = client._held(), client._over()
        return cls(await client._run(Stage.begin, core, stream, producer, epoch, number, since), connection)

    @classmethod
    def join(cls, client: Any, stream: str, stage_id: str) -> AsyncStage:
        """Return the stage that another client opened, to add parts to it. A wrong ID shows at the first part."""
        return cls(Stage.join(client._held(), stream, stage_id), client._over())

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._core.stream

    @property
    def id(self) -> str:
        """The name of the stage for other processes. Empty if it was committed before."""
        return self._core.id

    @property
    def result(self) -> PushResult | None:
        """The outcome of the rows. None until the batch is committed."""
        return self._core.result

    async def __aenter__(self) -> AsyncStage:
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._run(self._core.__exit__, *exception)

    def abandon(self) -> str:
        """Return a sentence about rows that are neither committed nor aborted when the interpreter ends; else ""."""
        return self._core.abandon()

    add = awaited(Stage.add)
    add_table = awaited(Stage.add_table)
    commit = awaited(Stage.commit)
    commit_parts = awaited(Stage.commit_parts)
    abort = awaited(Stage.abort)

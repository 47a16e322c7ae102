"""Batches in the making: the parts that came, until they are committed, aborted or forgotten.

    open ──> Stage ──put, put, put──> pick ──> one table          a stage on which nothing happens is dropped
             by its token                                         a producer's next stage drops the one before

Of one event loop. Holds tables in memory up to a sum of bytes; knows nothing of streams, nor of what commits.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from psoup.errors import FailedPrecondition, InvalidInput, NotFound, ResourceExhausted

RETRY_AFTER_MS = 500
"""What a sender is told to wait when other stages hold the room; a commit takes about that."""

_SALT_BYTES = 9


@dataclass(frozen=True, slots=True)
class BatchKey:
    """The batch that a stage is for."""

    tenant: str
    stream: str
    producer: str
    epoch: int
    number: int

    @property
    def sender(self) -> tuple[str, str, str]:
        """Who has at most one stage: a producer of a stream."""
        return self.tenant, self.stream.lower(), self.producer


@dataclass(eq=False, slots=True)
class Stage:
    """The parts of one batch. `committing` while its commit is under way: nothing may change it."""

    token: str
    batch: BatchKey
    stream_id: int
    parts: dict[str, pa.Table] = field(default_factory=dict)
    committing: bool = False
    expiry: asyncio.TimerHandle | None = None

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.num_rows for part in self.parts.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts.values())

    def pick(self, names: Sequence[str], schema: pa.Schema) -> pa.Table:
        """The parts of these names as one table of `schema`, by default all in the order of their names.

        Raises FailedPrecondition that names a part which is not there, InvalidInput for one that is named twice.
        """
        chosen = list(names) or sorted(self.parts)
        missing = [name for name in chosen if name not in self.parts]
        if missing:
            raise FailedPrecondition(
                f"part {missing[0]!r} has not come, {len(missing)} of the {len(chosen)} parts named are missing; add"
                " them, then commit again",
                reason="PART_MISSING",
                part=missing[0],
                missing=len(missing),
            )
        if len(set(chosen)) < len(chosen):
            twice = next(name for place, name in enumerate(chosen) if name in chosen[:place])
            raise InvalidInput(f"part {twice!r} is named twice; name each part once", field="parts")
        return pa.concat_tables(
            [schema.empty_table(), *(self.parts[name] for name in chosen)], promote_options="default"
        )


class Stages:
    """All open stages. `limit`: bytes of all parts together. `idle`: seconds until a silent stage is dropped."""

    def __init__(self, limit: int, idle: float) -> None:
        self.idle = idle
        self._limit = limit
        self._open: dict[str, Stage] = {}
        self._of_sender: dict[tuple[str, str, str], Stage] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all parts. O(parts)."""
        return sum(stage.nbytes for stage in self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def open(self, batch: BatchKey, stream_id: int) -> Stage:
        """A new stage for `batch`; one that its sender has open is dropped, unless its commit is under way."""
        before = self._of_sender.get(batch.sender)
        if before is not None:
            self._check_still(before)
            self.drop(before)
        stage = Stage(_token(batch), batch, stream_id)
        self._open[stage.token] = stage
        self._of_sender[batch.sender] = stage
        self._touch(stage)
        return stage

    def find(self, token: str, tenant: str) -> Stage:
        """The open stage; raises NotFound."""
        stage = self._open.get(token)
        if stage is None or stage.batch.tenant != tenant:
            raise NotFound(
                "there is no such stage: it was committed, replaced by a newer one of its producer, idle for more than"
                f" {self.idle:g} s, or of an earlier run of the service; begin again",
                reason="UNKNOWN_STAGE",
            )
        self._touch(stage)
        return stage

    def put(self, stage: Stage, name: str, table: pa.Table) -> None:
        """Add or replace a part; raises ResourceExhausted if it does not fit, and keeps what was there."""
        if self._open.get(stage.token) is not stage:
            raise NotFound("the stage was dropped while the part was read; begin again", reason="UNKNOWN_STAGE")
        self._check_still(stage)
        replaced = stage.parts.get(name)
        used = self.nbytes - (0 if replaced is None else replaced.nbytes)
        if used + table.nbytes > self._limit:
            own = stage.nbytes + table.nbytes
            raise ResourceExhausted(
                f"the stages hold {used:,} of {self._limit:,} bytes, and part {name!r} needs {table.nbytes:,}; commit"
                " smaller batches, or serve with a greater --staged-mib",
                reason="STAGES_FULL",
                budget=self._limit,
                used=used,
                needed=table.nbytes,
                **({"retry_after_ms": RETRY_AFTER_MS} if own <= self._limit else {}),  # others hold it, and may end
            )
        stage.parts[name] = table

    def drop(self, stage: Stage) -> None:
        """Forget a stage; harmless if that has happened."""
        if stage.expiry is not None:
            stage.expiry.cancel()
        self._open.pop(stage.token, None)
        if self._of_sender.get(stage.batch.sender) is stage:
            del self._of_sender[stage.batch.sender]

    def _touch(self, stage: Stage) -> None:
        if stage.expiry is not None:
            stage.expiry.cancel()
        stage.expiry = asyncio.get_running_loop().call_later(self.idle, self._expire, stage)

    def _expire(self, stage: Stage) -> None:
        if stage.committing:
            self._touch(stage)
        else:
            self.drop(stage)

    def _check_still(self, stage: Stage) -> None:
        if stage.committing:
            raise FailedPrecondition(
                f"number {stage.batch.number} of producer {stage.batch.producer!r} is being committed; wait for the"
                " outcome of that",
                reason="COMMITTING",
            )


def _token(batch: BatchKey) -> str:
    """Names a stage, and says which batch it is for even when the stage is gone."""
    said = json.dumps([secrets.token_urlsafe(_SALT_BYTES), batch.stream, batch.producer, batch.epoch, batch.number])
    return base64.urlsafe_b64encode(said.encode("utf-8", "surrogatepass")).decode("ascii")


def read_token(token: str, tenant: str) -> BatchKey:
    """The batch that a stage of this name was for; raises InvalidInput for what is no such name."""
    try:
        _, stream, producer, epoch, number = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
        if not (isinstance(stream, str) and isinstance(producer, str)):
            raise ValueError("other types")
        return BatchKey(tenant, stream, producer, int(epoch), int(number))
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InvalidInput(
            f"stage {token[:40]!r} is no name of a stage; use the one that BeginStage gave", field="stage"
        ) from None

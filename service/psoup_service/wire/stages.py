"""Staged batches: their parts, until they are committed, aborted or forgotten.

    open ──> Stage ──put, put, put──> chosen ──> one table        a stage on which nothing happens is dropped
             by its token                                         a producer's next stage drops the one before

A part is also charged for the objects that hold it, so that parts without rows fill the room, too. Half of the room is
reserved for tenants (`shared_bytes`), and one stage takes at most three quarters of the room. If a part has no room,
silent stages above their share are dropped, the largest first. If a new stage has no place, the stage that was silent
longest is dropped.

For one event loop; each call is O(1). The module knows neither streams nor commits.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from psoup.budgets import STAGED_BYTES
from psoup.errors import FailedPrecondition, InvalidInput, NotFound, ResourceExhausted
from psoup.invariants import ensure
from psoup_service.host.shared_bytes import SharedBytes
from psoup_service.host.turns.fair_turns import ONE_TENANT, Weights

RETRY_AFTER_MS = 500
"""Milliseconds after which a refused sender may try again if other stages hold the room. A commit takes about as long.
"""

MOST_STAGES = 64
"""The most open stages of a tenant."""
MOST_PARTS = 4_096
"""The most parts of a stage: more would cost more to put together than to send."""
PART_BYTES = 4_096
"""The charge of a part besides its values: the objects of an Arrow table, as measured."""

COLUMN_BYTES = 1_100
"""The charge of each column of a part besides its values, as measured."""
MAKE_WAY_AFTER_S = 60.0
"""Seconds of silence after which a stage may be dropped for another sender."""

_SALT_BYTES = 9
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchKey:
    """The batch that a stage is for."""

    tenant: str
    stream: str
    producer: str
    epoch: int
    number: int
    since: int = 0

    @property
    def sender(self) -> tuple[str, str, str]:
        """The key of the sender: tenant, stream and producer. A sender has at most one stage."""
        return self.tenant, self.stream.lower(), self.producer


@dataclass(frozen=True, slots=True)
class StagedPart:
    """Rows of a part in the stream's columns. `values`: bytes of the values only. `nbytes`: charged bytes."""

    table: pa.Table
    values: int
    nbytes: int

    @staticmethod
    def of(table: pa.Table, sent: int) -> StagedPart:
        """The part of a table. `sent`: bytes of the message, which the table may keep in memory whole. O(columns)."""
        values = table.nbytes if table.num_rows else 0  # Arrow takes 2 us a column
        return StagedPart(table, values, PART_BYTES + COLUMN_BYTES * table.num_columns + max(values, sent))


NO_ROWS = pa.table({})
"""The table of a part without rows. To lay out a hundred empty columns would take a third of the call."""

_NO_PART = StagedPart(NO_ROWS, 0, 0)


@dataclass(eq=False, slots=True)
class StagedBatch:
    """The parts of one batch. `committing`: a commit is under way, so nothing may change the stage."""

    token: str
    batch: BatchKey
    stream_id: int
    parts: dict[str, StagedPart] = field(default_factory=dict)
    rows: int = 0
    nbytes: int = 0
    committing: bool = False
    touched: float = 0.0
    expiry: asyncio.TimerHandle | None = None

    def chosen(self, names: Sequence[str]) -> list[pa.Table]:
        """The parts of these names, by default all parts in the order of their names. O(parts).

        Raises FailedPrecondition for a missing part, and InvalidInput for a name that is given twice.
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
        seen = set[str]()
        for name in chosen:
            if name in seen:
                raise InvalidInput(f"part {name!r} is named twice; name each part once", field="parts")
            seen.add(name)
        return [self.parts[name].table for name in chosen]


def one_table(parts: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenate the parts into one table of one chunk, with the columns of `schema`. O(bytes + parts x columns)."""
    return pa.concat_tables([schema.empty_table(), *parts], promote_options="default").combine_chunks()


class Stages:
    """All open stages. `limit`: bytes of all parts together. `idle`: seconds until a silent stage is dropped.

    `make_way_after`: seconds until a silent stage may be dropped for another sender. `weights`: divide the reserved
    half of the room among the tenants.
    """

    def __init__(
        self, limit: int, idle: float, make_way_after: float = MAKE_WAY_AFTER_S, weights: Weights = ONE_TENANT
    ) -> None:
        self.idle = idle
        self._room = SharedBytes(limit, weights)
        self._limit = limit
        self._limit_of_one = limit - limit // 4
        self._make_way_after = make_way_after
        self._open: dict[str, StagedBatch] = {}
        self._of_sender: dict[tuple[str, str, str], StagedBatch] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def nbytes(self) -> int:
        """The bytes of all stages."""
        return self._room.used

    def count(self, tenant: str) -> int:
        """The open stages of a tenant. O(open stages), from any thread."""
        return sum(stage.batch.tenant == tenant for stage in [*self._open.values()])

    def others(self, batch: BatchKey) -> int:
        """The tenant's open stages, except for the stage that a new stage for `batch` replaces."""
        return self.count(batch.tenant) - (batch.sender in self._of_sender)

    def held(self, tenant: str) -> int:
        """The bytes of a tenant's stages. O(open stages), from any thread."""
        return sum(stage.nbytes for stage in [*self._open.values()] if stage.batch.tenant == tenant)

    def open(self, batch: BatchKey, stream_id: int) -> StagedBatch:
        """Open a stage for `batch`; the open stage of its sender is dropped, unless its commit is under way.

        Raises ResourceExhausted if the tenant has too many stages, and none of them is silent.
        """
        before = self._of_sender.get(batch.sender)
        if before is not None:
            self._check_still(before)
            self.drop(before)
        self._find_place(batch.tenant)
        stage = StagedBatch(_token(batch), batch, stream_id)
        self._open[stage.token] = stage
        self._of_sender[batch.sender] = stage
        self._touch(stage)
        return stage

    def find(self, token: str, tenant: str) -> StagedBatch:
        """Find the open stage with this token, and restart its idle time. Raises NotFound."""
        stage = self._open.get(token)
        if stage is None or stage.batch.tenant != tenant:
            raise NotFound(
                "there is no such stage: it was committed, replaced by a newer one of its producer, dropped with its"
                f" stream, idle for more than {self.idle:g} s, or of an earlier run of the service; begin again",
                reason="UNKNOWN_STAGE",
            )
        self._touch(stage)
        return stage

    def check_open(self, stage: StagedBatch, name: str) -> None:
        """Raise the errors of `put` that do not depend on the part's size. The caller has not read the part yet."""
        if self._open.get(stage.token) is not stage:
            raise NotFound("the stage was dropped while the part was read; begin again", reason="UNKNOWN_STAGE")
        self._check_still(stage)
        if name not in stage.parts and len(stage.parts) >= MOST_PARTS:
            raise ResourceExhausted(
                f"the stage has {MOST_PARTS:,} parts, which is the limit; commit it, and send larger parts",
                reason="TOO_MANY_PARTS",
                limit=MOST_PARTS,
            )

    def put(self, stage: StagedBatch, name: str, part: StagedPart) -> None:
        """Add or replace a part. If it does not fit, raises ResourceExhausted and keeps the old part."""
        self.check_open(stage, name)
        replaced = stage.parts.get(name, _NO_PART)
        size = stage.nbytes - replaced.nbytes + part.nbytes
        limit = min(self._limit_of_one, self._room.most(stage.batch.tenant))
        if size > limit:
            raise ResourceExhausted(
                f"with part {name!r} the stage would hold {size:,} bytes, and one stage may hold {limit:,}: three"
                " quarters of all, and less beside many tenants; commit smaller batches, or serve with a greater"
                " staged_mib",
                reason="STAGES_FULL",
                needed=part.nbytes,
                **STAGED_BYTES.over(stage.nbytes, limit),
            )
        more = part.nbytes - replaced.nbytes
        if not self._take(stage, more):
            used = self.nbytes - replaced.nbytes
            raise ResourceExhausted(
                f"the stages hold {used:,} of {self._limit:,} bytes, and part {name!r} needs {part.nbytes:,}; commit"
                " smaller batches, or serve with a greater staged_mib",
                reason="STAGES_FULL",
                needed=part.nbytes,
                **STAGED_BYTES.over(used, self._limit),
                retry_after_ms=RETRY_AFTER_MS,  # other stages hold the room, and may end
            )
        stage.parts[name] = part
        stage.nbytes += more
        stage.rows += part.table.num_rows - replaced.table.num_rows

    def drop(self, stage: StagedBatch) -> None:
        """Forget a stage. Does nothing if it is already forgotten."""
        if stage.expiry is not None:
            stage.expiry.cancel()
        if self._open.pop(stage.token, None) is not None:
            self._room.give_back(stage.nbytes, stage.batch.tenant)
        if self._of_sender.get(stage.batch.sender) is stage:
            del self._of_sender[stage.batch.sender]

    def forget(self, stream_id: int) -> None:
        """Drop the stages of a dropped stream; stages with a running commit stay. O(open stages)."""
        for stage in [*self._open.values()]:
            if stage.stream_id == stream_id and not stage.committing:
                self.drop(stage)

    def check(self) -> None:
        """Raise Corrupt if the counted bytes or rows differ from the sums over the parts."""
        for stage in self._open.values():
            size = sum(part.nbytes for part in stage.parts.values())
            rows = sum(part.table.num_rows for part in stage.parts.values())
            ensure(
                stage.nbytes == size <= self._limit_of_one, self, "bytes of a stage", counted=stage.nbytes, held=size
            )
            ensure(stage.rows == rows, self, "rows of a stage", counted=stage.rows, held=rows)
        size = sum(stage.nbytes for stage in self._open.values())
        ensure(self.nbytes == size <= self._limit, self, "bytes of all stages", counted=self.nbytes, held=size)
        consistent = set(self._of_sender.values()) == set(self._open.values())
        ensure(consistent, self, "stages by sender and by token differ", open=len(self._open))

    def _find_place(self, tenant: str) -> None:
        """Make a place for one more stage of a tenant.

        A tenant with `MOST_STAGES` loses the stage that was silent longest. Raises ResourceExhausted if no stage is
        silent.
        """
        stages = [stage for stage in self._open.values() if stage.batch.tenant == tenant]
        if len(stages) < MOST_STAGES:
            return
        silent = self._silent(stages)
        if not silent:
            raise ResourceExhausted(
                f"{MOST_STAGES} stages are open, which is the limit; commit or abort some, or try again later",
                reason="TOO_MANY_STAGES",
                limit=MOST_STAGES,
                retry_after_ms=RETRY_AFTER_MS,
            )
        self._make_way(min(silent, key=lambda stage: stage.touched))

    def _take(self, stage: StagedBatch, more: int) -> bool:
        """Take room for `more` bytes, or give back room if it is negative. Returns whether there was room.

        While there is no room, silent stages above their share are dropped, the largest first. Stages of another tenant
        within its reserved part stay.
        """
        tenant, share = stage.batch.tenant, self._limit // len(self._open)
        while not self._room.take(more, tenant):
            large = [s for s in self._silent(self._open.values()) if s is not stage and s.nbytes > share]
            others = [s for s in large if s.batch.tenant == tenant or self._room.is_beyond(s.batch.tenant)]
            if not others:
                return False
            self._make_way(max(others, key=lambda other: other.nbytes))
        return True

    def _silent(self, stages: Iterable[StagedBatch]) -> list[StagedBatch]:
        """The stages that were silent long enough to be dropped for another sender."""
        before = asyncio.get_running_loop().time() - self._make_way_after
        return [stage for stage in stages if not stage.committing and stage.touched <= before]

    def _make_way(self, stage: StagedBatch) -> None:
        _log.warning(
            "a silent stage made way for another sender",
            extra={"stream": stage.batch.stream, "producer": stage.batch.producer, "bytes": stage.nbytes},
        )
        self.drop(stage)

    def _touch(self, stage: StagedBatch) -> None:
        if stage.expiry is not None:
            stage.expiry.cancel()
        loop = asyncio.get_running_loop()
        stage.touched = loop.time()
        stage.expiry = loop.call_later(self.idle, self._expire, stage)

    def _expire(self, stage: StagedBatch) -> None:
        if stage.committing:
            self._touch(stage)
        else:
            self.drop(stage)

    def _check_still(self, stage: StagedBatch) -> None:
        if stage.committing:
            raise FailedPrecondition(
                f"number {stage.batch.number} of producer {stage.batch.producer!r} is being committed; wait for the"
                " outcome of that",
                reason="COMMITTING",
            )


def _token(batch: BatchKey) -> str:
    """A new token for a stage. It encodes the batch, so the service can read it even when the stage is gone."""
    numbers = (batch.epoch, batch.number, batch.since)
    text = json.dumps([secrets.token_urlsafe(_SALT_BYTES), batch.stream, batch.producer, *numbers])
    return base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii")


def read_token(token: str, tenant: str) -> BatchKey:
    """The batch that a stage's token encodes. Raises InvalidInput for other texts."""
    try:
        _, stream, producer, *numbers = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
        epoch, number, since = numbers
        if not (isinstance(stream, str) and isinstance(producer, str) and all(map(_is_long, numbers))):
            raise ValueError("other types")
        stream.encode("utf-8"), producer.encode("utf-8")  # a lone surrogate is not text
        return BatchKey(tenant, stream, producer, epoch, number, since)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InvalidInput(
            f"stage {token[:40]!r} is not the name of a stage; use the one that BeginStage gave", field="stage"
        ) from None


def _is_long(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63

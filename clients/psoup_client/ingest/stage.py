"""A batch in parts: added in any order, from any process, and visible as a whole once it is committed.

    with client.stage("readings", producer="nightly", number=3) as stage:
        for frame in frames:
            stage.add(frame)                  # nothing is visible yet
    stage.result                              # all of it is: committed at the end of the block, aborted by an error

    Stage.join(client, "readings", stage.id).add(frame, part="7")      in another process, by the ID

The service takes each (producer, epoch, number) once. If it was committed before, the stage has its `result` at once
and drops added rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from psoup_client.channel.connection import naming
from psoup_client.columns.casts import TimeOptions, TimeUnit
from psoup_client.errors import NotFound, PSoupError, RowsRefused, after_rows
from psoup_client.ingest.lost_rows import ended, refused_text, warn, watch
from psoup_client.ingest.pipeline import check_positions
from psoup_client.ingest.push import PushResult
from psoup_client.ingest.refused_rows import NONE_REFUSED, REFUSED, RefusedRows, check_refused
from psoup_client.ingest.row_reasons import of_stage
from psoup_client.inputs import Rows
from psoup_client.payload import split
from psoup_client.phrases import counted, verb
from psoup_client.session import Session
from psoup_proto.v1 import ingest_pb2, staging_pb2

ATTEMPTS = 3
"""The most attempts to send a stage that the service has lost, for example by a restart."""


class Stage:
    """An open batch of `stream`. `id` names it for other processes; empty if it was committed before. For one
    thread.
    """

    def __init__(
        self, client: Session, stream: str, stage_id: str, outcome: ingest_pb2.PushResponse | None = None
    ) -> None:
        self.stream = stream
        self.id = stage_id
        self.result: PushResult | None = None
        self._client = client
        self._outcome = outcome
        """The service's reply; None until the batch is committed."""
        self._rows = 0
        """The number of rows that this object has added and neither committed nor aborted."""
        self._owner = False
        """Whether this object has opened the stage, so that its caller is to commit it."""
        if outcome is not None:
            self._ended(outcome)
        self._numbers = itertools.count()

    @classmethod
    def begin(cls, client: Session, stream: str, producer: str, epoch: int, number: int, since: int = 0) -> Stage:
        """Open a stage, and drop an open one of the same producer. `Client.stage` is the short form.

        Raises NotFound, FailedPrecondition for a gap in the numbers or a fenced epoch, and Conflict if a plain push has
        used the number.
        """
        request = staging_pb2.BeginStageRequest(
            stream=stream, producer=producer, epoch=epoch, number=number, since=since
        )
        reply = client.connection.call(client.connection.staging.BeginStage, request)
        stage = cls(client, stream, reply.stage, None if reply.stage else reply.committed)
        stage._owner = True
        return stage

    @classmethod
    def join(cls, client: Session, stream: str, stage_id: str) -> Stage:
        """Return the stage that another client opened, to add parts to it. A wrong ID shows at the first part."""
        return cls(client, stream, stage_id)

    def __repr__(self) -> str:
        state = "committed" if self.result is not None else "open"
        return f"<Stage {self.id or 'without an ID'} of {self.stream}: {state}>"

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.result is not None:
            return
        if kind is None:
            warn(refused_text(self.stream, self.commit(), 'commit(refused="raise") takes all rows or none'))
        else:
            self.abort()

    def add(
        self, data: Rows, *, part: str | None = None, time_unit: TimeUnit | None = None, timeout: float | None = None
    ) -> list[str]:
        """Send rows in any form that `Client.push` takes; returns the names of their parts.

        `part` names them. Rows that are added again under the same name replace the earlier ones, if they are divided
        in the same way. By default each call has the next name. `time_unit`: as in `Client.push`. Raises InvalidData
        for rows that do not fit, NotFound if the stage is gone, and ResourceExhausted if the service's stages are full.
        """
        if self.result is not None:
            return []
        table = self._client.convert(self.stream, data, TimeOptions(time_unit))
        return self.add_table(table, f"{next(self._numbers):08d}" if part is None else part, timeout)

    def add_table(self, table: pa.Table, part: str, timeout: float | None = None) -> list[str]:
        """Send a table in the stream's types, like `add`. Returns the names of its parts."""
        if self.result is not None:
            return []
        names: list[str] = []
        rows = 0
        for place, payload in enumerate(split(table)):
            name = f"{part}/{place:06d}"
            request = staging_pb2.AddPartRequest(stage=self.id, part=name, arrow_ipc=payload.data)
            try:
                self._client.connection.call(
                    self._client.connection.staging.AddPart, request, timeout, names=naming(len(payload.data))
                )
            except PSoupError as problem:
                raise after_rows(problem, rows) from None
            names.append(name)
            rows += payload.rows
            self._rows += payload.rows
            if self._owner:
                watch(self)
        return names

    def commit(
        self,
        parts: Sequence[str] = (),
        *,
        refused: Literal["raise", "count"] = "count",
        position: bytes | None = None,
        after: bytes | None = None,
        timeout: float | None = None,
    ) -> PushResult:
        """Apply the named parts, in this order, as one batch. Without names, apply all parts in the order of their
        names.

        Returns the outcome of the rows; `duplicates` is 1 if the batch was committed before. It may be called again.
        Rows that are too late or too far ahead are counted, and the rest is taken. With `refused="raise"` such rows
        raise RowsRefused, which lists the first of them, counted through the parts. Then no row is taken, and the
        stage stays. Raises FailedPrecondition for a missing part, and ResourceExhausted without room; the stage stays.
        `position`, `after`: source positions of the batch, as in `Producer.push`.
        """
        check_positions(position, after)
        try:
            self.commit_parts(parts, REFUSED[check_refused(refused, "raise", "count")], timeout, position, after)
        except RowsRefused as problem:
            raise of_stage(problem) from None
        assert self.result is not None
        return self.result

    def commit_parts(
        self,
        parts: Sequence[str],
        refused: ingest_pb2.Refused.ValueType,
        timeout: float | None = None,
        position: bytes | None = None,
        after: bytes | None = None,
    ) -> ingest_pb2.PushResponse:
        """Apply the named parts, like `commit`. Returns the reply."""
        if self._outcome is None:
            request = staging_pb2.CommitStageRequest(
                stage=self.id, parts=parts, refused=refused, position=position or b"", after=after
            )
            reply = self._client.connection.call(self._client.connection.staging.CommitStage, request, timeout)
            self._ended(reply.outcome)
            self._client.note_sequence(reply.outcome.sequence)
        assert self._outcome is not None
        return self._outcome

    def abandon(self) -> str:
        """Return a sentence about rows that are neither committed nor aborted when the interpreter ends; else ""."""
        rows = self._rows
        self._without_rows()
        if not rows:
            return ""
        return (
            f"the stage {self.id} of stream {self.stream!r} ends without a commit: its"
            f" {counted(rows, 'row')} {verb(rows, 'is', 'are')} lost"
        )

    def _without_rows(self) -> None:
        self._rows = 0
        ended(self)

    def _ended(self, outcome: ingest_pb2.PushResponse) -> None:
        self._without_rows()
        self._outcome = outcome
        refused = RefusedRows(tuple(outcome.late_rows)) if outcome.late_by_key else NONE_REFUSED
        self.result = PushResult().plus([outcome], refused).of(self.stream, [outcome])

    def abort(self) -> None:
        """Drop the added rows. It is harmless if the stage is gone, and has no effect after a commit."""
        self._without_rows()
        if self.result is None:
            request = staging_pb2.AbortStageRequest(stage=self.id)
            self._client.connection.call(self._client.connection.staging.AbortStage, request)


def committed_stage(
    client: Session,
    stream: str,
    numbers: tuple[str, int, int, int],
    table: pa.Table,
    position: bytes | None,
    after: bytes | None,
    timeout: float | None = None,
) -> ingest_pb2.PushResponse:
    """Send a table as a stage and commit it, with its source position. Returns the reply.

    `numbers`: producer, epoch, number and `since`. A stage that the service has lost is sent again, at most twice.
    """
    for attempt in range(1, ATTEMPTS + 1):
        stage = Stage.begin(client, stream, *numbers)
        try:
            stage.add_table(table, "rows", timeout)
            return stage.commit_parts((), ingest_pb2.REFUSED_COUNT, timeout, position, after)
        except BaseException as problem:
            stage.abandon()  # the caller has the error, and the service drops an idle stage
            lost = isinstance(problem, NotFound) and problem.reason == "UNKNOWN_STAGE"
            if not lost or attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt raises its error")

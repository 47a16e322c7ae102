"""Pushes whose refused rows go into a second stream, with the reason.

    push(refused="divert")  ── all rows ──> readings            refused: rows 1 and 7
                            ── rows 1, 7 ──> readings_late      the columns, refused_reason, refused_at
                            ── other rows ──> readings          or again, if the watermark has moved on

Refused rows are pushed first. If a call fails between the two pushes, no other row is in. So a repeat of the call takes
these once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from psoup_client.columns.convert import pushed_columns
from psoup_client.errors import AccessDenied, AlreadyExists, InvalidData, NotFound, RowsRefused
from psoup_client.ingest.direct_pusher import DirectPusher
from psoup_client.ingest.push import PushResult
from psoup_client.ingest.refused_rows import LISTED, RefusedRows, instants
from psoup_client.ingest.row_reasons import late_name, masks, outside, reason_of
from psoup_client.payload import split
from psoup_client.schema import StreamInfo
from psoup_client.session import Session
from psoup_proto.v1 import streams_pb2

REASON, AT = "refused_reason", "refused_at"
"""The columns that only the second stream has."""


class LateRows:
    """A push into `stream` that diverts refused rows. `pusher`: returns the sender into a stream."""

    def __init__(self, client: Session, stream: str, pusher: Callable[[str], DirectPusher]) -> None:
        self._client = client
        self._stream = stream
        self._pusher = pusher

    def push(self, table: pa.Table, time_column: str, timeout: float | None) -> PushResult:
        """Push all rows. The result counts and lists the diverted rows as late and ahead."""
        rows, diverted, before = np.arange(table.num_rows), RefusedRows(), PushResult()
        while True:
            part = table.take(pa.array(rows)) if len(rows) < table.num_rows else table
            try:
                done = self._pusher(self._stream).push_whole(part, time_column, timeout)
                break
            except RowsRefused as problem:
                part, rows = part.slice(problem.taken), rows[problem.taken :]  # of a very large table a part is taken
                sequence, late, ahead = self._divert(problem, part, time_column, timeout)
                before = before.joined(PushResult(sequence, problem.taken, int(late.sum()), int(ahead.sum())))
                diverted = diverted.plus(_listed(rows, late, ahead))
                rows = rows[~(late | ahead)]
        refused = RefusedRows(tuple(sorted(diverted.late)), tuple(sorted(diverted.ahead)))
        sent = () if before.accepted else done.sent
        return replace(before.joined(done), refused=refused, stream=self._stream, sent=sent)

    def _divert(
        self, problem: RowsRefused, part: pa.Table, time_column: str, timeout: float | None
    ) -> tuple[int, Any, Any]:
        """Push the refused rows of a part into the second stream. Returns which rows were late, and which ahead."""
        times = instants(part[time_column])
        places = outside(problem, times)
        if not len(places):
            raise problem
        info = self._target(timeout)
        missing = [name for name in (*part.column_names, REASON, AT) if not _has(info, name)]
        if missing:
            raise InvalidData(
                f"stream {info.name!r} has no column {missing[0]!r}, so it cannot keep refused rows: add the column, or"
                f" drop the stream, and the next push creates it. {problem.message}",
                facts={"column": missing[0], "stream": info.name},
            )
        refused = part.take(pa.array(places))
        reasons = [reason_of(problem, int(times[row])) for row in places]
        now = pa.array([int(problem.facts["now"])] * len(places), pa.timestamp("us", "UTC"))
        refused = refused.append_column(REASON, pa.array(reasons, pa.string())).append_column(AT, now)
        done = self._pusher(info.name).push(split(refused), timeout)
        return done.sequence, *masks(problem, times)

    def _target(self, timeout: float | None) -> StreamInfo:
        """Describe the second stream. Creates it if it is missing."""
        name = late_name(self._stream)
        try:
            return self._client.describe(name, wait_for=0, timeout=timeout)
        except NotFound:
            statement = create_late(self._client.describe(self._stream, wait_for=0, timeout=timeout))
        connection = self._client.connection
        request = streams_pb2.CreateStreamRequest(statement=statement, allow_existing=True)
        try:
            reply = connection.call(connection.streams.CreateStream, request, timeout)
        except AlreadyExists:  # another client has created it in another form
            return self._client.describe(name, wait_for=0, timeout=timeout)
        except AccessDenied as problem:
            raise AccessDenied(
                f"there is no stream {name!r} for the refused rows, and this client may not create it"
                f" ({problem.message}); ask an operator for it. No row was taken. The statement is: {statement}",
                reason=problem.reason,
                facts={**problem.facts, "stream": name},
            ) from None
        self._client.note_sequence(reply.sequence)
        return StreamInfo.of(reply.stream)


def create_late(info: StreamInfo) -> str:
    """Write the statement that creates the stream of refused rows, in system time, with the retention of `info`."""
    taken = next((name for name in (REASON, AT) if _has(info, name)), None)
    if taken is not None:
        raise InvalidData(
            f"stream {info.name!r} has a column {taken!r}, which the stream of its refused rows needs for itself; push"
            ' with refused="count", and keep the rows that the result lists',
            facts={"column": taken},
        )
    columns = [f"{_quoted(column.name)} {column.type}" for column in pushed_columns(info)]
    columns += [f"{REASON} TEXT NOT NULL", f"{AT} TIMESTAMP NOT NULL"]
    return f"CREATE STREAM {_quoted(late_name(info.name))} ({', '.join(columns)}){''.join(_retention(info))}"


def _retention(info: StreamInfo) -> Iterator[str]:
    if info.retention is not None:
        yield f" RETENTION {int(info.retention.total_seconds())} SECONDS"
    elif info.retention_rows is not None:
        yield f" RETENTION {info.retention_rows} ROWS"


def _listed(rows: Any, late: Any, ahead: Any) -> RefusedRows:
    return RefusedRows(*(tuple(rows[kind][:LISTED].tolist()) for kind in (late, ahead)))


def _has(info: StreamInfo, name: str) -> bool:
    return any(column.name.lower() == name.lower() for column in info.columns)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

"""The push of a dump into a stream, each row once, even if the load is interrupted and repeated.

    client.load("out")      part 0 ── known ──> taken before          the batches are named after the dump
                            part 1 ── first row below the watermark? ──> refused before any of its rows is sent
                                   └─ stage, commit ──> counts        rows that were not taken are an error at the end

If the stream has tuples of another origin, the load is refused without `append`. Rows in both would be doubled. Late
rows would be lost, and every later answer would report them.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from pathlib import Path

from psoup_client.arguments import checking_arguments
from psoup_client.calls.dump import DumpInfo, Progress, open_part, read_description
from psoup_client.calls.ingest import IngestCalls
from psoup_client.calls.streams import StreamCalls
from psoup_client.errors import FailedPrecondition, NotFound
from psoup_client.ingest.push import PushResult
from psoup_client.ingest.stage import Stage
from psoup_client.payload import BATCH_ROWS
from psoup_client.phrases import counted, verb
from psoup_client.schema import StreamInfo
from psoup_client.times import from_proto, to_proto

_NAME = re.compile(r'(\s*CREATE\s+(?:STREAM|TABLE)\s+)("(?:[^"]|"")*"|\w+)', re.IGNORECASE)
_TIMEOUT = 86_400.0


@checking_arguments
class LoadCalls(IngestCalls, StreamCalls):
    """The call that brings a dump back into a stream."""

    def load(
        self,
        source: str | os.PathLike[str],
        stream: str | None = None,
        *,
        append: bool = False,
        since: int = 0,
        progress: Progress | None = None,
    ) -> PushResult:
        """Push a dump into its stream, or into `stream`. A missing stream is created.

        Each row is taken once, also if the load is repeated: `duplicates` counts files that were loaded before. Raises
        FailedPrecondition, reason STREAM_HAS_TUPLES, for a stream with other tuples, unless `append` is set. Raises
        FailedPrecondition, reason LATE, before sending rows that the watermark has passed. If the service still refuses
        rows, the error (reason ROWS_REFUSED) comes after all other rows are in, with the counts. In system time tuples
        have the time of the load. `since`: an event before the dump's first load into the stream, for a load that is
        refused with PRODUCER_FORGOTTEN. Raises InvalidData for rows that do not fit, and for a folder that is not a
        dump.
        """
        folder = Path(source)
        dumped = read_description(folder)
        info = self._stream_of(dumped, stream or dumped.stream)
        result, done = PushResult(), 0
        for number, (file, rows) in enumerate(dumped.files):
            stage = self.stage(info.name, producer=f"load {dumped.id}", number=number, since=since)
            if stage.result is None:
                if not number and not append:
                    _check_empty(info, dumped, folder, stage)
                self._add(stage, folder, file, info)
            result = result.joined(stage.commit(timeout=_TIMEOUT))
            done += rows
            if progress is not None:
                progress(done, dumped.rows)
        if result.late or result.ahead:
            raise _rows_refused(result, dumped.rows, info.name)
        return result

    def _stream_of(self, dumped: DumpInfo, name: str) -> StreamInfo:
        """Describe the stream that receives the dump. Creates the stream if it is missing."""
        try:
            return self.describe(name)
        except NotFound:
            quoted = name.replace('"', '""')
            self.create_stream(_NAME.sub(lambda match: f'{match[1]}"{quoted}"', dumped.create, count=1))
            return self.describe(name)

    def _add(self, stage: Stage, folder: Path, name: str, info: StreamInfo) -> None:
        """Add the rows of a file to the stage. Raises FailedPrecondition if the first row, the oldest, is late."""
        import pyarrow.parquet as pq  # imported here: it takes 14 ms, and most clients do not need it

        try:
            with open_part(folder, name) as file:
                for place, batch in enumerate(pq.ParquetFile(file).iter_batches(BATCH_ROWS)):
                    if not place and info.time_column:
                        begin = from_proto(to_proto(batch.column("_time")[0].value))
                        _check_not_late(self.describe(info.name), folder / name, begin)
                    stage.add(batch.drop_columns(["_id", "_time"]))
        except BaseException:
            stage.abort()
            raise


def _rows_refused(result: PushResult, rows: int, stream: str) -> FailedPrecondition:
    refused = [f"{n:,} {why}" for n, why in ((result.late, "too late"), (result.ahead, "too far ahead")) if n]
    return FailedPrecondition(
        f"{result.accepted:,} of {counted(rows, 'row')} {verb(rows, 'is', 'are')} in stream"
        f" {stream!r}; refused: {', '.join(refused)}. The stream moved on while the dump was loaded: drop it and"
        " load the dump again, while nothing else pushes",
        reason="ROWS_REFUSED",
        facts={"accepted": str(result.accepted), "late": str(result.late), "ahead": str(result.ahead)},
    )


def _check_empty(info: StreamInfo, dumped: DumpInfo, folder: Path, stage: Stage) -> None:
    """Raise FailedPrecondition if the stream has tuples, because none of them comes from this dump."""
    others = max(info.tuples + info.pending, info.next_tuple_id)
    if others:
        stage.abort()
        raise FailedPrecondition(
            f"stream {info.name!r} has had {counted(others, 'tuple')} that {verb(others, 'is', 'are')} not of a load of"
            f" {folder}, which would be doubled where the dump has {verb(others, 'it', 'them')} too; load into"
            " another stream (--stream), or add to what is there (--append)",
            reason="STREAM_HAS_TUPLES",
            facts={"stream": info.name, "tuples": str(info.tuples), "dump": dumped.id},
        )


def _check_not_late(info: StreamInfo, path: Path, begin: dt.datetime) -> None:
    if info.watermark is not None and begin < info.watermark:
        raise FailedPrecondition(
            f"the watermark of stream {info.name!r} is {info.watermark:%Y-%m-%d %H:%M:%S.%f}Z, and the rows of {path}"
            f" begin at {begin:%Y-%m-%d %H:%M:%S.%f}Z: they would be refused as late; load into another stream"
            " (--stream), or make them history: psoup spark backfill",
            reason="LATE",
            facts={"stream": info.name, "file": path.name},
        )

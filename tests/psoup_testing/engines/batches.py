"""Duels in which a stream is fed in batches that a job has written, instead of pushes.

Push(rows) ──> those that are not late, in the order of time ──> a job directory ──> Attach, the next batch
"""

from __future__ import annotations

import shutil

from psoup.execution.ahead.folds_outside import FoldsOutside
from psoup.matching.outside import Beforehand
from psoup_storage.formats.history import FoldsToWrite
from psoup_testing.engines.attachments import AttachingDuel, attach, write
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.windows import SECOND
from psoup_testing.oracles.duel import expected_refusal, to_table
from psoup_testing.oracles.model import Row

JOB = "feed"


class FedDuel(AttachingDuel):
    """A duel in which the pushes of a history come in batches of a job; numbers have gaps. `fed` counts the batches."""

    fed = 0
    number = -1

    def push(self, rows: list[Row]) -> None:
        """Write the rows as a batch of a job, and check the service's reply."""
        assert isinstance(self.psoup, RestartingPSoup)
        entries = self._batch(rows)
        if not entries:
            return
        name, folder = self.declaration.name, self.psoup.path.parent / f"batch-{self.psoup.path.name}"
        table = to_table(self.declaration, [row for _, row in entries])
        spec = self.psoup.engine.snapshot().stream(name, "default").spec
        queries = [(standing.query_id, standing.query.sql()) for standing in self.standing.values()]
        beforehand = Beforehand(spec, queries)
        stream = self.psoup.engine.snapshot().stream(name, "default").stream_id
        folds = FoldsToWrite(FoldsOutside(spec, queries, self.psoup.config), (stream,))
        size = self.psoup.config.chunk_rows
        times = [time for time, _ in entries]
        write(folder, spec, table, times, range(0, len(entries), size), beforehand, self.psoup.store.incarnation, folds)
        self.number += 1 + self.fed % 2
        done = attach(self.psoup, name, JOB, folder, self.number)
        self.fed += 1
        self.model.feed(entries)
        assert (done.duplicate, done.watermark) == (False, self.model.watermark)
        assert attach(self.psoup, name, JOB, folder, self.number).duplicate
        assert expected_refusal(lambda: self.psoup.push(name, table)) == "FailedPrecondition"
        shutil.rmtree(folder)

    def heartbeat(self, time: int) -> None:
        """Skip the heartbeat if the stream has a lateness: rows that the job holds would become late."""
        if not (self.fed and self.declaration.lateness):
            super().heartbeat(time)
            return
        refused = expected_refusal(lambda: self.psoup.heartbeat(self.declaration.name, time))
        assert refused == "FailedPrecondition", refused

    def _batch(self, rows: list[Row]) -> list[tuple[int, Row]]:
        model, clock, place = self.model, self.clock.now(), self.declaration.time_column
        watermark = -(2**63) if model.watermark is None else model.watermark
        if place is None:
            return [(max(clock, watermark), row) for row in rows]
        timed = [(row[place], row) for row in rows]
        taken = [(time, row) for time, row in timed if isinstance(time, int) and watermark <= time]
        return sorted((entry for entry in taken if entry[0] <= clock + model.max_ahead), key=lambda entry: entry[0])


def seconds(first: int, stop: int) -> list[int]:
    """A time for each second, in microseconds."""
    return [n * SECOND for n in range(first, stop)]

"""The rows of Pathway's scripts, given batch by batch. The scripts run in Pathway's own Python, without PSoup.

A connector gives a batch, waits until Pathway has its answer, and gives the next. The answer is one number, such as a
count, which Pathway itself computes: a callback in Python for each row would take most of the time.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pathway as pw


class Batches(pw.io.python.ConnectorSubject):
    """A connector that gives rows in batches of `batch` rows, and measures how long each batch takes."""

    def __init__(self, rows: Sequence[dict[str, int]], batch: int) -> None:
        super().__init__()
        self.batches = [rows[at : at + batch] for at in range(0, len(rows), batch)]
        self.seconds: list[float] = []
        """For each batch, the seconds from its first row to its answer."""
        self.answers: list[int] = []
        """The answer after each batch."""
        self.answered = threading.Semaphore(0)

    def run(self) -> None:
        """Give all batches. Pathway calls this on a thread of its own."""
        for rows in self.batches:
            start = time.perf_counter()
            for row in rows:
                self.next(**row)
            self.commit()
            self.answered.acquire()
            self.seconds.append(time.perf_counter() - start)

    def change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """Take a new answer. Each batch of a benchmark has to change the answer, or `run` would wait for ever."""
        if is_addition:
            (answer,) = row.values()
            self.answers.append(answer)
            self.answered.release()


def run_batches(
    rows: Sequence[dict[str, int]], batch: int, schema: Any, query: Callable[[Any], Any]
) -> tuple[list[float], list[int]]:
    """Run a query over all batches. Returns the seconds of each batch, and the answer after each batch.

    `schema`: the schema of the rows. `query`: makes from the table of the rows a table with one row and one column, the
    answer.
    """
    logging.disable(logging.INFO)
    subject = Batches(rows, batch)
    stream = pw.io.python.read(subject, schema=schema, autocommit_duration_ms=None)
    pw.io.subscribe(query(stream), subject.change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return subject.seconds, subject.answers

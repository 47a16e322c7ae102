"""The handle of a running Structured Streaming query; the base class of Feed and Stand."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from pyspark.sql.streaming.query import StreamingQuery

from psoup_client import PSoupError

R_co = TypeVar("R_co", covariant=True)

QUERY_ID = "sql.streaming.queryId"
"""The local property in which Spark gives the query's ID to the thread that runs its batches."""


class RunningBatches(Protocol[R_co]):
    """The function that foreachBatch calls. `problem` is the error that ended the query; Spark keeps only its text."""

    problem: PSoupError | None

    @property
    def result(self) -> R_co:
        """The sum of the outcomes of this run's batches."""
        ...

    def ended(self, query: StreamingQuery) -> None:
        """Finish the work after the query has ended by itself."""
        ...


class Running(Generic[R_co]):
    """A running query. `query`: Spark's own handle. `result`: the outcome of the rows so far."""

    def __init__(self, query: StreamingQuery, batches: RunningBatches[R_co]) -> None:
        self.query = query
        self._batches = batches

    @property
    def result(self) -> R_co:
        """The sum of the outcomes of this run's batches. Batches that an earlier run had sent count as duplicates."""
        return self._batches.result

    def wait(self, timeout: int | None = None) -> bool:
        """Wait at most `timeout` seconds for the end of the query. Returns whether it has ended.

        Raises the PSoupError that ended it, if there is one, else Spark's own StreamingQueryException.
        """
        try:
            if timeout is not None:
                return bool(self.query.awaitTermination(timeout))
            self.query.awaitTermination()
            self._batches.ended(self.query)
            return True
        except Exception:
            if self._batches.problem is not None:
                raise self._batches.problem from None
            raise

    def stop(self) -> None:
        """Stop the query. The next start repeats an unfinished batch. May be called twice."""
        self.query.stop()

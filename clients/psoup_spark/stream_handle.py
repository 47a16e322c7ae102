"""Handle of a running Structured Streaming query; base class of Feed and Stand."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from pyspark.sql.streaming.query import StreamingQuery

from psoup_client import PSoupError

R_co = TypeVar("R_co", covariant=True)

QUERY_ID = "sql.streaming.queryId"
"""Spark's name of the query's ID among the local properties of the thread that runs its batches."""


class RunningBatches(Protocol[R_co]):
    """The function that foreachBatch calls. `problem` is what ended the query: Spark keeps only its text."""

    problem: PSoupError | None

    @property
    def result(self) -> R_co:
        """The sum over the batches of this run."""
        ...

    def ended(self, query: StreamingQuery) -> None:
        """Finish, as the query has ended by itself."""
        ...


class Running(Generic[R_co]):
    """A running query. `query`: Spark's own handle. `result`: the outcome of the rows so far."""

    def __init__(self, query: StreamingQuery, batches: RunningBatches[R_co]) -> None:
        self.query = query
        self._batches = batches

    @property
    def result(self) -> R_co:
        """The sum over the batches of this run; those that had been taken by an earlier run are duplicates."""
        return self._batches.result

    def wait(self, timeout: int | None = None) -> bool:
        """Wait until the query ends, `timeout` seconds at most; returns whether it has.

        Raises the PSoupError that ended it, if one did, else Spark's own StreamingQueryException.
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
        """End the query; a batch under way is done again at the next start. May be called twice."""
        self.query.stop()

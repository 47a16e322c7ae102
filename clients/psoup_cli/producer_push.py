"""A push of files by a producer, with reports of its waits and of its end.

    files ──tables──> producer ──replies──> PushResult
                         └── an error ──> the place in the file, and the number of acknowledged rows

It reads no flags and opens no files.
"""

from __future__ import annotations

from math import ceil

from psoup_cli.common import message
from psoup_cli.pushed_ids import taken_before
from psoup_cli.row_upload import PushedFiles
from psoup_client import (
    Client,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidData,
    Producer,
    PSoupError,
    PushResult,
    RefusedRows,
    ResourceExhausted,
    Unavailable,
)
from psoup_client.phrases import counted, verb

GRACE_S = 2.0
"""Seconds beyond the timeout without any reply. A producer that knows the cause ends before, with a better message."""
WAIT_S = 1.0
"""The seconds after which a wait is reported."""


def push_files(source: PushedFiles, client: Client, stream: str, timeout: float | None = None) -> PushResult:
    """Push the rows of files with a producer. An error that ends the push names the place in the file.

    `timeout`: the seconds without progress after which it gives up; the default is the producer's.
    """
    info = source.target(client, stream)
    on_refused, waits = source.take_refused if source.rejects else _counted, WaitReports()
    limit = None if timeout is None else timeout + GRACE_S
    with client.producer(stream, on_refused=on_refused, on_wait=waits.report, retry_seconds=timeout) as producer:
        try:
            for rows in source.tables(info, lambda: producer.result):
                producer.push(source.table(rows, info), timeout=limit)
                if source.live:
                    _flushed(producer, limit)
            return _flushed(producer, limit)
        except (InvalidData, ResourceExhausted) as problem:
            taken = _taken(producer)
            producer.abandon()  # the message says what its warning would say
            raise source.named(problem, taken) from None
        except (DeadlineExceeded, FailedPrecondition, Unavailable) as problem:
            producer.abandon()
            raise _ended(problem, producer.result.accepted) from None
        finally:
            source.write_refused()


def _flushed(producer: Producer, limit: float | None) -> PushResult:
    """Wait for all replies. Raises DeadlineExceeded after `limit` seconds without any reply."""
    while True:
        before = producer.acknowledged
        try:
            return producer.flush(limit)
        except DeadlineExceeded:
            if producer.acknowledged == before:
                raise


def _ended(problem: PSoupError, taken: int) -> PSoupError:
    """Return the same error with the number of rows that are acknowledged. A refusal leaves no doubt about the rest."""
    text = f"{problem.message}\n{counted(taken, 'row')} {verb(taken, 'was', 'were')} acknowledged."
    if not isinstance(problem, FailedPrecondition):
        text += " Later rows may be in the stream or not."
    return type(problem)(text, reason=problem.reason, facts=problem.facts)


def _counted(refused: RefusedRows) -> None:
    """Do nothing: the summary counts refused rows."""


class WaitReports:
    """Reports the waits of a push: the first one for each reason, and later ones that are at least twice as long."""

    def __init__(self) -> None:
        self._reported: dict[tuple[str, str], float] = {}

    def report(self, problem: PSoupError, seconds: float) -> None:
        """Report on standard error that a wait begins."""
        cause = (problem.reason, problem.facts.get("quota", ""))
        if seconds > WAIT_S and seconds >= 2 * self._reported.get(cause, 0.0):
            self._reported[cause] = seconds
            message(f"Waiting {ceil(seconds):,} s to push more: {problem.message}")


def _taken(producer: Producer) -> str:
    """Wait until the rows before the faulty one are acknowledged. Returns a sentence about their number."""
    try:
        taken = producer.flush().accepted
    except (InvalidData, ResourceExhausted):
        taken = producer.result.accepted
    return taken_before(taken)

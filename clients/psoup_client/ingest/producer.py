"""A pipelined, exactly-once sender for one stream.

    push() -> window of numbered batches -> sender ->        PushStream ... replies -> acknowledged, leave the window
                     ^                                            |
                     +---- call lost: connect again, send what is not acknowledged ----+

    >>> from psoup_client import Client
    >>> with Client() as client:
    ...     _ = client.create_stream("CREATE STREAM readings (sensor TEXT, value DOUBLE)")
    ...     with client.producer("readings", name="roof") as producer:
    ...         for value in (20.5, 20.75, 21.0):
    ...             _ = producer.push([{"sensor": "roof", "value": value}])
    ...     producer.result.accepted, producer.acknowledged
    (3, 3)

Batches carry (producer, epoch, number). The service takes each number once, so sending again after a lost connection
cannot double rows. The window is bounded in batches and bytes: `push` waits when it is full. The first batch that the
service refuses ends the producer. Later batches are not taken, and every further call raises that error.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import grpc
import pyarrow as pa

from psoup_client.channel.connection import naming_stream
from psoup_client.channel.patience import Patience, passes
from psoup_client.columns.casts import TimeOptions, TimeUnit
from psoup_client.errors import Cancelled, FailedPrecondition, PSoupError, Unavailable
from psoup_client.ingest.lost_batches import Rewind, WindowedProducer
from psoup_client.ingest.lost_rows import ended, interrupted, refused_text, warn, watch
from psoup_client.ingest.messages import HOLD_S, Messages, request_of
from psoup_client.ingest.pipeline import NumberedBatch, SentRequests, check_positions
from psoup_client.ingest.producer_options import WINDOW_BATCHES, WINDOW_BYTES
from psoup_client.ingest.push import Position, PushResult, refused_of
from psoup_client.ingest.refused_rows import NONE_REFUSED, OnRefused
from psoup_client.ingest.stage import committed_stage
from psoup_client.inputs import Rows
from psoup_client.payload import BATCH_ROWS, Payload, one_message, split
from psoup_client.phrases import counted, verb
from psoup_client.session import Session
from psoup_proto.v1 import ingest_pb2

CALL_SECONDS = 600.0
"""The deadline of one PushStream call in seconds. A producer that lives longer starts the next call."""


class Producer(WindowedProducer):
    """A sender of rows to `stream`. Use it in a `with` statement, which closes it at the end.

    `name`: the sender; the default is a random name. `epoch`: excludes producers of the same name with smaller epochs;
    the default is the time in microseconds. To go on where an earlier process stopped, without loss or doubles, give
    its `name` and `epoch`, and the first `number` that was not taken; `Client.position` has both numbers. `since`: an
    event before number 0 was first sent; needed only if you give `name` and `epoch` and nothing was sent before. See
    PushRequest.

    `retry_seconds`: seconds without progress for which a lost service is tried again; the default is `patience_seconds`
    of the client's `RetryOptions`. `time_unit`: as in `Client.push`. Three functions are called by the sender, which is
    a thread, or a task of an `AsyncClient`. `on_reply` gets the sum of all replies. Before it, `on_refused` gets the
    rows of a batch that were too late or too far ahead, by their numbers among all pushed rows. `on_wait` gets the
    reason and the seconds of each pause before it begins.

    A service that took over may lack acknowledged batches. Then `push`, `flush` or `close` raises BatchesLost once, and
    `push` takes no row. Later batches go on in a new epoch. With `rewind` that function is called in place of the error
    of `push`: go back to the batch `first` in your source, and push from there on. Rows of the interrupted `push`, and
    all batches without a reply, are then forgotten. `flush` and `close` call it, too, and raise the error. With source
    positions and no `rewind` the error ends the producer: go on at `position`.

    For one thread; each thread needs its own producer.
    """

    def __init__(
        self,
        client: Session,
        stream: str,
        *,
        name: str | None = None,
        epoch: int | None = None,
        number: int = 0,
        since: int | None = None,
        batch_rows: int = BATCH_ROWS,
        window_batches: int = WINDOW_BATCHES,
        window_bytes: int = WINDOW_BYTES,
        retry_seconds: float | None = None,
        on_reply: Callable[[PushResult], None] | None = None,
        on_refused: OnRefused | None = None,
        on_wait: Callable[[PSoupError, float], None] | None = None,
        time_unit: TimeUnit | None = None,
        rewind: Rewind | None = None,
    ) -> None:
        self.stream = stream
        self.name = name or f"producer-{uuid.uuid4().hex}"
        self.epoch = time.time_ns() // 1_000 if epoch is None else epoch
        self._client = client
        self._times = TimeOptions(time_unit)
        self._info = client.describe(stream, wait_for=0)
        new = not number and (name is None or epoch is None)
        self._since = since or (client.known_sequence if new else 0)
        self._batch_rows = batch_rows
        self._window_batches = window_batches
        self._window_bytes = window_bytes
        retry = client.connection.retry
        patience = retry.patience_seconds if retry_seconds is None else retry_seconds
        self._patience = Patience(patience, retry, strict=retry_seconds is not None)
        self._on_reply = on_reply
        self._on_refused = on_refused
        self._on_wait = on_wait
        self._changed = client.connection.condition()
        self._window: deque[NumberedBatch] = deque()
        self._window_used = 0
        self._messages = Messages(self._window)
        self._next = self._acknowledged = self._begun = number
        self._rewind = rewind
        self._rows = 0
        self._result = PushResult()
        self._error: PSoupError | None = None
        self._raised = False
        """Whether the caller has had the error that ended the producer."""
        self._closing = False
        self._told = False
        """Whether `close` has warned of refused rows."""
        self._call: Any = None
        self._sender = client.connection.start(self._run, f"psoup-producer-{stream}")
        client.senders.add(self)
        watch(self)

    def __repr__(self) -> str:
        return f"<Producer {self.name} of {self.stream}: {counted(self.acknowledged, 'batch')} acknowledged>"

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            warn(self.abandon())

    @property
    def acknowledged(self) -> int:
        """The first number that is not acknowledged yet: where a successor would go on."""
        with self._changed:
            return self._acknowledged

    @property
    def result(self) -> PushResult:
        """The sum of all replies so far."""
        with self._changed:
            return self._result

    def position(self, timeout: float | None = None) -> Position:
        """Ask the service where the producer of this name stopped; see `Client.position`.

        What this object sent and has no reply to (see `flush`) may be in it or not.
        """
        request = ingest_pb2.GetProducerRequest(stream=self.stream, producer=self.name)
        connection = self._client.connection
        return Position.of(connection.call(connection.ingest.GetProducer, request, timeout))

    def push(
        self, data: Rows, *, position: bytes | None = None, after: bytes | None = None, timeout: float | None = None
    ) -> int:
        """Convert, number and queue rows, in any form that `Client.push` takes; returns the next number.

        `position`: your place in the source of the rows behind them, at most 256 bytes. The service keeps it in the
        same event as the rows, and `Client.position` gives it back as `source`. With it, all rows are one batch, and
        there may be none. Rows beyond 16 MiB go as a stage, after all earlier batches. `after`: the position that you
        take to be recorded, b"" for none. The service refuses the batch if another one is: FailedPrecondition, reason
        SOURCE_POSITION.

        Waits while the window is full, for at most `timeout` seconds (default: until the retries are used up).
        Raises InvalidData for rows that do not fit, of which nothing is sent, and the error that ended the producer.
        """
        check_positions(position, after)
        if (lost := self._taken_lost()) is not None:
            if self._rewind is None:
                raise lost
            return self._next
        table = self._client.convert(self.stream, data, self._times)
        if position is None and after is None:
            for payload in split(table, self._batch_rows, self._info.time_column):
                self._queue(payload, None, None, timeout)
        elif (whole := one_message(table, self._info.time_column)) is not None:
            self._queue(whole, position, after, timeout)
        else:
            self._push_stage(table, position, after, timeout)
        if self._rewind is not None:
            self._taken_lost()
        return self._next

    def _queue(self, payload: Payload, position: bytes | None, after: bytes | None, timeout: float | None) -> None:
        """Put a batch into the window, with the next number."""
        with self._changed:
            self._wait(partial(self._has_room, len(payload.data)), timeout)
            if self._lost is not None and self._rewind is not None:
                return  # the source gives these rows again
            self._window.append(NumberedBatch(self._next, payload, position, after))
            self._window_used += len(payload.data)
            self._next += 1
            if self._messages.waiting == 1 or self._messages.may_go():
                self._changed.notify_all()

    def _push_stage(self, table: pa.Table, position: bytes | None, after: bytes | None, timeout: float | None) -> None:
        """Send rows that no message holds as one batch, after all batches of the window. Returns when it is taken."""
        self.flush(timeout)
        numbers = self.name, self.epoch, self._next, self._since
        try:
            reply = committed_stage(self._client, self.stream, numbers, table, position, after, timeout)
        except BaseException as problem:  # also a cancelled task, or Ctrl-C
            self._raised = isinstance(problem, PSoupError)
            if not isinstance(problem, PSoupError):
                self._fail(interrupted(self.stream, self._next))
                raise
            failure = self._lost_by(problem, ends=True) or problem
            self._fail(failure)
            raise failure from None
        times = table.column(self._info.time_column) if self._info.time_column else None
        with self._changed:
            self._next += 1
        self._note([NumberedBatch(self._next - 1, Payload(b"", table.num_rows, times))], [reply])

    def flush(self, timeout: float | None = None) -> PushResult:
        """Wait until every batch is acknowledged; returns the sum of all replies.

        Raises the error that ended the producer, or DeadlineExceeded after `timeout` seconds.
        """
        with self._changed:
            self._wait(lambda: not self._window, timeout)
        if (lost := self._taken_lost()) is not None:
            raise lost
        return self.result

    def close(self, flush: bool = True, timeout: float | None = None) -> PushResult:
        """Wait until every batch is acknowledged, and end the producer. Returns the sum of all replies.

        Raises the errors of `flush`, but none twice. Then the producer has ended, too, and the warning RowsNotTaken
        names the rows and batches that may be lost. With `flush=False` it does not wait, and what is not acknowledged
        may be in or not. An exception that leaves the `with` statement, and the end of the interpreter, do not wait
        either, and warn. Without `on_refused`, rows that were refused for their times are a warning, too.
        """
        if flush and not self._closing:
            try:
                if not self._raised:
                    self.flush(timeout)
            except BaseException:
                warn(self.abandon())
                raise
        warn(self.abandon() if flush else "")
        self._end()
        self._sender.join()
        if flush and self._on_refused is None and not self._told:
            self._told = True
            warn(refused_text(self.stream, self.result, "the option on_refused gets their numbers"))
        return self.result

    def abandon(self) -> str:
        """End the producer without waiting. Returns a sentence about the batches that are lost, or ""."""
        with self._changed:
            closed, batches = self._closing, len(self._window)
            rows = sum(batch.payload.rows for batch in self._window)
            first, problem = self._acknowledged, self._error
        self._end()
        if closed or not batches:
            return ""
        why = "" if problem is None else f" ({problem})"
        return (
            f"the producer {self.name!r} of stream {self.stream!r} ends before {counted(rows, 'row')} in"
            f" {counted(batches, 'batch')} {verb(rows, 'is', 'are')} acknowledged: they are lost, unless they are sent"
            f" again from number {first} of epoch {self.epoch}{why}"
        )

    def _end(self) -> None:
        ended(self)
        with self._changed:
            self._closing = True
            call = self._call
            self._changed.notify_all()
        if call is not None:
            self._client.connection.cancel(call)

    # The sender -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._send_until_closed()
        except PSoupError as problem:
            self._fail(problem)
        except BaseException as problem:
            self._fail(Cancelled(f"the producer of {self.stream!r} stopped: {problem!r}"))

    def _send_until_closed(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._window or self._closing)
                if self._closing:
                    return
                before = self._acknowledged
            try:
                problem = self._one_call()
            except FailedPrecondition as refusal:
                if not self._goes_on(refusal):
                    raise
                continue
            with self._changed:
                if self._acknowledged > before or not self._window:
                    self._patience.reset()
                if problem.reason == "STREAM_IDLE":  # the service gave the idle call's place to another
                    continue
                pause = self._patience.next(problem)
            if self._on_wait is not None:
                self._on_wait(problem, pause)
            with self._changed:
                self._changed.wait_for(lambda: self._closing, pause)

    def _one_call(self) -> PSoupError:
        """Run one PushStream call until it ends.

        Returns the error if the call may be repeated, and raises it if not.
        """
        requests = SentRequests(self._next_request, self._changed)
        connection = self._client.connection
        with self._changed:
            self._messages.begin()
        sent, names = connection.requests(requests), naming_stream(self.stream)
        call = connection.open(connection.ingest.PushStream, sent, CALL_SECONDS, names=names)
        with self._changed:
            self._call = call
            if self._closing:
                call.cancel()
        try:
            for reply in connection.messages(call):
                self._acknowledge(reply)
        except grpc.RpcError as error:
            problem = connection.failed(call, error)
            # Cancelled: by this client, and the loop or the channel says so next.
            if passes(problem) or isinstance(problem, Cancelled):
                return problem
            raise problem from None
        finally:
            requests.stop()
            call.cancel()
        return Unavailable(f"the service at {call.route.address} ended the stream of pushes")

    def _acknowledge(self, reply: Any) -> None:
        outcomes = [reply, *reply.more]
        with self._changed:
            self._messages.check(reply)
            batches = list(islice(self._window, len(outcomes)))  # only this thread removes batches
        step = len(outcomes) if self._on_reply is None and self._on_refused is None else 1
        for start in range(0, len(outcomes), step):
            self._note(batches[start : start + step], outcomes[start : start + step])

    def _note(self, batches: Sequence[NumberedBatch], outcomes: Sequence[Any]) -> None:
        """Add the outcomes of the first batches, which leave the window if they are there."""
        refused, rows = NONE_REFUSED, self._rows
        for batch, outcome in zip(batches, outcomes, strict=True):
            some = refused_of(batch.payload, outcome, rows)
            refused = some if refused is NONE_REFUSED else refused.plus(some)
            rows += batch.payload.rows
        if refused is not NONE_REFUSED and self._on_refused is not None:
            self._on_refused(refused)
        with self._changed:
            for batch in batches if self._window else ():
                self._window_used -= self._window.popleft().size
                self._messages.replied(batch)
            self._acknowledged, self._rows = batches[-1].number + 1, rows
            self._result = self._result.plus(outcomes, refused)
            self._changed.notify_all()
        self._client.note_sequence(outcomes[-1].sequence)
        if self._on_reply is not None:
            self._on_reply(self._result)

    def _fail(self, problem: PSoupError) -> None:
        """End the producer with a problem of the first batch without a reply. Adds its row's number among all rows."""
        with self._changed:
            if problem.facts.get("row", "").isdigit():
                problem.facts["pushed_row"] = str(self._rows + int(problem.facts["row"]))
            self._error = problem
            self._changed.notify_all()

    def _next_request(self, requests: SentRequests) -> ingest_pb2.PushStreamRequest | None:
        """Wait for the next message of the present call. Returns None when the call is over."""
        with self._changed:
            self._changed.wait_for(lambda: requests.stopped or self._closing or self._messages.waiting)
            self._changed.wait_for(lambda: requests.stopped or self._closing or self._messages.may_go(), HOLD_S)
            if requests.stopped or self._closing:
                return None
            batches = self._messages.take()
        request = request_of(batches)
        request.stream, request.producer, request.epoch, request.since = self.stream, self.name, self.epoch, self._since
        return request

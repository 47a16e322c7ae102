"""Calls of the StatementService: a SELECT that is asked once, and statements of any kind.

    ask("SELECT …")       Answer      as if it were registered, invoked and unregistered; nothing is kept of it
    execute("CREATE …")   what the call for statements of its kind returns

Register a query that you ask again and again, so that its results are kept up to date.
"""

from __future__ import annotations

from collections.abc import Mapping

from psoup_client.answer import Answer, AnswerStream
from psoup_client.arguments import checking_arguments
from psoup_client.bulk import parameters_of_one
from psoup_client.calls.streams import StreamCalls
from psoup_client.inputs import Parameters
from psoup_client.payload import split
from psoup_client.query import ONE_MESSAGE_BYTES, answer_of
from psoup_client.questions import question_of
from psoup_client.schema import StreamInfo
from psoup_client.statements import first_word, selects
from psoup_client.times import Instant
from psoup_proto.v1 import statements_pb2


@checking_arguments
class StatementCalls(StreamCalls):
    """Calls about statements that are not registered."""

    def ask(
        self,
        sql: str,
        params: Parameters = None,
        *,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Return the answer of a SELECT now, without registering it, as a whole in memory.

        `params` are the values of its parameters: a list for `?` and `$1`, a dict for `$name`. `window` replaces the
        statement's own window, `windows` the windows of some sources of a join. The other arguments are those of
        `Query.invoke`. Raises the errors of `register` and `invoke`.
        """
        whole = {"statement": sql, "max_bytes": ONE_MESSAGE_BYTES}
        request = question_of(
            statements_pb2.AskRequest, as_of, self.timezone, window, windows, accept_truncation, **whole
        )
        _fill(request, params, self.timezone)
        reply = self._read(self.connection.statements.Ask, request, wait_for, timeout)
        if not reply.too_large:
            return answer_of(reply)
        with self.ask_stream(
            sql,
            params,
            as_of=as_of,
            window=window,
            windows=windows,
            accept_truncation=accept_truncation,
            wait_for=wait_for,
            timeout=timeout,
        ) as pieces:
            return pieces.read_all()

    def ask_stream(
        self,
        sql: str,
        params: Parameters = None,
        *,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> AnswerStream:
        """Return the same answer in pieces, for a `with` statement; `timeout` is for all of it."""
        request = question_of(
            statements_pb2.AskStreamRequest, as_of, self.timezone, window, windows, accept_truncation, statement=sql
        )
        _fill(request, params, self.timezone)
        connection = self.connection

        def attempt(sequence: int) -> AnswerStream:
            request.min_sequence = sequence
            return AnswerStream(connection.stream(connection.statements.AskStream, request, timeout))

        return self.reflecting(wait_for, attempt)

    def execute(
        self, sql: str, *, if_not_exists: bool = False, timeout: float | None = None
    ) -> Answer | StreamInfo | None:
        """Carry out one statement of any kind. Its first word shows the kind.

        CREATE and ALTER return the stream or table, like `create_stream` and `alter_stream`. DROP returns None, and
        with CASCADE unregisters the queries on it, too. SELECT returns its answer, like `ask`; for a
        standing query call `register`. Raises the errors of these methods, and NotSupported for a statement of another
        kind. ALTER and DROP are sent once, because they must not be repeated.
        """
        word = first_word(sql)
        if selects(sql):
            return self.ask(sql, timeout=timeout)
        request = statements_pb2.ExecuteRequest(statement=sql, allow_existing=if_not_exists)

        def allow_existing() -> None:
            request.allow_existing = True  # the lost attempt may have created it

        reply = self.connection.call(
            self.connection.statements.Execute,
            request,
            timeout,
            repeat=word == "CREATE",
            before_repeating=allow_existing,
        )
        kind = reply.WhichOneof("result")
        if kind == "answer":
            return self.ask(sql, timeout=timeout) if reply.answer.too_large else answer_of(reply.answer)
        if kind == "dropped":
            self.note_sequence(reply.dropped.sequence)
            self._schemas.clear()  # only the service knows which stream the statement changed
            return None
        return self._defined(reply.created if kind == "created" else reply.altered)


def _fill(
    request: statements_pb2.AskRequest | statements_pb2.AskStreamRequest, params: Parameters, zone: str | None
) -> None:
    """Write the values of a statement's parameters into its request. `zone`: the zone of times without one."""
    values = parameters_of_one(request.statement, params, zone)
    if values is not None:
        request.parameters = next(split(values.table)).data
        request.by_name = values.by_name

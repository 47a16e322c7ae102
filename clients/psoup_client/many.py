"""The answers of many queries in few calls.

IDs ── blocks of 512 ──> InvokeMany ──> outcomes of the first k ──> answers, in order
             ^                                  |
             '────── those after them ──────────'   (the next call is under way while these are looked at)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

from psoup_client.answer import Answer
from psoup_client.errors import PSoupError, ServerFault, from_failure
from psoup_client.query import ONE_MESSAGE_BYTES, Query, answer_of
from psoup_client.times import Instant, to_proto
from psoup_proto.v1 import queries_pb2

if TYPE_CHECKING:
    from psoup_client.client import Client

_BLOCK = 512
"""IDs of a call: more than fit a reply, unless answers are tiny."""


def invoke_many(
    client: Client,
    queries: Iterable[Query | str],
    *,
    as_of: Instant | None,
    accept_truncation: bool,
    wait_for: int | None,
    timeout: float | None,
) -> Iterator[Answer | PSoupError]:
    """An answer or an error for each query; see `Client.invoke_many`."""
    request = queries_pb2.InvokeManyRequest(accept_truncation=accept_truncation, max_bytes=ONE_MESSAGE_BYTES)
    if as_of is not None:
        request.as_of.CopyFrom(to_proto(as_of))
    names = (query.id if isinstance(query, Query) else str(query) for query in queries)
    asked: deque[str] = deque(islice(names, _BLOCK))

    def call() -> Any:
        request.query_ids[:] = asked

        def attempt(sequence: int) -> Any:
            request.min_sequence = sequence
            return client.connection.call(client.connection.queries.InvokeMany, request, timeout)

        return client.reflecting(wait_for, attempt)

    with ThreadPoolExecutor(1, "psoup-invoke") as thread:
        coming = thread.submit(call) if asked else None
        while coming is not None:
            outcomes = coming.result().outcomes
            if not outcomes:
                raise ServerFault("the service replied to some queries with the answer of none")
            done = [asked.popleft() for _ in outcomes]
            asked.extend(islice(names, _BLOCK - len(asked)))
            coming = thread.submit(call) if asked else None
            for name, outcome in zip(done, outcomes, strict=True):
                if outcome.WhichOneof("outcome") == "failure":
                    yield from_failure(outcome.failure)
                elif not outcome.answer.too_large:
                    yield answer_of(outcome.answer)
                else:
                    yield _large(Query(client, name), as_of, accept_truncation, wait_for, timeout)


def _large(
    query: Query, as_of: Instant | None, accept_truncation: bool, wait_for: int | None, timeout: float | None
) -> Answer | PSoupError:
    """An answer that no message holds."""
    try:
        with query.stream(
            as_of=as_of, accept_truncation=accept_truncation, wait_for=wait_for, timeout=timeout
        ) as pieces:
            return pieces.read_all()
    except PSoupError as problem:
        return problem

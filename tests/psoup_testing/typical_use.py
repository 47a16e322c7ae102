"""Typical use of the SDK, as an editor and mypy --strict see it; `make check` checks its types, and a test runs it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from psoup_client import Answer, Client, ClientOptions, Completeness, PSoupError, Query, RetryOptions, StreamInfo

ROWS = [{"sym": "A", "price": 1.5, "qty": 3}, {"sym": "B", "price": 2.5, "qty": None}]


def session(client: Client, stream: str) -> tuple[Answer, Sequence[int | None]]:
    """Create a stream, push, register and look at the answer in each of its forms."""
    info: StreamInfo = client.create_stream(f"CREATE STREAM {stream} (sym TEXT, price DOUBLE, qty BIGINT)")
    with client.producer(info.name, name=f"maker-{stream}", batch_rows=1_000) as producer:
        producer.push(ROWS)
    query: Query = client.register(
        f"SELECT sym, price, qty FROM {stream} WHERE price > ?", [1.0], key=f"{stream}-all", labels={"user": "u1"}
    )
    assert query == client.query(key=f"{stream}-all")
    answer: Answer = query.invoke()
    completeness: Completeness = answer.completeness
    assert not completeness.errors
    rows, columns = answer.shape
    assert (rows, columns) == (2, 3)
    first: str = answer[0]["sym"]
    assert first == "A"
    head: Answer = answer[:1]
    assert len(head) == 1
    prices: pa.ChunkedArray = answer["price"]
    assert prices.to_pylist() == [1.5, 2.5]
    return answer, answer["qty"].to_pylist()


def many(client: Client, queries: Sequence[Query]) -> int:
    """Invoke many queries: without `return_errors` there are answers only."""
    total = sum(len(answer) for answer in client.invoke_many(queries))
    for outcome in client.invoke_many(queries, return_errors=True):
        if isinstance(outcome, PSoupError):
            raise outcome
    return total


def connect(address: str) -> Client:
    """Make a client with settings of its own."""
    return Client(address, options=ClientOptions(retry=RetryOptions(patience_seconds=2.0)))

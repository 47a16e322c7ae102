"""Rows to be copied, and copies at clients beside the answers that they are of."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from psoup_client import AnswerCopy, Client, Query
from psoup_client.copies import answer_copy as copies_module
from psoup_client.copies import watch
from psoup_proto.v1 import sync_pb2
from psoup_testing.oracles.questions import again


def some(rows: int, draw: random.Random) -> pa.Table:
    """Some rows of a stream (sym TEXT, price DOUBLE, n BIGINT)."""
    prices = [None, float("nan"), 0.0, -0.0, 1.5, float("inf")]
    return pa.table(
        {
            "sym": [draw.choice(["a", "b", "ç", None]) for _ in range(rows)],
            "price": [draw.choice(prices) for _ in range(rows)],
            "n": [draw.randrange(100) for _ in range(rows)],
        }
    )


def same(copy: AnswerCopy, query: Query) -> None:
    """Compare a copy with the answer of its query, as Python shows the rows: NaN and zeros are told apart."""
    answer = again(query.invoke)
    assert repr(copy.rows()) == repr(answer.rows()), "the copy differs from the answer"
    assert len(copy) == len(answer)


def token_of(copy: AnswerCopy) -> bytes:
    """The token that a copy will be asked for with."""
    return copies_module.want_of(copy).token


def older(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client call a method that no service knows instead of Watch, and ask again soon."""
    unknown = client.connection._channel.unary_stream(
        "/psoup.v1.SyncService/WatchOfLater",
        request_serializer=sync_pb2.WatchRequest.SerializeToString,
        response_deserializer=sync_pb2.WatchResponse.FromString,
    )
    monkeypatch.setattr(client.connection.sync, "Watch", unknown)
    monkeypatch.setattr(watch, "FIRST_POLL_S", 0.01)
    monkeypatch.setattr(watch, "LONGEST_POLL_S", 0.05)

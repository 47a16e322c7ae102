"""Open calls of a client end when its token is revoked: a watch, and a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from psoup_client import AccessDenied, Client, ClientOptions, Producer
from psoup_service.process.settings import Settings
from psoup_testing.services.threaded_service import serving

TABLE = pa.table({"x": [1, 2]})


@pytest.fixture
def operator() -> Iterator[Client]:
    """An owner and operator of a service that asks everybody for a token."""
    with serving(Settings(port=0)) as service:
        with Client(service.address) as anybody:
            first = anybody.issue_token("admin", ("owner", "operator"), first=True)
        with Client(service.address, options=ClientOptions(token=first.secret)) as client:
            client.create_stream("CREATE STREAM s (x BIGINT)")
            yield client


def test_a_watch_ends_when_its_token_is_revoked(operator: Client) -> None:
    query = operator.register("SELECT x FROM s")
    reader = operator.issue_token("reader", ("reader",))
    with Client(operator.address, options=ClientOptions(token=reader.secret)) as client:
        copy = client.copy(query)
        with client.watch([copy]) as changes:
            operator.push("s", TABLE)
            while len(copy) < 2:
                next(changes)
            operator.revoke_token(reader.token.id)
            with pytest.raises(AccessDenied) as caught:
                list(changes)
        assert (caught.value.reason, len(copy)) == ("TOKEN_INVALID", 2)


def test_a_stream_of_batches_ends_when_its_token_is_revoked(operator: Client) -> None:
    issued = operator.issue_token("meters", ("producer",))
    with Client(operator.address, options=ClientOptions(token=issued.secret)) as client:
        producer = client.producer("s", name="p")
        producer.push(TABLE)
        producer.flush(20)
        operator.revoke_token(issued.token.id)
        with pytest.raises(AccessDenied):
            push_on(producer)
    (stream,) = operator.streams()
    assert stream.tuples == 2


def push_on(producer: Producer) -> None:
    """Push until it fails, bounded."""
    for _ in range(100):
        producer.push(TABLE)
        producer.flush(20)

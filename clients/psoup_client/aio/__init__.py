"""The SDK for asyncio: `AsyncClient` has the names, parameters and errors of `Client`, and its calls are awaited.

    from psoup_client.aio import AsyncClient

    async with AsyncClient() as client:
        print((await client.ask("SELECT * FROM flights WHERE origin = 'JFK'")).to_pandas())

Question: how does a program of one event loop use a service, without threads?

Files, in reading order:

    client        AsyncClient
    query, answers, senders, followers      what its calls return
    shell         methods that are awaited, made of methods of the core
    connection    the channel of grpc.aio, for the core
    tasks         locks, events and workers of an event loop, for the core
    steps         the switch between the core's code and the event loop

The core is `psoup_client.calls` and what it imports. It does no I/O itself: it calls, waits and locks only by a
`Connection`, which uses threads or tasks.
Never here: a request, a retry, the meaning of a reply.
"""

from psoup_client.aio.answers import AsyncAnswerStream
from psoup_client.aio.client import AsyncClient
from psoup_client.aio.followers import (
    AsyncAnswerCopy,
    AsyncFollowing,
    AsyncGroupBatch,
    AsyncGroupFollowing,
    AsyncWatching,
)
from psoup_client.aio.query import AsyncQueries, AsyncQuery
from psoup_client.aio.senders import AsyncProducer, AsyncStage
from psoup_client.aio.shell import Opening, OpeningEach

__all__ = [
    "AsyncClient",
    "AsyncQuery",
    "AsyncQueries",
    "AsyncAnswerStream",
    "AsyncProducer",
    "AsyncStage",
    "AsyncWatching",
    "AsyncAnswerCopy",
    "AsyncFollowing",
    "AsyncGroupFollowing",
    "AsyncGroupBatch",
    "Opening",
    "OpeningEach",
]

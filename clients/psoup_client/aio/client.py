"""The client for asyncio: the names, parameters and errors of `Client`, awaited.

    async with AsyncClient() as client:
        query = await client.register("SELECT * FROM flights WHERE origin = 'JFK'")
        answer = await query.invoke()
        async for batch in query.stream():
            …

`AsyncClient` and `Client` execute the same code, `psoup_client.calls`, over another connection.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

import pyarrow as pa

from psoup_client.aio.answers import AsyncAnswerStream
from psoup_client.aio.connection import AsyncConnection
from psoup_client.aio.followers import (
    AsyncAnswerCopy,
    AsyncFollowing,
    AsyncGroupBatch,
    AsyncGroupFollowing,
    AsyncWatching,
)
from psoup_client.aio.query import AsyncQueries, AsyncQuery
from psoup_client.aio.senders import AsyncProducer, AsyncStage
from psoup_client.aio.shell import OpeningEach, Shell, awaited, each, giving, opening, opening_each, same, twin_of
from psoup_client.aio.tasks import in_thread
from psoup_client.answer import Answer
from psoup_client.calls.all_calls import AllCalls
from psoup_client.calls.tenants import Tenant
from psoup_client.channel.options import ClientOptions
from psoup_client.client import DEFAULT_TIMEOUT, Client, address_or_default, zone_or_default
from psoup_client.copies.answer_copy import AnyCopy, Synced
from psoup_client.errors import NotSupported, PSoupError
from psoup_client.follow import FollowBatch, Following
from psoup_client.html import Listing
from psoup_client.query import AnyQuery
from psoup_client.times import Instant

P = ParamSpec("P")
R = TypeVar("R")


def _in_thread(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]:
    """Make a method that is awaited while a thread reads or writes files."""

    @functools.wraps(method)
    async def call(self: AsyncClient, /, *arguments: P.args, **named: P.kwargs) -> R:
        return await self._with_files(lambda client: method(client, *arguments, **named))

    return call


class AsyncClient(Shell):
    """A connection to a PSoup service for the tasks of one event loop; use it in an `async with` statement.

    It has the parameters, environment variables and errors of `Client`; its calls are awaited. A call whose task is
    cancelled is cancelled at the service, too. Interceptors in the `options` must be made for grpc.aio. At most 100
    calls with one reply are under way at a time. Further calls wait, within their timeout.

    The channel is made with the first call and belongs to the event loop that runs then. In another loop calls raise
    RuntimeError.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        timezone: str | None = None,
        options: ClientOptions = ClientOptions(),
    ) -> None:
        self._connection = AsyncConnection(address_or_default(address), timeout, options)
        self._calls = AllCalls(self._connection)
        self._calls.timezone = zone_or_default(timezone, options)
        self._options = options
        self.address = self._connection.address

    def _held(self) -> Any:
        return self._calls

    def _over(self) -> AsyncConnection:
        return self._connection

    async def __aenter__(self) -> AsyncClient:
        self._connection.enter()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await (self.close() if kind is None else self._run(self._calls._abandon))

    def __repr__(self) -> str:
        return f"<AsyncClient of {self.address}>"

    @property
    def timezone(self) -> str | None:
        """The zone of times that are given without one; None: UTC."""
        return self._calls.timezone

    async def close(self) -> None:
        """Close the producers of this client, which waits for them, and the channel. May be called twice.

        Calls that are under way end with Cancelled. Raises the error of a producer; then, too, the channel is closed.
        """
        await self._run(self._calls._close)

    # Streams, tables and rows ----------------------------------------------------------------------------

    stream = awaited(AllCalls.stream)
    streams = awaited(AllCalls.streams)
    describe = awaited(AllCalls.describe)
    create_stream = awaited(AllCalls.create_stream)
    alter_stream = awaited(AllCalls.alter_stream)
    drop = awaited(AllCalls.drop)
    create_table = awaited(AllCalls.create_table)
    upsert = awaited(AllCalls.upsert)
    delete = awaited(AllCalls.delete)
    push = awaited(AllCalls.push)
    convert = awaited(AllCalls.convert)
    tuple_ids = awaited(AllCalls.tuple_ids)
    heartbeat = awaited(AllCalls.heartbeat)
    position = awaited(AllCalls.position)
    producer = opening(AllCalls.producer, AsyncProducer)
    stage = opening(AllCalls.stage, AsyncStage)

    # Statements and queries ------------------------------------------------------------------------------

    ask = awaited(AllCalls.ask)
    ask_stream = opening_each(AllCalls.ask_stream, AsyncAnswerStream, pa.RecordBatch)
    execute = awaited(AllCalls.execute)
    register = giving(AllCalls.register, AsyncQuery.of)
    register_many = giving(AllCalls.register_many, AsyncQueries.of)
    register_parts = each(AllCalls.register_parts, AsyncQueries.of)
    check = awaited(AllCalls.check)
    query = giving(AllCalls.query, AsyncQuery.of)

    @twin_of(AllCalls.queries)
    async def queries(
        self,
        stream: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        expiring: str | dt.timedelta | None = None,
        include_sides: bool = False,
        limit: int | None = None,
    ) -> list[AsyncQuery]:
        """As `Client.queries`."""
        given = {"labels": labels, "expiring": expiring, "include_sides": include_sides, "limit": limit}
        listed = await self._run(self._calls.queries, stream, **given)
        return Listing(map(AsyncQuery.of, listed), "query", lambda query: query.info._listed())

    top_queries = awaited(AllCalls.top_queries)
    alter_queries = awaited(AllCalls.alter_queries)
    unregister = awaited(AllCalls.unregister)
    unregister_many = awaited(AllCalls.unregister_many)

    # Answers and matches ---------------------------------------------------------------------------------

    invoke = awaited(AllCalls.invoke)
    invoke_table = awaited(AllCalls.invoke_table)
    matches = awaited(AllCalls.matches)
    matches_many = awaited(AllCalls.matches_many)
    matches_table = awaited(AllCalls.matches_table)
    match = awaited(AllCalls.match)
    match_pages = each(AllCalls.match_pages, same)
    results = awaited(AllCalls.results)
    why = awaited(AllCalls.why)
    wait_for = awaited(AllCalls.wait_for)

    @overload
    def invoke_many(
        self,
        queries: Iterable[AnyQuery | str] | None = None,
        *,
        keys: Iterable[str] | None = None,
        labels: Mapping[str, str] | None = None,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        return_errors: Literal[False] = False,
        timeout: float | None = None,
    ) -> AsyncGenerator[Answer, None]: ...
    @overload
    def invoke_many(
        self,
        queries: Iterable[AnyQuery | str] | None = None,
        *,
        keys: Iterable[str] | None = None,
        labels: Mapping[str, str] | None = None,
        as_of: Instant | None = None,
        window: str = "",
        windows: Mapping[str, str] | None = None,
        accept_truncation: bool = False,
        wait_for: int | None = None,
        return_errors: bool,
        timeout: float | None = None,
    ) -> AsyncGenerator[Answer | PSoupError, None]: ...

    @twin_of(AllCalls.invoke_many)
    def invoke_many(self, *arguments: Any, **named: Any) -> AsyncGenerator[Any, None]:
        """As `Client.invoke_many`."""
        return each(AllCalls.invoke_many, same)(self, *arguments, **named)

    # What is new -----------------------------------------------------------------------------------------

    @overload
    def follow(
        self,
        stream: str,
        after: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        keys: Iterable[str] = (),
        queries: Iterable[AnyQuery | str] = (),
        old: bool = False,
        name: str = "",
        max_rows: int | None = None,
        progress: bool = False,
        patience: float | None = None,
        group: None = None,
    ) -> OpeningEach[AsyncFollowing, FollowBatch]: ...
    @overload
    def follow(
        self,
        stream: str,
        after: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        keys: Iterable[str] = (),
        queries: Iterable[AnyQuery | str] = (),
        old: bool = False,
        name: str = "",
        max_rows: int | None = None,
        patience: float | None = None,
        group: str,
        lease: float = 60.0,
    ) -> OpeningEach[AsyncGroupFollowing, AsyncGroupBatch]: ...

    @twin_of(AllCalls.follow)
    def follow(
        self, *arguments: Any, **named: Any
    ) -> OpeningEach[AsyncFollowing, FollowBatch] | OpeningEach[AsyncGroupFollowing, AsyncGroupBatch]:
        """As `Client.follow`."""
        opened: Any = opening_each(AllCalls.follow, _following, FollowBatch)(self, *arguments, **named)
        return opened

    groups = awaited(AllCalls.groups)
    followers = awaited(AllCalls.followers)
    remove_group = awaited(AllCalls.remove_group)

    @twin_of(AllCalls.watch)
    def watch(
        self, copies: Iterable[AnyCopy], *, progress: int = 15, patience: float | None = None
    ) -> OpeningEach[AsyncWatching, tuple[AsyncAnswerCopy, Synced]]:
        """As `Client.watch`."""
        opened = giving(AllCalls.watch, AsyncWatching)
        return OpeningEach(functools.partial(opened, self, copies, progress=progress, patience=patience))

    sync = awaited(AllCalls.sync)

    @twin_of(AllCalls.copy)
    def copy(
        self,
        query: AnyQuery | str | None = None,
        *,
        key: str | None = None,
        window: str = "",
        accept_truncation: bool = False,
    ) -> AsyncAnswerCopy:
        """As `Client.copy`."""
        return AsyncAnswerCopy.of(self._calls.copy(query, key=key, window=window, accept_truncation=accept_truncation))

    @twin_of(AllCalls.copy_from)
    def copy_from(self, data: bytes) -> AsyncAnswerCopy:
        """As `Client.copy_from`."""
        return AsyncAnswerCopy.of(self._calls.copy_from(data))

    add_webhook = awaited(AllCalls.add_webhook)
    webhooks = awaited(AllCalls.webhooks)
    remove_webhook = awaited(AllCalls.remove_webhook)
    rotate_webhook = awaited(AllCalls.rotate_webhook)
    pause_webhook = awaited(AllCalls.pause_webhook)
    resume_webhook = awaited(AllCalls.resume_webhook)
    test_webhook = awaited(AllCalls.test_webhook)

    # The service -----------------------------------------------------------------------------------------

    info = awaited(AllCalls.info)
    check_ready = awaited(AllCalls.check_ready)
    wait_ready = awaited(AllCalls.wait_ready)
    accept_clock = awaited(AllCalls.accept_clock)
    promote = awaited(AllCalls.promote)
    memory = awaited(AllCalls.memory)

    @twin_of(AllCalls.create_tenant)
    async def create_tenant(self, name: str, **quotas: float) -> Tenant:
        """As `Client.create_tenant`."""
        return await self._run(self._calls.create_tenant, name, **quotas)

    @twin_of(AllCalls.alter_tenant)
    async def alter_tenant(self, name: str, **quotas: float) -> Tenant:
        """As `Client.alter_tenant`."""
        return await self._run(self._calls.alter_tenant, name, **quotas)

    drop_tenant = awaited(AllCalls.drop_tenant)
    tenant = awaited(AllCalls.tenant)
    tenant_usage = awaited(AllCalls.tenant_usage)
    tenants = awaited(AllCalls.tenants)
    issue_token = awaited(AllCalls.issue_token)
    tokens = awaited(AllCalls.tokens)
    revoke_token = awaited(AllCalls.revoke_token)
    begin_attach = awaited(AllCalls.begin_attach)
    attach = awaited(AllCalls.attach)
    begin_cover = awaited(AllCalls.begin_cover)
    cover = awaited(AllCalls.cover)
    backup = _in_thread(AllCalls.backup)
    dump = _in_thread(AllCalls.dump)
    load = _in_thread(AllCalls.load)

    @twin_of(AllCalls.note_sequence)
    def note_sequence(self, sequence: int) -> None:
        """As `Client.note_sequence`."""
        self._calls.note_sequence(sequence)

    @twin_of(AllCalls.know_sequence)
    def know_sequence(self, sequence: int) -> None:
        """As `Client.know_sequence`."""
        self._calls.know_sequence(sequence)

    async def _with_files(self, work: Callable[[Client], R]) -> R:
        """Execute a function with a `Client` of its own in a thread. Its calls end when the task is cancelled."""
        if self._options.interceptors:
            raise NotSupported("interceptors of grpc.aio do not see calls that work with files: use a Client for them")
        await self._run(self._connection._check_open)
        core = self._calls
        client = Client(self.address, timeout=self._connection.timeout, timezone=core.timezone, options=self._options)
        client.note_sequence(core.last_sequence)
        try:
            return await in_thread(work, client, end=client._abandon)
        finally:
            client._abandon()
            core.note_sequence(client.last_sequence)


def _following(core: Any, connection: AsyncConnection) -> AsyncFollowing | AsyncGroupFollowing:
    return (AsyncFollowing if isinstance(core, Following) else AsyncGroupFollowing)(core, connection)

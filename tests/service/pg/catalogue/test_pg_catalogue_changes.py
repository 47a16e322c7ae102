"""A catalogue follows each change of streams and queries. Its bytes are charged to the tenant."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from psoup_client import Client
from psoup_service.pg.catalogue import filled_store, store
from psoup_service.process.settings import Settings
from psoup_testing.pg.catalogue import released, stores_of
from psoup_testing.pg.script import pg_address
from psoup_testing.pg.socket import PgSocket, cancel_of, query
from psoup_testing.services.threaded_service import Serving

_TABLES = ("pg_class", "pg_attribute", "pg_constraint", "pg_index", "pg_description", "pg_rewrite", "pg_tables")
_FACTS = (
    "SELECT oid, oid::regclass::text, pg_table_is_visible(oid), pg_get_viewdef(oid), pg_get_indexdef(oid),"
    " to_regclass(relname), to_regclass('queries.' || relname) FROM pg_class WHERE oid >= 16384 ORDER BY 1"
)
_COUNTED = "SELECT count(*) FROM pg_class WHERE relkind = 'v' AND relnamespace = 'queries'::regnamespace"


@pytest.fixture(scope="module")
def running() -> Iterator[Serving]:
    """A service with a stream and forty queries, whose reads may hold 4 MiB."""
    served = Serving(Settings(port=0, pg_port=0, sorts_mib=4))
    try:
        with Client(served.address, timeout=60) as made:
            made.execute("CREATE STREAM base (n BIGINT, t TEXT)")
            named = [{"n": n, "name": f"m{n}"} for n in range(40)]
            made.register_many("SELECT n FROM base WHERE n > $n", named, key="name")
        yield served
    finally:
        served.stop()


@pytest.fixture
def client(running: Serving) -> Iterator[Client]:
    """A client that changes streams and queries."""
    with Client(running.address, timeout=60) as opened:
        yield opened


def _connected(running: Serving) -> psycopg.Connection[Any]:
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    return psycopg.connect(host=host, port=int(port), user="x", dbname="d", autocommit=True)


def _shown(connection: psycopg.Connection[Any]) -> list[list[Any]]:
    texts = [f"SELECT * FROM {name} ORDER BY 1, 2" for name in _TABLES]
    return [connection.execute(text).fetchall() for text in (*texts, _FACTS)]  # type: ignore[arg-type]


def _held(running: Serving) -> int:
    return running.service.host.counters()["sort_bytes"]


@pytest.mark.long
def test_a_followed_catalogue_equals_a_new_one(running: Serving, client: Client) -> None:
    rng, keys, names = random.Random(7), set[str](), {"base"}
    keys.update(f"m{n}" for n in range(40))
    with _connected(running) as connection:
        _shown(connection)
        for step in range(7):
            name = rng.choice(["m1", "m2", "s1", "t1"])
            if name not in names and rng.random() < 0.5:
                kind = "TABLE" if name[0] == "t" else "STREAM"
                client.execute(f"CREATE {kind} {name} (k BIGINT{' PRIMARY KEY' if kind == 'TABLE' else ''}, v DOUBLE)")
                names.add(name)
            elif name in names:
                client.execute(f"DROP {'TABLE' if name[0] == 't' else 'STREAM'} {name}")
                names.discard(name)
            for key in rng.sample(sorted(keys), 3):
                client.unregister(client.query(key=key))
                keys.discard(key)
            client.register(f"SELECT t FROM base WHERE n = {step}", key=f"k{step}")
            client.register(f"SELECT t FROM base WHERE n = {step}")
            keys.add(f"k{step}")
            assert len(client.queries()) >= len(keys)
            connection.execute(_COUNTED)
        followed = _shown(connection)
        released(running)
        assert _shown(connection) == followed
        assert connection.execute(_COUNTED).fetchall() == [(len(keys),)]


def test_one_registration_adds_the_rows_of_one_view(
    running: Serving, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _connected(running) as connection:
        connection.execute(_COUNTED)
        made, change = list[int](), store.Store.change
        monkeypatch.setattr(
            store.Store,
            "change",
            lambda self, gone, content: made.append(len(content.rows)) or change(self, gone, content),
        )
        client.register("SELECT t FROM base WHERE n = 77", key="one more")
        client.queries()
        before = connection.execute(_COUNTED).fetchall()
        assert sum(map(bool, made)) == 1
        assert connection.execute(_COUNTED).fetchall() == before
        assert sum(map(bool, made)) == 1  # nothing has changed


def test_a_catalogue_is_charged_until_its_clients_have_left(running: Serving) -> None:
    with _connected(running) as connection:
        connection.execute(_COUNTED)
        before = _held(running)
        assert before > 0
        assert released(running, now=0.0) == 1
        assert _held(running) == before
    with _connected(running) as connection:  # it was let in after the one before has left
        connection.execute("SHOW server_version")
        released(running)
        assert _held(running) == 0


def _end_timeouts(connection: psycopg.Connection[Any]) -> None:
    """Take back statement_timeout, which holds for the statement that does so, too."""
    for _ in range(1_000):
        with suppress(psycopg.errors.QueryCanceled):
            connection.execute("SET statement_timeout = 0")
            return


def test_an_abandoned_statement_gives_back_its_turn_and_its_bytes(running: Serving) -> None:
    with _connected(running) as connection:
        connection.execute(_COUNTED)
        before = _held(running)
        for limit in (1, 20, 60):
            connection.execute(f"SET statement_timeout = {limit}")
            with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
                connection.execute("SELECT count(*) FROM pg_proc a, pg_proc b, pg_proc c, pg_proc d, pg_proc e")
            _end_timeouts(connection)
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
        assert _held(running) == before


def test_a_cancel_while_a_catalogue_follows_a_change_keeps_it(
    running: Serving, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, change = threading.Event(), threading.Event(), store.Store.change

    def slow(self: store.Store, *changed: Any) -> None:
        begun.set()
        assert go.wait(30)
        change(self, *changed)

    with _connected(running) as connection, PgSocket(pg_address(running)).start() as other:
        ((before,),) = connection.execute(_COUNTED).fetchall()
        (place,) = stores_of(running)._places.values()
        earlier = place.store._store
        client.register("SELECT t FROM base WHERE n = 79", key="during a cancel")
        client.queries()
        with monkeypatch.context() as patch:
            patch.setattr(store.Store, "change", slow)
            other.send(query(_COUNTED))
            assert begun.wait(30)
            with PgSocket(pg_address(running)) as cancelling:
                cancelling.send(cancel_of(other))
                assert cancelling.ended()
            go.set()
            assert other.error()["C"] == "57014"
        assert connection.execute(_COUNTED).fetchall() == [(before + 1,)]
        assert earlier is not None
        assert place.store._store is earlier


def test_a_catalogue_whose_client_waits_for_its_turn_is_kept(running: Serving) -> None:
    with _connected(running) as connection, ThreadPoolExecutor(1) as threads:
        counted = connection.execute(_COUNTED).fetchall()
        every = stores_of(running)
        (place,) = every._places.values()

        async def release_between() -> int:
            async with asyncio.timeout(30), place.store.turn:
                job = threads.submit(connection.execute, _COUNTED)
                while not place.store.turn._waiters:  # type: ignore[attr-defined]
                    await asyncio.sleep(0)
            every.release_unused(float("inf"))
            await asyncio.wrap_future(job)
            return len(every._places)

        assert asyncio.run_coroutine_threadsafe(release_between(), running._loop).result() == 1
        assert connection.execute(_COUNTED).fetchall() == counted
        assert released(running) == 0


@pytest.mark.long
def test_a_catalogue_without_room_is_refused_and_the_rest_goes_on(running: Serving, client: Client) -> None:
    values = [{"t": f"{n}" * 10_000, "name": f"w{n}"} for n in range(100, 260)]
    client.register_many("SELECT n FROM base WHERE t = $t", values, key="name")
    client.ask("SELECT n FROM base")  # once the registration is published
    with _connected(running) as connection:
        with pytest.raises(psycopg.errors.OutOfMemory, match=r"catalogue.* 4,194,304 \(sorts_mib\); try again"):
            connection.execute(_COUNTED)
        assert _held(running) == 0
        assert connection.execute("SELECT n FROM base").fetchall() == []
        assert len(client.ask("SELECT n FROM base ORDER BY n").rows()) == 0
        client.unregister_many(key_prefix="w")  # it returns when no call sees them
        assert connection.execute(_COUNTED).fetchone() is not None


def test_the_client_learns_once_of_views_that_are_not_shown(
    running: Serving, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(running)
    monkeypatch.setattr(filled_store, "MOST_VIEWS", 5)
    client.register("SELECT t FROM base WHERE n = 78", key="the newest")
    keys = [query.key for query in client.queries() if query.key]
    notices = list[str]()
    with _connected(running) as connection:
        connection.add_notice_handler(lambda notice: notices.append(f"{notice.message_primary} {notice.message_hint}"))
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
        assert not notices
        assert connection.execute(_COUNTED).fetchall() == [(5,)]
        assert connection.execute(_COUNTED).fetchall() == [(5,)]
        assert [f"does not show {len(keys) - 5} " in text for text in notices] == [True]
        assert connection.execute('SELECT * FROM queries."the newest"').fetchall() == []
        client.unregister(client.query(key=keys[0]))
        client.queries()
        assert connection.execute(_COUNTED).fetchall() == [(5,)]  # the next one is shown instead
        assert (
            connection.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'v' AND relname = %s", [keys[0]]
            ).fetchall()
            == []
        )
    released(running)


@pytest.mark.long
def test_hidden_streams_are_counted_while_they_exist_and_shown_once_there_is_room(
    running: Serving, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(running)
    with _connected(running) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(filled_store, "MOST_BYTES", 0)
            connection.execute(_COUNTED)
            (place,) = stores_of(running)._places.values()
            hidden = place.store.hidden
            for count in (1, 2):
                client.execute(f"CREATE STREAM hidden{count} (n BIGINT)")
                connection.execute(_COUNTED)
                assert place.store.hidden == hidden + count
            client.execute("DROP STREAM hidden1")
            connection.execute(_COUNTED)
            assert place.store.hidden == hidden + 1
        client.execute("CREATE STREAM later (n BIGINT)")
        shown = {name for (name,) in connection.execute("SELECT relname FROM pg_class WHERE relkind = 'r'").fetchall()}
        assert {"hidden2", "later", "base"} <= shown
        assert place.store.hidden == 0


def test_the_directory_of_a_snapshot_is_made_once_and_not_on_the_event_loop(running: Serving) -> None:
    with _connected(running) as connection:
        connection.execute(_COUNTED)
    source, host = stores_of(running)._source, running.service.host
    threads = set[int]()

    async def work(function: Any) -> Any:
        def noted() -> Any:
            threads.add(threading.get_ident())
            return function()

        return await asyncio.to_thread(noted)

    async def twice() -> tuple[int, bool]:
        while True:  # until nothing is published meanwhile
            before = host.snapshot()
            source._directory = None
            first, second = await source.directory(work), await source.directory(work)
            if host.snapshot() is before:
                return threading.get_ident(), first is second

    loop, once = asyncio.run_coroutine_threadsafe(twice(), running._loop).result(30)
    assert once
    assert threads
    assert loop not in threads


def test_a_statement_with_too_many_rows_runs_once(running: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, run = list[str](), store.Running.run

    def noted(self: store.Running) -> Any:
        texts.append(self._text)
        return run(self)

    monkeypatch.setattr(store.Running, "run", noted)
    monkeypatch.setattr(store, "MOST_ROWS", 10)
    with _connected(running) as connection:
        with pytest.raises(psycopg.errors.OutOfMemory, match="more than 10 rows"):
            connection.execute("SELECT oid FROM pg_type")
        assert len(texts) == 1

"""Eager answers in a service: a thread of their own updates them, and an invocation has nothing left to do."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from psoup.answer.eager.eager_updates import EagerUpdates
from psoup.published.eager_queries import EagerFacts
from psoup.published.snapshot import Snapshot
from psoup_client import Client
from psoup_service.host.fold_notes import UPDATING, FoldMark
from psoup_service.process.settings import Settings
from psoup_storage import open_store
from psoup_testing.services.threaded_service import Serving, serving

SELECT = "SELECT a, b FROM s WHERE a < 50 BEGIN (NOW - 200 ROWS)"
JOIN = "SELECT x.a, y.b FROM s [ROWS 90] AS x, s [ROWS 40] AS y WHERE x.a = y.a AND y.b < 3"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the threads that update answers."""
    names, update = set[str](), EagerUpdates.step

    def step(self: EagerUpdates, snapshot: Snapshot, now: int) -> bool:
        names.add(threading.current_thread().name)
        return update(self, snapshot, now)

    monkeypatch.setattr(EagerUpdates, "step", step)
    return names


def push(client: Client, first: int, count: int = 40) -> int:
    """Push tuples. Returns the sequence of the event."""
    numbers = range(first, first + count)
    return client.push("s", {"a": [n * 37 % 100 for n in numbers], "b": [n % 7 for n in numbers]}).sequence


def facts(service: Serving) -> list[EagerFacts]:
    """The facts about all eager queries."""
    return [*service.service.host.snapshot().eager.facts.values()]


def updated(service: Serving, sequence: int, count: int) -> bool:
    """Whether the kept answers of `count` eager queries are of the event `sequence` or a later one."""
    snapshot = service.service.host.snapshot()
    entries = [snapshot.answers.look(query) for query in snapshot.eager.ids().tolist()]
    return sum(entry is not None and entry.sequence >= sequence for entry in entries) == count


def test_a_thread_updates_answers_and_invocations_find_them_ready(threads: set[str]) -> None:
    with serving() as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT NOT NULL, b BIGINT NOT NULL)")
        push(client, 0, 300)
        assert not threads, "without eager queries the thread sleeps"
        eager = [client.register(sql, amount="complete", eager=True) for sql in (SELECT, JOIN)]
        partial = [client.register(sql) for sql in (SELECT, JOIN)]
        for step in range(3):
            sequence = push(client, 300 + 40 * step)
            service.wait_until(lambda sequence=sequence: updated(service, sequence, 2))  # type: ignore[misc]
            room = service.service.host.snapshot().answers
            before = [room.look(query) for query in service.service.host.snapshot().eager.ids().tolist()]
            answers = [query.invoke().rows() for query in eager]
            assert answers == [query.invoke().rows() for query in partial]
            after = [room.look(query) for query in service.service.host.snapshot().eager.ids().tolist()]
            assert all(entry is former for former, entry in zip(before, after, strict=True)), "nothing was kept anew"
        assert threads == {"psoup-eager"}, "neither the writer nor the event loop"
        lines = "\n".join(eager[0].explain().lines)
        assert (
            "COMPLETE, eager" in lines
            and "eager: updated after events of its streams" in lines
            and "times so far" in lines
        )
        assert service.service.regular.eager.errors == 0
        thread = service.service.regular.eager._thread
        assert thread.is_alive()
    assert not thread.is_alive()


def test_answers_are_made_again_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with serving(store=open_store(path, reserve_bytes=0)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT NOT NULL, b BIGINT NOT NULL)")
        client.register(SELECT, key="eager", amount="complete", eager=True)
        client.register(JOIN, key="altered", amount="complete").alter(eager=True)
        push(client, 0, 300)
    with serving(store=open_store(path, reserve_bytes=0)) as service, Client(service.address) as client:
        service.wait_until(lambda: updated(service, 1, 2))
        assert [query.info.eager for query in client.queries()] == [True, True]
        assert client.query(key="eager").invoke().rows()


def test_a_thread_that_an_error_has_met_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psoup_service.chores.eager_answers._AFTER_ERROR_S", 0.0)
    left, update = [2], EagerUpdates.step

    def step(self: EagerUpdates, snapshot: Snapshot, now: int) -> bool:
        if left[0]:
            left[0] -= 1
            raise MemoryError
        return update(self, snapshot, now)

    monkeypatch.setattr(EagerUpdates, "step", step)
    with serving() as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT NOT NULL, b BIGINT NOT NULL)")
        client.register(SELECT, amount="complete", eager=True)
        for errors in (1, 2):
            push(client, 0)
            service.wait_until(lambda errors=errors: service.service.regular.eager.errors >= errors)  # type: ignore[misc]
        sequence = push(client, 40)
        service.wait_until(lambda: updated(service, sequence, 1))


def test_a_tenant_without_memory_for_reads_gets_no_updates_and_a_reason() -> None:
    settings = Settings(port=0, sort_mib=1)
    with serving(settings) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT NOT NULL, b BIGINT NOT NULL)")
        push(client, 0, 100_000)
        query = client.register("SELECT b, a FROM s ORDER BY b, a", amount="complete", eager=True)
        service.wait_until(lambda: any(some.why_not for some in facts(service)))
        push(client, 1)
        assert "an update was refused" in "\n".join(query.explain().lines)
        assert service.service.host.snapshot().eager.refused == 1


def test_an_answer_during_which_two_processes_have_ended_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with serving(store=open_store(path, reserve_bytes=0)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT NOT NULL, b BIGINT NOT NULL)")
        client.register(SELECT, amount="complete", eager=True)
        service.wait_until(lambda: any(some.updates for some in facts(service)))
        (query,) = service.service.host.snapshot().eager.ids().tolist()
    store = open_store(path, reserve_bytes=0)
    assert store.noted(UPDATING) == "", "the update has ended"
    store.note(UPDATING, FoldMark(query, 2).to_text(), sync=True)
    with serving(store=store) as service:
        service.wait_until(lambda: any("has ended twice" in some.why_not for some in facts(service)))
        assert service.service.host.snapshot().eager.updates == 0

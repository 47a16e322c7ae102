"""Stores that stay up to date: connected, through a restart, beside another process, or round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from psoup_client import Client, ClientOptions, PSoupError, RetryOptions, Unavailable
from psoup_recharge import Recharged, Store, live, watch_log
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.copies.copied_rows import older
from psoup_testing.services.command import Psoup
from psoup_testing.services.ports import KeptPort
from psoup_testing.services.threaded_service import Serving, serving

MakeStream = Callable[[str], str]
QUICK = ClientOptions(retry=RetryOptions(first_pause_seconds=0.01, longest_pause_seconds=0.05, restart_seconds=0.0))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "here.db") as file:
        yield file


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(live, "LONGEST_PAUSE_S", 0.05)


def until(changes: Iterator[Recharged], name: str, store: Store, rows: int) -> list[Recharged]:
    """Read changes until a copy has so many rows."""
    seen = list[Recharged]()
    while store.entry(name).rows != rows:
        seen.append(next(changes))
    return seen


def test_changes_come_while_connected(client: Client, store: Store, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT, t TEXT)")
    store.add("high", sql=f"SELECT n FROM {stream} WHERE n > 5 BEGIN (START)")
    store.add("groups", sql=f"SELECT t, count(*) AS c FROM {stream} GROUP BY t BEGIN (START)", fresh=900)
    client.push(stream, {"n": range(10), "t": ["a"] * 10})
    with store.watch(client) as watched:
        changes = iter(watched)
        assert {change.name for change in islice(changes, 2)} == {"high", "groups"}
        client.push(stream, {"n": [7, 1], "t": ["b", "b"]})
        seen = [*until(changes, "high", store, 5), *until(changes, "groups", store, 2)]
        assert all(change.error is None and change.complete for change in seen)
        assert sorted(store.read("high").column("n").to_pylist()) == [6, 7, 7, 8, 9]
        with Store(store.path) as other:  # another process is faster
            client.push(stream, {"n": [8], "t": ["c"]})
            other.recharge(client)
        client.push(stream, {"n": [9], "t": ["c"]})
        until(changes, "high", store, 7)
        lines = [line for line in store.recharges() if line["why"] == "watch"]
        assert lines and all(line["received"] and line["sent"] for line in lines)
        assert {"high", "groups"} <= {line["name"] for line in store.history()}
        client.unregister(key=store.key_of(store.entry("high")))
        while next(changes).error is None:
            pass
        client.push(stream, {"n": [6], "t": ["c"]})
        until(changes, "high", store, 8)
    assert len(list(changes)) <= 2, "what had come is given, and then it ends"


@pytest.mark.long
def test_it_goes_on_after_a_restart_and_says_why_it_was_away(tmp_path: Path, store: Store, kept_port: KeptPort) -> None:
    settings, lost = Settings(port=kept_port.number), list[PSoupError]()
    service = Serving(settings, store=DurableStore(tmp_path / "data"))
    with Client(service.address, options=QUICK) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        client.push("s", {"n": range(10)})
        store.add("all", sql="SELECT n FROM s BEGIN (START)")
        watched = store.watch(client, lost=lost.append)
        changes = iter(watched)
        assert next(changes).came == 10
        client.push("s", {"n": [10]})
        until(changes, "all", store, 11)
        service.stop()
        with (
            serving(settings, store=DurableStore(tmp_path / "data")),
            Client(service.address) as other,
        ):
            other.push("s", {"n": [11]})
            assert not any(change.reset for change in until(changes, "all", store, 12))
            watched.close()
    assert lost and isinstance(lost[0], Unavailable)


def test_a_line_of_history_tells_of_some_minutes(
    client: Client, store: Store, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream("(n BIGINT)")
    store.add("all", sql=f"SELECT n FROM {stream} BEGIN (START)")
    with store.watch(client) as watched:
        changes = iter(watched)
        next(changes)
        for n in range(3):
            client.push(stream, {"n": [n]})
            until(changes, "all", store, n + 1)
        assert [line["why"] for line in store.recharges()] == [""], "there is no line for each change"
        monkeypatch.setattr(watch_log, "NOTE_S", 0.0)
        client.push(stream, {"n": [3]})
        until(changes, "all", store, 4)
        line, _ = store.recharges()
        assert (line["came"], line["left_out"], line["why"]) == (3, "", "watch") and 0 < line["sent"] < line["received"]
        assert [line["came"] for line in store.history()] == [3, 0]
        monkeypatch.setattr(watch_log, "NOTE_S", 600.0)
        changes.close()  # type: ignore[attr-defined]
    assert [line["came"] for line in store.history()] == [1, 3, 0], "the end of it is told, too"


def test_a_service_that_does_not_know_watch_is_asked_again_and_again(
    client: Client, store: Store, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    older(client, monkeypatch)
    stream, lost = make_stream("(n BIGINT)"), list[PSoupError]()
    store.add("all", sql=f"SELECT n FROM {stream} BEGIN (START)")
    with store.watch(client, lost=lost.append) as watched:
        changes = iter(watched)
        next(changes)
        for n in range(3):
            client.push(stream, {"n": [n]})
            until(changes, "all", store, n + 1)
        client.unregister(key=store.key_of(store.entry("all")))
        while next(changes).error is None:
            pass
        client.push(stream, {"n": [3]})
        until(changes, "all", store, 4)
    assert [problem.reason for problem in lost] == ["NO_SUCH_CALL"] and "older version" in lost[0].message


def test_rounds_lie_apart(client: Client, store: Store, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT)")
    store.add("all", sql=f"SELECT n FROM {stream} BEGIN (START)")
    with store.watch(client, every=0.01) as watched:
        changes = iter(watched)
        assert next(changes).reset == "first"
        client.push(stream, {"n": [1]})
        until(changes, "all", store, 1)


def test_the_command(psoup: Psoup, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert psoup("recharge", "add", "all_rows", f"SELECT * FROM {filled} BEGIN (START)").code == 0
    assert psoup("recharge", "add", "bad", "SELECT nothing FROM nowhere").code == 0
    watch = Store.watch

    def two(self: Store, *given: Any, **named: Any) -> Iterator[Recharged]:
        return islice(iter(watch(self, *given, **named)), 2)

    monkeypatch.setattr(Store, "watch", two)
    ran = psoup("recharge", "watch")
    assert ran.code == 0 and ran.out.startswith("all_rows: ") and "bad: " in ran.err
    assert '"name"' in psoup("recharge", "watch", "--every", "15min", "--json").out
    assert psoup("recharge", "watch", "--every", "soon").code == 2

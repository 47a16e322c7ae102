"""Copies of answers stay right whatever happens to the service and to the clients: the machine of `copy_machine`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test

from psoup.answer.copies import rows_since
from psoup_client.copies import answer_copy
from psoup_client.copies.moments import Moment
from psoup_recharge import StoreError, live, store
from psoup_service.host.reads import expectations
from psoup_service.servicers import sync as servicer
from psoup_service.sync import changes
from psoup_service.sync.lives import Lives
from psoup_service.sync.tokens import ClientRows, Tokens
from psoup_service.watching import topics
from psoup_service.watching.rounds import Rounds
from psoup_testing.copies.copy_clients import CLIENT, MET, PATTERNS, RANGED, WANTED
from psoup_testing.copies.copy_desk import Manner
from psoup_testing.copies.copy_live import KEPT_WATCHED, KeptWatchingMachine
from psoup_testing.copies.copy_machine import ACTS, STEPS, TUPLES, CopiesMachine
from psoup_testing.copies.copy_watchers import WATCHED, WatchingMachine
from psoup_testing.suite.budget import ALL_PLACES, SCALE, SEED, Budget, replayable, round_settings, unscaled

TOGETHER = 2
"""Random machines of one run."""
MACHINES = Budget("copies: state machines", unscaled(TOGETHER))
SWEPT = (
    ([step for step in STEPS if step not in ("batch", "heartbeat")], {}),
    (["heartbeat"], {"event": True}),
    (["batch"], {"event": True, "fed": True}),
)
"""Steps, and of which streams."""


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change looks at few tuples, and no clock of this machine ends a reply."""
    monkeypatch.setattr(changes, "MOST_TUPLES", TUPLES)
    monkeypatch.setattr(servicer, "MANY_S", float("inf"))
    monkeypatch.setattr(expectations, "_QUICK_S", 1e9)
    monkeypatch.setattr(expectations, "_LOOP_S", 1e9)
    monkeypatch.setattr(topics, "_SHARE", 0)
    monkeypatch.setattr(live, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(live, "LONGEST_PAUSE_S", 0.0)
    monkeypatch.setattr(store, "moment", lambda: Moment(0, 0, ""))


def run(number: int, machines: int = 4, steps: int = 40) -> None:
    machine = seed(number)(type("Machine", (CopiesMachine,), {}))
    with replayable(number):
        run_state_machine_as_test(machine, settings=round_settings(machines, stateful_step_count=steps))


@pytest.mark.long
def test_copies_are_the_answers_whatever_happens() -> None:
    """All pairs of steps, patterns and what clients do are met, and all triples where there is time for everything."""
    MET.clear()
    turns = range(len(ACTS)) if SCALE >= ALL_PLACES else [SEED % len(ACTS)]
    for turn, (steps, begun) in product(turns, SWEPT):
        played(functools.partial(CopiesMachine.sweep, steps=steps, turn=turn), **begun)()
    for number in MACHINES.rounds():
        run(number, TOGETHER)
        MACHINES.count(TOGETHER)
    met = [*product(STEPS, PATTERNS), *product(STEPS, ACTS), *product(ACTS, PATTERNS)]
    if len(turns) > 1:
        met += product(STEPS, PATTERNS, ACTS)
    missed = [case for case in (*WANTED, *STEPS, *CLIENT, *map(" / ".join, met)) if not MET[case]]
    assert not missed, f"never met: {missed}"


@pytest.mark.long
def test_who_watches_holds_the_answers() -> None:
    """After every step, and after some in which it did not read; it goes on when the service was stopped."""
    MET.clear()
    for steps, begun in SWEPT:
        played(functools.partial(WatchingMachine.watch, steps=steps, turn=SEED), WatchingMachine, **begun)()
        played(functools.partial(KeptWatchingMachine.keep, steps=steps), KeptWatchingMachine, **begun)()
    pairs = [*product(STEPS, WATCHED), *product((*WATCHED, "resumes"), PATTERNS)]
    pairs += [*product(STEPS, KEPT_WATCHED[:2]), *product(KEPT_WATCHED, PATTERNS)]
    missed = [case for case in map(" / ".join, pairs) if not MET[case]]
    assert not missed, f"never met: {missed}"


def test_one_copy_of_a_selection_in_memory_needs_no_reader_thread() -> None:
    def script(machine: CopiesMachine) -> None:
        hops = dict[str, int]()
        machine.asks_for_all(0)
        for client in machine.clients:
            machine.ask([client], Manner())
            before = machine.desk.hops
            machine.ask([client], Manner())
            hops[client.pattern] = machine.desk.hops - before
        assert {pattern for pattern, count in hops.items() if not count} == set(RANGED)
        before = machine.desk.hops
        machine.act(machine.clients[0], "other window", 0)
        assert machine.desk.hops > before

    played(script)()


FOUND = "right|ordered|explicit reset|unique|gap-free|bookmarked|minimal|quiet|resumable|atomic|bounded|UNIQUE"
"""What validators say, or SQLite of rows that come twice."""


def no_reset_after(right: Any, self: Any, life: bytes, sequence: int, newest: int) -> bool:
    return True


def one_window_for_all(right: Any, window: str, accept_truncation: bool) -> bytes:
    return bytes(4)


def one_more(right: Any, intervals: Any, low: int, high: int) -> Any:
    return right(intervals, low, high + 1)


def history_ignored(right: Any, low: int, high: int, intervals: Any) -> Any:
    return right(max(low, intervals[0][0]) if intervals else low, high, intervals)


def limit_before_history(right: Any, self: Any, low: int, high: int, limit: int | None) -> int:
    return right(self, max(low, 0), high, limit)


def nothing_leaves(right: Any, table: Any, form: Any, keep: Any) -> Any:
    return np.ones(table.num_rows, np.bool_)


def kept_at_a_reset(right: Any, state: Any, change: Any) -> Any:
    new = right(state, change)
    if not change.reset or state.table is None or state.table.schema != new.table.schema:
        return new
    return dataclasses.replace(new, table=pa.concat_tables([state.table.slice(0, 1), new.table]))


def a_cut_that_goes_too_far(right: Any, low: int, high: int, matches: Any, oldest_first: bool) -> Any:
    first, end = right(low, high, matches, oldest_first)
    return (first, end + 1) if oldest_first else (first - 1, end)


def a_token_before_its_rows(right: Any, self: Any, held: ClientRows, tenant: str, sequence: int) -> bytes:
    ahead = (*held.intervals[:-1], *[(low, high + 3) for low, high in held.intervals[-1:]])
    return right(self, held._replace(intervals=ahead), tenant, sequence)


def a_token_in_another_transaction(right: Any, self: Any, *written: Any) -> None:
    right(self, *written)
    self._file.run("COMMIT")
    self._file.run("BEGIN IMMEDIATE")


def whatever_token_is_there(right: Any, self: Any, entry: Any, asked: Any, *more: Any) -> int | None:
    ((token,),) = self._file.run("SELECT token FROM queries WHERE name = ?", entry.name)
    asked.token = token
    return right(self, entry, asked, *more)


def the_place_of_before(right: Any, self: Any, watcher: Any, taken: Any, page: Any) -> None:
    tokens = [want.token for want in watcher.wants]
    right(self, watcher, taken, page)
    for want, token in zip(watcher.wants, tokens, strict=True):
        want.token = token or want.token


Script = Callable[[Any], None]


def at_random(number: int) -> Callable[[], None]:
    return functools.partial(run, number)


def played(script: Script, kind: type[CopiesMachine] = CopiesMachine, **begun: Any) -> Callable[[], None]:
    """Steps by hand, for what random ones meet seldom."""

    def play() -> None:
        machine = kind()
        machine.begin(**{"event": False, "fed": False, "kept": "", "small": False, "seed": 2, **begun})
        try:
            script(machine)
        finally:
            machine.teardown()

    return play


def put_back(machine: CopiesMachine) -> None:
    machine.push(20, 1, False, 1)
    machine.start("put back")


def clock_put_right(machine: CopiesMachine) -> None:
    for _ in range(8):
        machine.push(20, 4, False, 1)
        machine.advance(-14)
        machine.asks_for_all(0)


def window_changed(machine: CopiesMachine) -> None:
    machine.push(20, 1, False, 1)
    machine.asks_for_all(0)
    for number in range(6):
        machine.act(machine.client_of(0, "range", False), "other window", number)


def history_twice(machine: CopiesMachine) -> None:
    machine.push(20, 1, False, 1)
    machine.history(30, "s")
    machine.history(30, "s")


def killed_anywhere(machine: CopiesMachine) -> None:
    for at in range(12):
        machine.push(20, 1, False, 1)
        machine.act(machine.client_of(0, "range", True), "is killed", at)


def two_on_a_store(machine: CopiesMachine) -> None:
    for _ in range(2):
        machine.act(machine.client_of(0, "range", True), "is one of two", 0)


def watched(machine: WatchingMachine) -> None:
    machine.watch(["push", "push", "push"], 1)


PLANTED: list[tuple[Any, str, Any, Callable[[], None]]] = [
    (Lives, "has", no_reset_after, played(put_back)),
    (changes, "digest_of_window", one_window_for_all, played(window_changed)),
    (rows_since, "within", one_more, played(clock_put_right, seed=1)),
    (rows_since, "without", history_ignored, played(history_twice)),
    (rows_since.RangeSearch, "end_of", limit_before_history, played(history_twice)),
    (answer_copy, "staying", nothing_leaves, played(clock_put_right)),
    (answer_copy, "_changed", kept_at_a_reset, played(put_back)),
    (rows_since, "_cut", a_cut_that_goes_too_far, at_random(0)),
    (Tokens, "write", a_token_before_its_rows, at_random(0)),
    (Rounds, "apply", the_place_of_before, played(watched, WatchingMachine)),
    (store.Store, "_insert", a_token_in_another_transaction, played(killed_anywhere)),
    (store.Store, "apply", whatever_token_is_there, played(two_on_a_store)),
]


@pytest.mark.long
@pytest.mark.seeded("the token is stored in another transaction than the rows")
@pytest.mark.seeded("a change is applied to a copy that has another token by now")
@pytest.mark.seeded("a token of a life that was put back is believed")
@pytest.mark.seeded("a token of another window is believed")
@pytest.mark.seeded("history is ignored, LIMIT ends before it, or what is held reaches one tuple beyond the window")
@pytest.mark.seeded("rows that leave are told to stay")
@pytest.mark.seeded("a row of before stays at a reset")
@pytest.mark.seeded("a cut, or a token, goes further than the rows")
@pytest.mark.seeded("a client that watches is taken to be where it was before its last page")
@pytest.mark.parametrize(
    ("owner", "name", "planted", "play"), PLANTED, ids=lambda value: getattr(value, "__name__", "").strip("_")
)
def test_a_planted_bug_is_found(
    owner: Any, name: str, planted: Any, play: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args: planted(right, *args))
    with pytest.raises((AssertionError, StoreError), match=FOUND):
        play()

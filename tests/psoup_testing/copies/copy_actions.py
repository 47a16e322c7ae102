"""The actions of clients with copies, by name: `act` lets a client do any of them.

asks, few bytes, few rows, oldest first, is cut     one reply
goes back, is shared, other window                  with an older copy, a copy of a copy, another window
is kept in a store, spends bytes                    a recharge, also within a budget
is killed, is one of two                            in a transaction of its store; another process is faster
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from psoup_client.copies.answer_copy import AnswerCopy, copy_of_bytes
from psoup_testing.copies.copy_clients import Client, Clients
from psoup_testing.copies.copy_desk import Line, Manner
from psoup_testing.copies.copy_stores import KeptCopy, Killed, LookedAtStore, StoreLine, copied

WINDOWS = (
    "BEGIN (NOW - 20 SECONDS)",
    "BEGIN (NOW - 40 SECONDS) END (NOW - 10 SECONDS)",
    "BEGIN (START)",
    "BEGIN (NOW - 150 ROWS)",
    "BEGIN (NOW - 300 ROWS) END (NOW - 100 ROWS)",
)
MANNERS = {
    "asks": Manner(),
    "few bytes": Manner(max_bytes=300),
    "few rows": Manner(max_rows=2),
    "oldest first": Manner(oldest_first=True),
    "is cut": Manner(cut=True),
}
TURNS = ("goes back", "is shared", "other window")
OF_STORES = ("is kept in a store", "spends bytes", "is killed", "is one of two")


class Actions(Clients):
    """The clients of a machine, and what they do."""

    folder: Path
    stores: list[LookedAtStore]
    push: Callable[[int, int, bool, int], None]

    def new_client(self, key: str, pattern: str, stored: bool) -> None:
        """A client with a copy of a query, of its own or in the store that is there first."""
        if not stored:
            line = Line(self.desk)
            copy = AnswerCopy(line, "", key=key, accept_truncation=True)  # type: ignore[arg-type]
            self.clients.append(Client(copy, line, key, pattern))
            return
        store = self.stores[0] if self.stores else self.opened(self.folder / "store-0.db")
        store.add(key, key=key)
        queries = [
            client.line for client in self.clients if isinstance(client.copy, KeptCopy) and client.copy.store is store
        ]
        self.clients.append(Client(KeptCopy(store, key), queries[0] if queries else self.line_of(store), key, pattern))

    def opened(self, path: Path) -> LookedAtStore:
        """A store on a file."""
        store = LookedAtStore(path)
        self.stores.append(store)
        return store

    def line_of(self, store: LookedAtStore) -> StoreLine:
        """A line of a store, whose changes are looked at as they are told on it."""
        line = StoreLine(self.desk)
        store.look = partial(self.look_at, line)
        return line

    def act(self, client: Client, action: str, number: int) -> None:
        """Let a client do something; one with a copy of its own asks instead of what only stores do."""
        if isinstance(client.copy, AnswerCopy) and action in OF_STORES:
            action = "asks"
        if action in MANNERS:
            self.ask([client], MANNERS[action])
        elif action in TURNS:
            self.client_met(action, client)
            self.turn(client, action, number)
            if client in self.clients:
                self.ask([client], Manner())
        elif action == "is killed":
            self.killed(client, number % 7)
        elif action == "is one of two":
            self.one_of_two(client)
        else:
            assert isinstance(client.copy, KeptCopy) and isinstance(client.line, StoreLine)
            budget = 0 if action == "is kept in a store" else 1 + number * 97 % 3_000
            self.recharge(client.copy.store, client.line, [client], Manner(), budget)

    def turn(self, client: Client, action: str, place: int) -> None:
        """Let one client go on with an older copy, give its copy to another, or want another window."""
        if action == "is shared":
            self.clients.append(self.remade(client, self.taken(client), client.given))
        elif action == "other window":
            client.copy._window = "" if client.copy._window else WINDOWS[place % len(WINDOWS)]
        else:
            taken, given = client.older or (None, None)
            if taken is None or place % 2:
                taken, given = self.taken(client), client.given
                self.push(9, 1, False, place)
                self.ask([client], Manner())
                if client not in self.clients:
                    return
            older = self.remade(client, taken, given)
            client.copy, client.line, client.given = older.copy, older.line, given
            client.older = self.taken(client), client.given

    def taken(self, client: Client) -> Any:
        """A copy of a client's copy: bytes, or a file."""
        return copied(client.copy.store.path) if isinstance(client.copy, KeptCopy) else client.copy.to_bytes()

    def remade(self, client: Client, taken: Any, given: Any) -> Client:
        """A client that goes on with what was taken."""
        if isinstance(client.copy, AnswerCopy):
            line = Line(self.desk)
            return Client(copy_of_bytes(line, taken), line, client.key, client.pattern, given)  # type: ignore[arg-type]
        store = self.opened(copied(taken))
        for entry in store.entries():
            if entry.name != client.key:
                store.forget(entry.name)
        return Client(KeptCopy(store, client.key), self.line_of(store), client.key, client.pattern, given)

    def killed(self, client: Client, at: int) -> None:
        """Kill a store at a statement of the transaction of a change, or after it (0): it is there, or it is not."""
        self.client_met("is killed", client)
        assert isinstance(client.copy, KeptCopy) and isinstance(client.line, StoreLine)
        store = client.copy.store
        store.kill_at = at
        try:
            self.recharge(store, client.line, [client], Manner())
        except Killed as end:
            store.close()
            again = LookedAtStore(end.left)
            again.look = store.look
            self.stores[self.stores.index(store)] = again
            for other in self.clients:
                if isinstance(other.copy, KeptCopy) and other.copy.store is store:
                    other.copy = KeptCopy(again, other.key)
            assert at == 0 or client.copy.same_as(store.was), "atomic: half of a change is left"
            assert at or not store.new or client.copy._state.token == store.new, (
                "atomic: a change that was made is lost"
            )
            if at == 0 and store.new:
                client.given = self.desk.start, self.desk.sequence, client.copy._window
            self.sound = True
            self.ask([client], Manner())
        else:
            store.kill_at = None

    def one_of_two(self, client: Client) -> None:
        """Let another process be faster, while the reply to this one is under way."""
        self.client_met("is one of two", client)
        assert isinstance(client.copy, KeptCopy) and isinstance(client.line, StoreLine)
        store, line = client.copy.store, client.line
        second = LookedAtStore(store.path)
        self.push(20, 1, False, 1)

        def meanwhile() -> None:
            self.push(20, 1, False, 1)
            if client in self.clients:
                self.recharge(second, self.line_of(second), [client], Manner())

        line.meanwhile = meanwhile
        try:
            self.recharge(store, line, [client], Manner(), 1)
        finally:
            line.meanwhile = None
            second.close()

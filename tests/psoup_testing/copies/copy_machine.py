"""Whatever happens to a service, its clients' copies are the answers: as Hypothesis drives both, rule by rule.

    steps     pushes, late tuples, heartbeats, clocks, queries that come and go, ALTER, history and batches of jobs,
              upkeep, covers, restarts, kill, snapshots put back, backups restored, chunks set aside, keys rotated
    clients   ask for one copy or for all, of few bytes or rows, oldest or newest first, are cut off, go on with an
              older copy, or with a copy of a copy, ask for another window; or they recharge a store within budgets,
              are killed in a transaction, are two on one file (`copy_actions`)

After every reply the validators look at it (`copy_validators`), and what was met is counted (`copy_clients`). A case
that was never met proves nothing, so a zero fails. `sweep` meets all pairs of a step, a pattern and an action. Clients
that watch are in `copy_watching`, stores that watch in `copy_live`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.copies.copy_actions import MANNERS, OF_STORES, TURNS, WINDOWS, Actions
from psoup_testing.copies.copy_clients import MET, PATTERNS, RANGED, Client
from psoup_testing.copies.copy_desk import Desk, Manner, Saved
from psoup_testing.copies.copy_stores import KeptCopy, LookedAtStore
from psoup_testing.engines.attachments import attach, take, write, write_job
from psoup_testing.engines.restarts import RestartingPSoup

KEPT = ("", " RETENTION 60 SECONDS", " RETENTION 300 ROWS", " RETENTION 150 ROWS ARCHIVE 450 ROWS", "")
CONFIG = EngineConfig(chunk_rows=64, piece_rows=64)
ACTS = (*MANNERS, *TURNS, *OF_STORES)
TUPLES = 200
"""Tuples of a window that one change looks at: so some windows take several."""
STEPS = (
    *("push", "late", "heartbeat", "clock forward", "clock back", "register", "unregister", "alter", "history"),
    *("batch", "seal", "cover", "restart", "kill", "put back", "restore", "set aside", "rotate"),
)


class CopiesMachine(Actions, RuleBasedStateMachine):
    """Two streams, queries of all patterns, and clients."""

    @initialize(
        event=st.booleans(),
        fed=st.sampled_from([False, True, False]),
        kept=st.sampled_from(KEPT),
        small=st.booleans(),
        seed=st.integers(0, 99),
    )
    def begin(self, event: bool, fed: bool, kept: str, small: bool, seed: int) -> None:
        """Streams, with a query of each pattern and a client of each."""
        self.folder = Path(tempfile.mkdtemp(prefix="copies-"))
        self.clock = VirtualClock(1_700_000_000 * SECOND)
        self.soup = RestartingPSoup(CONFIG, self.clock, self.folder / "data", hot_bytes=20_000 if small else 2**40)
        self.event, self.fed, self.number, self.batch, self.jobs = event, fed, seed, 0, 0
        timed = ", at TIMESTAMP NOT NULL) TIMESTAMP BY at LATENESS 5 SECONDS" if event else ")"
        for name in "sr":
            self.soup.execute(f"CREATE STREAM {name} (a BIGINT, b BIGINT, x DOUBLE, w TEXT{timed}{kept}")
        self.desk = Desk(self.soup, self.folder)
        self.clients, self.saved = list[Client](), list[Saved]()
        self.stores, self.acting = list[LookedAtStore](), True
        for which in range(len(PATTERNS)):
            self.register(which, seed + which // 2)

    def met(self, step: str) -> None:
        """Note a step, for all clients that have not asked since."""
        MET[step] += 1
        for client in self.clients:
            client.since.add(step)

    # Steps ----------------------------------------------------------------------------------------------------

    def rows(self, count: int, spread: int) -> pa.Table:
        """Some rows, up to so many seconds behind the clock."""
        self.number += 1
        draws = [(self.number * 7_919 + place * 104_729) % 10_007 for place in range(count)]
        columns: dict[str, Any] = {
            "a": [None if draw % 11 == 0 else draw % 8 for draw in draws],
            "b": [draw // 8 % 10 for draw in draws],
            "x": [(float("nan"), -0.0, None, 0.0, draw / 7)[draw % 5] for draw in draws],
            "w": [(None, "", "ß", "NaN", "e")[draw // 3 % 5] for draw in draws],
        }
        if self.event:
            now = self.clock.now()
            times = [now - (draw % (spread + 1)) * SECOND for draw in draws]
            columns["at"] = pa.array(sorted(times) if self.fed else times, pa.timestamp("us", "UTC"))
        return pa.table(columns)

    @rule(count=st.integers(1, 90), step=st.integers(0, 4), late=st.booleans(), other=st.integers(0, 3))
    def push(self, count: int, step: int, late: bool, other: int) -> None:
        """Tuples arrive, some of them late; in a stream that jobs feed, a batch of a job."""
        self.clock.advance(seconds=step)
        rows = self.rows(count, 9 if late else 2)
        stream = "r" if other == 0 else "s"
        if self.fed and stream == "s":
            self.feed(rows)
            return
        self.soup.push(stream, rows, refused="count")
        self.met("late" if late else "push")

    def feed(self, rows: pa.Table) -> None:
        """A batch of a standing job; its rows must not be below the watermark."""
        view = self.soup.engine.snapshot().stream("s", self.soup.tenant)
        watermark = view.watermark if view.watermark is not None else -(2**62)
        times = [max(self.clock.now(), watermark, view.last_time or 0)] * rows.num_rows
        if self.event:
            rows = rows.set_column(4, "at", pa.array(times, pa.timestamp("us", "UTC")))
        self.batch += 1
        if self.job("s", "feed", rows, times, self.batch):
            self.met("batch")

    def job(self, stream: str, name: str, rows: pa.Table, times: Sequence[int], batch: int | None) -> bool:
        """Attach what a job wrote; returns whether it was taken."""
        folder = self.folder / f"job-{self.number}"
        spec = self.soup.engine.snapshot().stream(stream, self.soup.tenant).spec
        write(folder, spec, rows, times, range(0, len(times), 50), None, self.soup.store.incarnation)
        try:
            attach(self.soup, stream, name, folder, batch)
        except PSoupError:
            return False
        finally:
            shutil.rmtree(folder)
        return True

    @rule(count=st.integers(1, 120), stream=st.sampled_from("ssr"))
    def history(self, count: int, stream: str) -> None:
        """History of a job comes before all tuples."""
        view = self.soup.engine.snapshot().stream(stream, self.soup.tenant)
        firsts = [chunk.data.first_time for chunk in view.chunks[:1] if len(chunk.data)]
        last = min([self.clock.now() - 20 * SECOND, *firsts]) - SECOND
        times = [last - (count - place) * SECOND // 4 for place in range(count)]
        rows = self.rows(count, 0)
        if self.event:
            rows = rows.set_column(4, "at", pa.array(times, pa.timestamp("us", "UTC")))
        self.jobs += 1
        self.asks_for_all(0)
        if self.job(stream, f"job {self.jobs}", rows, times, None):
            self.met("history")
            self.all_act()

    @rule(away=st.integers(-10, 3))
    def heartbeat(self, away: int) -> None:
        """A promise, also in the past, also to a stream that takes none."""
        try:
            self.soup.heartbeat("s", self.clock.now() + away * SECOND)
        except PSoupError:
            return
        self.met("heartbeat")

    @rule(seconds=st.integers(-15, 25))
    def advance(self, seconds: int) -> None:
        """The clock goes on, or back; what has expired leaves."""
        if seconds < 0:  # a clock that runs ahead of the tuples, and is put right
            self.clock.advance(seconds=15)
            self.asks_for_all(0)
        self.clock.advance(seconds=seconds)
        self.soup.engine.expire(self.clock.now())
        self.met("clock forward" if seconds >= 0 else "clock back")

    @rule(which=st.integers(0, len(PATTERNS) - 1), window=st.integers(0, len(WINDOWS) - 1))
    def register(self, which: int, window: int) -> None:
        """A query of a pattern comes, with a client or two."""
        if len(self.clients) > 20 and self.acting:
            return
        self.number += 1
        names = [*PATTERNS]
        pattern, key = names[which % len(names)], f"k{self.number}"
        self.soup.register(f"{PATTERNS[pattern]} {WINDOWS[window % len(WINDOWS)]}", key=key)
        self.met("register")
        self.new_client(key, pattern, stored=self.number % 2 > 0)

    @precondition(lambda self: len(self.clients) > 3)
    @rule(place=st.integers(0, 99))
    def unregister(self, place: int) -> None:
        """A query goes; its clients are told, and keep what they have."""
        client = self.clients[place % len(self.clients)]
        try:
            self.soup.unregister(self.soup.query(client.key))
        except PSoupError:
            return
        self.met("unregister")
        self.ask([client], Manner())

    @rule(what=st.sampled_from(["alter", "seal", "cover"]), stream=st.sampled_from("sr"))
    def upkeep(self, what: str, stream: str) -> None:
        """A column comes; chunks are stored and archived, and what has expired leaves; a job evaluates queries."""
        self.number += 1
        if what == "alter":
            self.soup.execute(f"ALTER STREAM {stream} ADD COLUMN c{self.number} BIGINT")
        else:
            self.soup.maintain()
        if what == "cover":
            queries = [self.soup.query(c.key) for c in self.clients if c.pattern in RANGED and self.stands(c)]
            if not queries:
                return
            folder = self.folder / "cover"
            write_job(self.soup, folder, sorted(set(queries)))
            take(self.soup, folder, "s")
            shutil.rmtree(folder)
        self.met(what)

    @rule(
        how=st.sampled_from(
            ["restart", "kill", "rotate", "restore", "save", "put back", "put back", "set aside", "set aside"]
        )
    )
    def start(self, how: str) -> None:
        """The service starts again, on the same data, on older ones, or on a part of them."""
        desk = self.desk
        if how == "save":
            self.saved.append(desk.save())
            return
        if how == "put back":
            if not self.saved:
                self.saved.append(desk.save())
                self.push(20, 1, False, 1)
                self.asks_for_all(0)
            desk.put_back(self.saved[-1])
            self.clock.advance(seconds=1)
        elif how == "rotate":
            for _ in range(1 + len(desk.starts) % 2):
                desk.rotate()
        elif how == "set aside":
            if not self.damage():
                return
        else:
            {"restart": desk.restart, "kill": desk.kill, "restore": desk.restore}[how]()
        self.met(how)
        self.all_act()

    def all_act(self) -> None:
        """Each client does something, another thing each time."""
        if not self.acting:
            return
        self.number += 1
        for place, client in enumerate([*self.clients]):
            if client in self.clients:
                self.act(client, ACTS[(self.number + place) % len(ACTS)], self.number + place)

    def damage(self) -> bool:
        """Damage the oldest stored chunk, and let the doctor set it aside."""
        done = list[str]()
        self.push(90, 1, False, 1)
        self.push(90, 1, False, 1)
        self.soup.maintain()

        def work(path: Path) -> None:
            named = [(file.stem.split("-"), file) for file in path.glob("chunks/1-*.parquet")]
            numbered = [(int(parts[1]), file) for parts, file in named if len(parts) == 2 and parts[1].isdecimal()]
            stored = [file for _, file in sorted(numbered)]
            if len(stored) > 1:
                content = bytearray(stored[0].read_bytes())
                content[len(content) // 2] ^= 0xFF
                stored[0].write_bytes(content)
                done.extend(examine(path, aside=True).lost)

        self.desk.stopped(work)
        return bool(done)

    # Clients --------------------------------------------------------------------------------------------------

    @rule(
        place=st.integers(0, 99),
        max_bytes=st.sampled_from([0, 0, 0, 1, 300, 2_000]),
        max_rows=st.sampled_from([0, 0, 0, 1, 6]),
        oldest=st.booleans(),
        cut=st.integers(0, 7),
    )
    def asks(self, place: int, max_bytes: int, max_rows: int, oldest: bool, cut: int) -> None:
        """A client asks, for few bytes or rows; or its line is cut."""
        for number in (place, place + 7):
            if self.clients:
                client = self.clients[number % len(self.clients)]
                self.ask([client], Manner(max_bytes, max_rows, oldest, cut == 0))

    @precondition(lambda self: self.clients)
    @rule(place=st.integers(0, 99), few=st.integers(1, 4))
    def asks_in_pieces(self, place: int, few: int) -> None:
        """A client asks for few rows again and again, from either end, while more come: it holds several pieces."""
        some = [client for client in self.clients if client.pattern in RANGED] or self.clients
        client = some[place % len(some)]
        for turn in range(6):
            self.push(30, 1, False, 1)
            if client in self.clients:
                self.ask([client], Manner(0, few, turn % 2 == 0))

    @rule(max_bytes=st.sampled_from([0, 500, 3_000]), cut=st.booleans())
    def asks_for_all(self, max_bytes: int, cut: bool = False) -> None:
        """Call once for all copies that this start knows."""
        here = [c for c in self.clients if c.given is None or c.given[0].incarnation == self.desk.start.incarnation]
        if here:
            self.ask(here, Manner(max_bytes, cut=cut))

    @precondition(lambda self: self.clients)
    @rule(place=st.integers(0, 99), what=st.sampled_from([*TURNS, *OF_STORES]))
    def acts(self, place: int, what: str) -> None:
        """Some clients go on with older copies, share them, want another window; or what stores do."""
        for client in [self.clients[(place + more) % len(self.clients)] for more in range(0, 16, 2)]:
            if client in self.clients:
                self.act(client, what, place)

    def sweep(self, steps: Sequence[str], turn: int) -> None:
        """Each step, and after it a client of each pattern does something: all pairs of the three, in so many acts.

        With every `turn` up to the number of acts, all triples.
        """
        self.acting = False
        for which, pattern in enumerate(PATTERNS):
            self.client_of(which, pattern, False), self.client_of(which, pattern, True)
        for place, step in enumerate(steps):
            self.step(step, place)
            for which, pattern in enumerate(PATTERNS):
                action = ACTS[(which + place + turn) % len(ACTS)]
                self.act(self.client_of(which, pattern, action in OF_STORES or (place + which) % 2 > 0), action, place)

    def client_of(self, which: int, pattern: str, stored: bool) -> Client:
        """A client of a pattern, with a copy of its own or in a store."""
        for _ in range(2):
            for client in self.clients:
                if client.pattern == pattern and isinstance(client.copy, KeptCopy) == stored:
                    return client
            self.number += self.number % 2 == stored  # as register counts on
            self.register(which, which)
        raise AssertionError(f"no client of {pattern}")

    def step(self, step: str, place: int) -> None:
        """Do a step."""
        before = MET[step]
        away = {"clock forward": 25, "clock back": -10}.get(step, 0)
        if step in ("push", "late", "batch"):
            self.push(40, 1, step == "late", 1)
        elif step == "heartbeat":
            self.push(5, 0, False, 1)
            self.heartbeat(0)
        elif away:
            self.advance(away)
        elif step == "register":
            self.register(place, place)
        elif step == "unregister":
            self.register(place, place)
            self.unregister(len(self.clients) - 1)
        elif step == "history":
            self.history(30, "s")
        elif step in ("alter", "seal", "cover"):
            self.upkeep(step, "s")
        else:
            for _ in range(2 if step == "rotate" else 1):  # the key before the present one is valid
                self.start(step)
        assert MET[step] > before, f"{step} was not done"

    def teardown(self) -> None:
        """All clients come back, and hold the answers; the folder goes."""
        if not hasattr(self, "desk"):
            return
        try:
            for client in list(self.clients) if self.sound else []:
                for _ in range(40):
                    if client not in self.clients or (client.copy.complete and not client.since):
                        break
                    client.since.add("push")
                    self.ask([client], Manner())
                    if client.copy.complete:
                        client.since.clear()
                else:
                    raise AssertionError("resumable: a copy does not become complete")
        finally:
            for store in self.stores:
                store.close()
            self.soup.store.close()
            shutil.rmtree(self.folder)

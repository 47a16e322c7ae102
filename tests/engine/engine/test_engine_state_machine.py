"""T8: the engine as Hypothesis drives it, rule by rule, against the naive model and DuckDB.

Beside the answers: every invariant after every step, queries by their keys and labels, the matches of single tuples,
errors that leave everything as it was, and a bill that returns to what it was when a query has gone. Joins of the
stream with itself stand beside them: no reader sees their sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import note, seed
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from psoup.config import Shape
from psoup.errors import Conflict, NotFound, PSoupError
from psoup.events.tags import tag_of
from psoup.model import Schema
from psoup.phrases import quoted_text
from psoup_testing.histories.expressions import Maker, Scope
from psoup_testing.histories.histories import (
    BASE,
    SPAN,
    Alter,
    Invoke,
    Matches,
    draw_change,
    draw_config,
    draw_declaration,
    draw_invocation,
    draw_pools,
    make_rows,
)
from psoup_testing.histories.queries import draw_query
from psoup_testing.histories.windows import SECOND
from psoup_testing.oracles.duel import Duel, to_table
from psoup_testing.suite.budget import Budget, draws, replayable, round_settings

KEYS, USERS = ("a", "search 2", "é"), ("u0", "u1")

BUDGET = Budget("T8 state machine, steps", cases=480)


class EngineMachine(RuleBasedStateMachine):
    """One stream and its queries; `duel` compares, the rules decide what happens."""

    duel: Duel

    @initialize(draw=draws())
    def create(self, draw: Any) -> None:
        """CREATE STREAM, with an engine of random sizes."""
        make = Maker(draw, Scope(Schema(()), ()))
        declaration = draw_declaration(make)
        self.pools = draw_pools(make, declaration)
        config = draw_config(make)
        shards = make.number(1, 3)
        note(f"{declaration.sql()}\n{config}\nshards: {shards}")
        self.duel = Duel(declaration, config, shards=shards)
        self.at = 0
        self.joins: list[int] = []

    def make(self, draw: Any) -> Maker:
        """A maker of expressions over the stream."""
        return Maker(draw, Scope(self.duel.declaration.schema, self.pools), 2)

    @rule(count=st.integers(0, 100), step=st.integers(0, 60), number=st.integers(0, 1 << 16))
    def push(self, count: int, step: int, number: int) -> None:
        """Rows arrive, some late, some equal; then two of the queries are asked."""
        self.at += step
        self.duel.clock.advance(seconds=step)
        self.duel.push(make_rows(self.duel.declaration, self.pools, count, self.at, number))
        for asked in sorted(self.duel.standing)[-2:]:
            self.duel.invoke(Invoke(asked, None, None, True))

    @rule(away=st.integers(-60, 60))
    def heartbeat(self, away: int) -> None:
        """A promise, also in the past, also to a stream that takes none."""
        self.duel.heartbeat(BASE + (self.at + away) * SECOND)

    @rule(draw=draws(), key=st.sampled_from(("", *KEYS)), user=st.sampled_from(("", *USERS)))
    def register(self, draw: Any, key: str, user: str) -> None:
        """Any query, under a key or none; the key of a query that stands is refused."""
        query, tag = draw_query(self.make(draw), "s", BASE, SPAN), tag_of(key, {"user": user} if user else None)
        note(f"{tag} {query.sql()}")
        if key and key in [standing.tag.key for standing in self.duel.standing.values()]:
            with pytest.raises(Conflict, match=f"key '{key}' is that of another query"):
                self.duel.psoup.register("SELECT * FROM s", key=key, labels={"user": "another"})
        else:
            self.duel.register(query, tag)

    @rule(of_x=st.sampled_from(("IS NULL", "IS NOT NULL")), many=st.booleans())
    def join(self, of_x: str, many: bool) -> None:
        """Joins come, whose sides share clauses with one another and with plain queries."""
        column, psoup = f'"{self.duel.declaration.schema.names[0]}"', self.duel.psoup
        before = psoup.queries()
        text = f"SELECT x._id FROM s AS x, s AS y WHERE x.{column} = y.{column} AND x.{column} {of_x} AND"
        texts = [f"{text} CAST(y._time AS TEXT) LIKE '%{digit}%'" for digit in range(2)]
        came = [*psoup.register_many(texts)] if many else []
        self.joins += came or [psoup.register(texts[0])]
        assert psoup.queries() == sorted({*before, *self.joins})

    @precondition(lambda self: self.joins)
    @rule(draw=draws(), many=st.booleans())
    def part(self, draw: Any, many: bool) -> None:
        """A join goes, or some at once."""
        psoup, make = self.duel.psoup, self.make(draw)
        gone = [number for number in self.joins if make.number(0, 1)] if many else [make.pick(self.joins)]
        if many:
            assert psoup.unregister_many(gone) == len(gone)
        else:
            psoup.unregister(gone[0])
        self.joins = [number for number in self.joins if number not in gone]
        assert psoup.engine.snapshot().sides == 2 * len(self.joins)

    @precondition(lambda self: self.duel.standing)
    @rule(draw=draws())
    def invoke(self, draw: Any) -> None:
        """A standing query, now or as of a time, in its own window or another."""
        make = self.make(draw)
        self.duel.invoke(draw_invocation(make, make.pick(sorted(self.duel.standing))))

    @rule(late=st.booleans())
    def invoke_all(self, late: bool) -> None:
        """Every standing query in its own window, taking what truncation there is."""
        for number in sorted(self.duel.standing):
            self.duel.invoke(Invoke(number, None, None, late))

    @precondition(lambda self: self.duel.standing)
    @rule(draw=draws())
    def unregister(self, draw: Any) -> None:
        """A query goes."""
        self.duel.unregister(self.make(draw).pick(sorted(self.duel.standing)))

    @precondition(lambda self: self.duel.standing)
    @rule(draw=draws())
    def alter(self, draw: Any) -> None:
        """A query is kept in another way."""
        make = self.make(draw)
        self.duel.act(Alter(make.pick(sorted(self.duel.standing)), draw_change(make)))

    @rule(draw=draws(), user=st.sampled_from(["", *USERS]), prefix=st.sampled_from(["", "a", "se"]))
    def unregister_many(self, draw: Any, user: str, prefix: str) -> None:
        """Some queries go at once: those with a label, with keys that begin so, or any."""
        standing = self.duel.standing
        if user:
            going = [number for number in standing if ("user", user) in standing[number].tag.labels]
            self.leave(going, labels={"user": user})
        elif prefix:
            going = [number for number in standing if standing[number].tag.key.startswith(prefix)]
            self.leave(going, key_prefix=prefix)
        else:
            make = self.make(draw)
            self.leave([number for number in sorted(standing) if make.number(0, 1)])

    def leave(self, going: Sequence[int], **how: Any) -> None:
        """Unregister some queries at once, by their IDs or as `how` says; readers see none of them afterwards."""
        gone = [self.duel.standing.pop(number).query_id for number in going]
        assert self.duel.psoup.unregister_many(None if how else gone, **how) == len(gone)
        assert not set(gone) & set(self.duel.psoup.queries())

    @rule(place=st.integers(0, 999))
    def matches(self, place: int) -> None:
        """Which queries matched this tuple?"""
        self.duel.act(Matches(place))

    @rule()
    def maintain(self) -> None:
        """Everything that is due, and nothing is due afterwards."""
        self.duel.psoup.maintain()
        assert self.duel.psoup.maintain() == 0

    @rule(seconds=st.integers(-100, 200))
    def advance(self, seconds: int) -> None:
        """The clock goes on, or back."""
        self.duel.clock.advance(seconds=seconds)

    def _closed_chunks(self) -> list[int]:
        """The number of closed chunks of each stream, those that have gone among them."""
        return [state.data.open.number for state in self.duel.psoup.engine._streams.values()]

    @rule(draw=draws())
    def come_and_go(self, draw: Any) -> None:
        """A query that came and went leaves no bytes behind."""
        psoup = self.duel.psoup
        psoup.maintain()
        before, closed = psoup.engine.bill(), self._closed_chunks()
        query = draw_query(self.make(draw), "s", BASE, SPAN)
        note(query.sql())
        try:
            query_id = psoup.register(query.sql())
        except PSoupError:
            return
        psoup.maintain()
        psoup.unregister(query_id)
        psoup.maintain()
        if self._closed_chunks() != closed:
            return  # its terms are many for the open chunk, which was closed before it: that counts elsewhere now
        after = psoup.engine.bill()
        changed = {name: (before.get(name), size) for name, size in after.items() if before.get(name) != size}
        if psoup.engine.config.results_bytes < 1 << 30:  # it may have displaced results of other queries
            assert psoup.engine.bill()["sealed_results_bytes"] <= before["sealed_results_bytes"]
            changed.pop("sealed_results_bytes", None)
        if psoup.engine.config.shape.tier < Shape().tier:  # the one that went has had two runs merged
            assert after["open_results_bytes"] <= before["open_results_bytes"]
            changed.pop("open_results_bytes", None)
        names = changed.pop("clause_names_bytes", (0, 0))  # tables that grow, and shrink when few places are used
        assert not changed, f"(before, after): {changed}"
        assert names[1] <= 2 * names[0], f"(before, after): {names}"

    @rule(which=st.integers(0, 10))
    def refused(self, which: int) -> None:
        """A command that cannot be: a documented error, and all is as before."""
        psoup = self.duel.psoup
        before = (psoup.admission.state(), psoup.engine.snapshot())
        try:
            self.wrong(which)
        except PSoupError as problem:
            assert str(problem)
        else:
            raise AssertionError(f"wrong command {which} was taken")
        assert psoup.admission.state() == before[0]
        assert psoup.engine.snapshot() is before[1]

    def wrong(self, which: int) -> None:
        """One of eleven commands that must be refused."""
        psoup, declaration = self.duel.psoup, self.duel.declaration
        wrong_type: dict[str, Any] = {name: [[1]] for name in declaration.schema.names}
        commands = (
            lambda: psoup.execute(declaration.sql()),
            lambda: psoup.push("s", pa.table({"nobody": [1]})),
            lambda: psoup.push("s", pa.table(wrong_type)),
            lambda: psoup.register("SELECT * FROM nowhere"),
            lambda: psoup.register("SELECT nobody FROM s"),
            lambda: psoup.register(f"SELECT * FROM s WHERE {quoted_text('x')} > 1 +"),
            lambda: psoup.unregister(1 << 40),
            lambda: psoup.unregister_many([1 << 40, *psoup.queries()]),
            lambda: psoup.invoke(1 << 40),
            lambda: psoup.push("s", to_table(declaration, []), producer="p", epoch=0, number=5),
            lambda: psoup.heartbeat("s", 1 << 62),
        )
        commands[which]()

    @invariant()
    def sound(self) -> None:
        """Every structure's invariants hold; queries are found by their keys and labels while they stand."""
        if not hasattr(self, "duel"):
            return
        psoup = self.duel.psoup
        psoup.check()
        for key in KEYS:
            held = [standing.query_id for standing in self.duel.standing.values() if standing.tag.key == key]
            assert [*map(psoup.query, [key] * len(held))] == held
            if not held:
                with pytest.raises(NotFound):
                    psoup.query(key)
        for user in USERS:
            labels = (("user", user),)
            held = [standing.query_id for standing in self.duel.standing.values() if standing.tag.labels == labels]
            assert psoup.queries(labels={"user": user}) == held
        BUDGET.count()

    def teardown(self) -> None:
        """Give the oracle's connection back."""
        if hasattr(self, "duel"):
            self.duel.close()


def test_the_engine_keeps_up_with_the_naive_model() -> None:
    for number in BUDGET.rounds():
        machine = seed(number)(type("Machine", (EngineMachine,), {}))
        with replayable(number):
            run_state_machine_as_test(machine, settings=round_settings(10, stateful_step_count=30))

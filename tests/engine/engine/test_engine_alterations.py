"""Changes of how many queries are kept, at once. No answer depends on them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig, Shape
from psoup.errors import InvalidInput, NotFound, ResourceExhausted
from psoup.events.acknowledgements import AlterationAcknowledgement
from psoup.events.commands import AlterQueries, Register
from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, AUTOMATIC, CODES, Amount, Keeping, KeepingChange
from psoup.plan.sides import side_id
from psoup.plan.standing_query import StandingQuery
from psoup.values.columns import Array
from psoup.work.gc_pause import without_collector
from psoup_testing.engines.amounts import (
    ALIKE,
    COMPLETE,
    INACTIVE,
    JOIN,
    MANY,
    NONE,
    ONE,
    answers,
    block,
    make,
    push,
    register,
)
from psoup_testing.suite.budget import scaled

# Changes of many queries -----------------------------------------------------------------------------------------


def test_a_change_counts_the_selected_queries_and_those_that_differed() -> None:
    soup = make()
    ids = register(soup, AS_USUAL)
    command = AlterQueries(np.array(ids[::-1]), change=KeepingChange(Amount.NONE))
    tried = soup.submit(replace(command, dry_run=True))
    assert isinstance(tried, AlterationAcknowledgement) and (tried.count, tried.changed) == (len(ids), len(ids))
    assert soup.engine.bill()["idle_clauses"] == 0 and soup.engine.snapshot().sequence == tried.sequence
    soup.alter_queries(ids[:5], amount=Amount.NONE)
    done, again = soup.submit(command), soup.submit(command)
    assert isinstance(done, AlterationAcknowledgement) and isinstance(again, AlterationAcknowledgement)
    assert (done.count, done.changed) == (len(ids), len(ids) - 5) and (again.changed, again.sequence) == (
        0,
        done.sequence,
    )


def test_queries_are_selected_by_labels_and_by_a_prefix_of_keys() -> None:
    soup = make()
    rows = pa.table(
        {"x": range(9), "n": ["w"] * 9, "k": [f"k/{n}" for n in range(9)], "u": [f"u{n % 3}" for n in range(9)]}
    )
    ids = soup.register_many("SELECT x FROM s WHERE x > $x AND n < $n", rows, key="k", labels=("u",))
    alone = soup.register(ONE, key="other", labels={"u": "u1"})
    assert soup.alter_queries(labels={"u": "u1"}, amount=Amount.NONE) == 4
    assert soup.alter_queries(key_prefix="k/", active=False) == 9
    snapshot = soup.engine.snapshot()
    keepings = [snapshot.query(i, "default").keeping for i in (*ids, alone)]
    assert keepings == [replace(NONE if n % 3 == 1 else AS_USUAL, active=False) for n in range(9)] + [NONE]
    assert soup.alter_queries(key_prefix="none", active=False) == 0
    with pytest.raises(NotFound, match="no query has a label 'v'"):
        soup.alter_queries(labels={"v": "u1"}, active=False)


def test_bad_changes_are_refused_and_change_nothing() -> None:
    soup = make()
    ids = block(soup, 12)
    join = soup.register(JOIN.replace("?", "1"))
    gone = soup.register(ONE)
    soup.unregister(gone)
    sequence = soup.engine.snapshot().sequence
    for bad in (gone, 10_000, -1, side_id(join, 0)):
        with pytest.raises(NotFound, match=rf"of 2 queries, 1 cannot be found: {bad}; nothing was altered"):
            soup.alter_queries([ids[0], bad], active=False)
    with pytest.raises(NotFound, match="of 12 queries, 12 cannot be found"):
        soup.submit(AlterQueries(np.array(ids), change=KeepingChange(active=False), tenant="other"))
    refusals: list[tuple[AlterQueries, str]] = [
        (AlterQueries(np.array(ids)), "say what to change"),
        (AlterQueries(change=KeepingChange(active=False)), "say which queries"),
        (
            AlterQueries(np.array(ids), change=KeepingChange(Amount.NONE, True)),
            "eager is for queries with",
        ),
        (AlterQueries(np.array(ids), change=KeepingChange(Amount.PARTIAL, True, auto=True)), "this amount is AUTO;"),
        (AlterQueries(np.zeros(10_000_000, np.int64), change=KeepingChange(active=False)), "names 10,000,000 queries"),
    ]
    for command, why in refusals:
        with pytest.raises(InvalidInput, match=why):
            soup.submit(command)
    with pytest.raises(InvalidInput, match="eager is for queries with amount COMPLETE, and this amount is PARTIAL"):
        soup.submit(Register(ONE, keeping=Keeping(eager=True)))
    with pytest.raises(InvalidInput, match="eager is for queries with amount COMPLETE, and this amount is AUTO"):
        soup.submit(Register(ONE, keeping=replace(AUTOMATIC, eager=True)))
    assert soup.engine.snapshot().sequence == sequence
    assert soup.alter_queries([ids[0], ids[0]], active=False) == 1


def test_the_amount_is_no_part_of_a_repeated_registration() -> None:
    soup = make()
    query = soup.register(ONE, key="k", keeping=NONE)
    assert soup.register(ONE, key="k") == query
    assert soup.register(ONE, key="k", keeping=COMPLETE) == query
    assert soup.engine.snapshot().query(query, "default").keeping == NONE
    first = soup.register_many(MANY, [[1, "a"]], "again", keeping=NONE)
    assert soup.register_many(MANY, [[1, "a"]], "again") == first


def python_calls(act: Callable[[], object]) -> int:
    """The calls of Python functions, and the calls from Python to C, while `act` runs."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    with without_collector():  # it calls finalizers
        sys.setprofile(count)
        try:
            act()
        finally:
            sys.setprofile(None)
    return calls


@pytest.mark.long
def test_a_change_of_a_block_is_work_as_a_set() -> None:
    """1,000 and 100,000 queries of a block cause the same number of Python calls, in each direction."""
    counted: list[list[int]] = []
    for count in (1_000, 100_000):
        soup = LocalPSoup(EngineConfig(shape=Shape(owner_page=1 << 20)), verify="off")
        soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
        ids = soup.register_many("SELECT x FROM s WHERE x = ?", pa.table({"x": range(count)}))
        steps = [KeepingChange(Amount.NONE), KeepingChange(Amount.PARTIAL), KeepingChange(active=False)]
        steps += [KeepingChange(active=True), KeepingChange(Amount.COMPLETE)]
        commands = [AlterQueries(np.array(ids), change=step) for step in steps]
        counted.append([python_calls(partial(soup.submit, command)) for command in commands])
        soup.check()
    assert counted[0] == counted[1]


def test_an_activation_binds_no_query_of_a_shared_clause() -> None:
    """A clause that two queries of a block share costs few Python calls. Binding a query takes more than a hundred."""
    counted, clauses = list[int](), 500
    for _ in range(2):  # the first round loads kernels
        soup = LocalPSoup(verify="off")
        soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
        values = pa.table({"x": [*range(clauses)] * 2, "n": [str(n) for n in range(clauses)] * 2})
        ids = soup.register_many("SELECT x FROM s WHERE x >= ? AND n = ?", values, keeping=Keeping(active=False))
        counted.append(python_calls(partial(soup.alter_queries, ids, active=True)))
        soup.push("s", pa.table({"x": [7], "n": ["7"]}))
        assert soup.matches("s", 0) == [ids[7], ids[clauses + 7]]
    assert counted[1] < 50 * clauses


def test_an_altered_block_stays_a_block() -> None:
    soup = make()
    ids = block(soup, 40)
    soup.alter_queries(ids[::2], amount=Amount.NONE)
    soup.alter_queries(ids[:10], active=False)
    soup.unregister(ids[3])
    soup.alter_queries(ids[20:], amount=Amount.COMPLETE)
    snapshot = soup.engine.snapshot()
    assert not [i for i in ids if any(i in page for page in snapshot.queries.pages())]
    for query_id in ids[:3] + ids[4:]:
        record, place = snapshot.query(query_id, "default"), ids.index(query_id)
        amount = Amount.COMPLETE if place >= 20 else Amount.NONE if place % 2 == 0 else Amount.PARTIAL
        assert record.keeping == Keeping(amount, active=place >= 10)
        assert snapshot.clause(record.sqc_id).factors == record.query.factors


def test_memory_returns_when_queries_become_idle() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=1_024, piece_rows=1_024), verify="off")
    soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
    soup.push("s", pa.table({"x": range(3_000), "n": ["w"] * 3_000}))
    soup.maintain()
    structures = ("query_stem.main", "query_stem.delta", "clause_names_bytes", "open_results_bytes")

    def taken() -> int:
        soup.maintain()
        bill = soup.engine.bill()
        return sum(bill[name] for name in structures) + bill["sealed_results_bytes"]

    before = taken(), soup.admission.query_bytes
    ids = soup.register_many(MANY, [[n, f"x{n}"] for n in range(5_000)])
    during = taken(), soup.admission.query_bytes
    soup.alter_queries(ids, amount=Amount.NONE)
    after = taken(), soup.admission.query_bytes
    assert after[0] - before[0] < (during[0] - before[0]) // 10, (before, during, after)
    assert 0 < after[1] < during[1]
    soup.alter_queries(ids, amount=Amount.PARTIAL)
    assert soup.admission.query_bytes == during[1]
    soup.unregister_many(ids)
    assert soup.admission.query_bytes == 0


def test_a_full_memory_refuses_to_activate_queries() -> None:
    soup = LocalPSoup(EngineConfig(memory_bytes=300_000), verify="all")
    soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
    ids = block(soup, 1_000, NONE)
    with pytest.raises(ResourceExhausted, match="these 1,000 queries need about 150,000 more"):
        soup.alter_queries(ids, amount=Amount.PARTIAL)
    assert soup.alter_queries(ids[:100], amount=Amount.PARTIAL) == 100


def test_explain_says_why_a_query_is_evaluated() -> None:
    soup = make()
    usual, idle, off = soup.register(ALIKE), soup.register(ONE, keeping=NONE), soup.register(ONE, keeping=INACTIVE)
    join = soup.register(JOIN.replace("?", "1"), keeping=NONE)
    push(soup, 100)
    explained = {i: soup.explain(i) for i in (usual, idle, off, join)}
    assert [(explained[i].amount, explained[i].active) for i in explained] == [
        ("PARTIAL", True),
        ("NONE", True),
        ("PARTIAL", False),
        ("NONE", True),
    ]
    assert "amount" not in "\n".join(explained[usual].lines())
    for i in (idle, join):
        assert "  amount   NONE\n           amount is NONE: evaluated at each invocation" in "\n".join(
            explained[i].lines()
        )
    assert "inactive: evaluated at each invocation" in "\n".join(explained[off].lines())
    assert explained[idle].source.matches_in_window == explained[usual].source.matches_in_window
    assert explained[idle].cost.candidates == 0 < explained[usual].cost.candidates
    assert explained[idle].to_dict()["amount_reason"] == "amount is NONE: evaluated at each invocation"
    soup.register(ONE)
    assert soup.explain(idle).amount_reason == "amount is NONE: answered from the matches that another query keeps"


# Codes, and random changes -------------------------------------------------------------------------------------------


def test_each_keeping_has_a_code_of_its_own() -> None:
    every = [Keeping(amount, eager, active) for amount in Amount for eager in (False, True) for active in (False, True)]
    assert [Keeping.of(keeping.code) for keeping in every] == every
    assert len({keeping.code for keeping in every}) == len(every) and max(k.code for k in every) < CODES
    assert AS_USUAL.code == 0


@pytest.mark.parametrize("number", range(scaled(3)))
def test_random_changes_in_the_middle_change_no_answer(number: int) -> None:
    """The same queries in two engines. The first alters them all the time. Many queries share their clauses."""
    source, soup, usual = random.Random(number), make(), make("cheap")
    ids = register(soup, AS_USUAL) + register(soup, NONE)
    assert ids == register(usual, AS_USUAL) + register(usual, AS_USUAL)
    for _ in range(6):
        ids += block(soup, 5, source.choice((AS_USUAL, NONE, INACTIVE, COMPLETE)))
        block(usual, 5)
        count, first = source.choice((3, 50)), source.randrange(10)
        change: dict[str, Any] = source.choice(
            ({"amount": source.choice((*Amount,))}, {"active": source.random() < 0.5})
        )
        soup.alter_queries(source.sample(ids, source.randrange(1, len(ids))), **change)
        if source.random() < 0.3:
            soup.maintain()
        gone = source.sample(ids, 3)
        ids = [i for i in ids if i not in gone]
        for each in (soup, usual):
            push(each, count, first)
            if count == 3:
                each.execute(
                    f"ALTER STREAM s ADD COLUMN c{each.engine.snapshot().stream('s', 'default').next_id} BIGINT"
                )
            each.unregister_many(gone)
        some = source.sample(ids, 8)
        assert answers(soup, some) == answers(usual, some)
        off = {i for i, record in soup.engine.snapshot().queries.items() if not record.keeping.active}
        for tuple_id in (0, soup.engine.snapshot().stream("s", "default").next_id - 1):
            assert soup.matches("s", tuple_id) == [i for i in usual.matches("s", tuple_id) if i not in off]


class ForgettingLog:
    """A log that has forgotten all registrations, as if all queries had left just now."""

    def read_queries(self, sequence: int, query_ids: Array) -> Sequence[StandingQuery]:
        """Raise NotFound."""
        raise NotFound("the log has forgotten the event", reason="UNKNOWN_QUERY", sequence=sequence)


def test_an_eager_query_that_the_log_has_forgotten_stays_parked_until_it_leaves() -> None:
    soup = LocalPSoup(EngineConfig(columnar_queries=8), verify="all", log=ForgettingLog())
    soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
    eager = Keeping(Amount.COMPLETE, eager=True)
    ids = [soup.register(ONE, keeping=eager), *block(soup, 12, eager)]
    soup.alter_queries(ids, parked=True)
    soup.alter_queries(ids[:4], active=True)
    soup.check()
    assert soup.engine.snapshot().eager.ids().tolist() == []
    soup.unregister(ids[0])
    soup.unregister_many(ids[1:])
    soup.check()

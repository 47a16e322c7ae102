"""Registration in bulk: a block is all its queries, one after the other, or nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.clauses.factor_table import PreparedQueries
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.errors import Conflict, InvalidInput, OutOfRange, SqlError
from psoup.events.acknowledgements import QueriesAcknowledgement
from psoup.events.commands import RegisterMany
from psoup.local import LocalPSoup
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=256, piece_rows=64, delta_queries=64, shape=EAGER)
TEMPLATE = "SELECT qty FROM trades WHERE sym = ? AND qty BETWEEN ? AND ?"


def soup(config: EngineConfig = SMALL) -> LocalPSoup:
    made = LocalPSoup(config)
    made.execute("CREATE STREAM trades (sym TEXT, qty BIGINT)")
    made.execute("CREATE STREAM others (x BIGINT) RETENTION 10 SECONDS")
    return made


def tuples(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    symbols = [f"S{k}" for k in random.integers(0, 10, count)]
    return pa.table({"sym": symbols, "qty": random.integers(0, 50, count)})


def rows(count: int) -> list[tuple[str, int, int]]:
    return [(f"S{i % 10}", i % 37, i % 37 + i % 11) for i in range(count)]


def filled(row: tuple[str, int, int]) -> str:
    return f"SELECT qty FROM trades WHERE sym = '{row[0]}' AND qty BETWEEN {row[1]} AND {row[2]}"


def answers(made: LocalPSoup, ids: range | list[int]) -> list[list[int]]:
    return [again(made.invoke, query_id).to_table().column(0).to_pylist() for query_id in ids]


@pytest.mark.parametrize("count", swept([1, 5, 60, 300], fast=(1,)))
@pytest.mark.parametrize("before", swept([0, 40, 300], fast=2))
def test_a_block_answers_as_its_queries_one_by_one(count: int, before: int) -> None:
    many, single = soup(), soup()
    ids, each = range(0), []
    for made in (many, single):
        if before:
            made.push("trades", tuples(before, 1))
        if made is many:
            ids = made.register_many(TEMPLATE, rows(count))
        else:
            each = [made.register(filled(row)) for row in rows(count)]
        made.push("trades", tuples(300, 2))
    assert list(ids) == each
    assert answers(many, ids) == answers(single, each)
    many.check()
    many.maintain()
    many.check()
    assert answers(many, ids) == answers(single, each)


def test_blocks_without_maintenance_stay_few_parts() -> None:
    made = soup()
    made.push("trades", tuples(100, 3))
    for block in range(40):
        made.register_many(TEMPLATE, [(f"S{i % 10}", block, i) for i in range(20)])
    made.check()
    last = made.register(filled(("S1", 0, 50)))
    assert len(made.engine._streams[1].clauses.index._parts) < 12
    assert answers(made, [last])[0]
    for query_id in range(1, 801, 7):
        made.unregister(query_id)
    made.maintain()
    made.check()


def test_statements_may_stand_on_several_streams() -> None:
    made = soup()
    ids = made.register_many(["SELECT * FROM others WHERE x > 1 BEGIN (NOW - 5)", filled(("S1", 0, 9))])
    assert [made.explain(query_id).to_dict()["stream"] for query_id in ids] == ["others", "trades"]
    made.check()


def test_a_block_that_was_prepared_beside_leaves_what_it_leaves_otherwise() -> None:
    """Statements of two streams and several forms, some clauses twice, some known before; and some are gone later."""
    forms = ["trades WHERE qty * {0} > {1} AND sym LIKE '%{0}%'", "others WHERE x IN ({0}, {1})", "trades WHERE FALSE"]
    texts = [f"SELECT _id FROM {forms[i % 3].format(i % 50, i % 7)}" for i in range(120)]
    beside, plainly = soup(), soup()
    for made in (beside, plainly):
        made.register(texts[4])
        made.push("trades", tuples(100, 4))
        command = RegisterMany(texts)
        binding = made.admission.binding(command) if made is beside else None
        if binding is not None:
            assert binding.advance()
            assert isinstance(binding.queries, PreparedQueries)
            assert len(binding.queries) == 120 and binding.queries[1:3] == [binding.queries[1], binding.queries[2]]
        prepared = made.admission.prepare(command, 0, before=binding)
        assert prepared.event is not None
        made.engine.apply([prepared.event])
        made.push("trades", tuples(100, 5))
        made.push("others", pa.table({"x": range(60)}))
        made.unregister(40)
        made.check()
        made.maintain()
        made.check()
    assert answers(beside, [*range(1, 40), *range(41, 122)]) == answers(plainly, [*range(1, 40), *range(41, 122)])
    views = [[view.index.to_arrow() for view in made.engine.snapshot().by_id.values()] for made in (beside, plainly)]
    assert views[0] == views[1]


@pytest.mark.parametrize("count", swept([500, 5_000], fast=1))
def test_equal_queries_share_one_clause(count: int) -> None:
    made = soup()
    made.push("trades", tuples(50, 4))
    ids = made.register_many(TEMPLATE, [("S1", 0, 50)] * count)
    assert made.engine.bill()["clauses"] == 1
    assert made.engine.bill()["queries"] == len(ids) == count
    assert answers(made, [ids[0]]) == answers(made, [ids[-1]])
    for query_id in ids[:-1]:
        made.unregister(query_id)
    made.check()
    assert made.engine.bill()["clauses"] == 1
    made.unregister(ids[-1])
    assert made.engine.bill()["clauses"] == 0
    made.check()


@pytest.mark.parametrize(
    ("statements", "block", "problem", "message"),
    [
        ([TEMPLATE], [("S1", 1, 2), ("S1", "x", 2)], InvalidInput, "parameter 2 of query 2 is 'x', a text, but BIGINT"),
        ([TEMPLATE], [("S1", 1, 2), ("S1", 2)], InvalidInput, "query 2: 2 parameters are given, but the statement"),
        ([TEMPLATE], [], InvalidInput, "the block holds no queries"),
        ([TEMPLATE, TEMPLATE], [("S1", 1, 2)], InvalidInput, "rows of parameters belong to one statement, not to 2"),
        ([filled(("S1", 1, 2)), "SELECT nix FROM trades"], None, SqlError, "query 2: line 1, column 8"),
        (["SELECT * FROM others BEGIN (NOW - 60)"], None, OutOfRange, "query 1: the window reaches back"),
        (["SELECT * FROM others WHERE x > ? BEGIN (NOW - 60)"], [(1,)], OutOfRange, "the window reaches back"),
        ([TEMPLATE], [("S1", 1, 2)] * 1001, InvalidInput, "the block holds 1,001 queries; 1,000 is the most"),
    ],
)
def test_a_refused_block_leaves_no_trace(
    statements: list[str], block: list[tuple[object, ...]] | None, problem: type[Exception], message: str
) -> None:
    made = soup(EngineConfig(block_queries=1_000))
    made.register_many(TEMPLATE, rows(3), "first")
    before = (made.admission.state(), made.engine.bill())
    with pytest.raises(problem) as refused:
        made.submit(RegisterMany(statements, block, "second"))  # type: ignore[arg-type]
    assert message in str(refused.value)
    assert (made.admission.state(), made.engine.bill()) == before
    assert list(made.register_many(TEMPLATE, rows(1), "second")) == [4]


@pytest.mark.parametrize("before", [0, 1, 400])
@pytest.mark.parametrize("as_table", [False, True])
def test_nan_is_no_value_of_a_parameter(before: int, as_table: bool) -> None:
    made = LocalPSoup(SMALL)
    made.execute("CREATE STREAM s (x DOUBLE)")
    made.push("s", pa.table({"x": [0.5, None, float("nan")]}))
    values = [1.0] * before + [None, float("nan"), float("nan")]
    block = pa.table({"p": pa.array(values, from_pandas=False)}) if as_table else [(value,) for value in values]
    message = f"parameter 1 of query {before + 2} is NaN, which pandas has for a missing value"
    with pytest.raises(InvalidInput, match=message) as refused:
        made.register_many("SELECT x FROM s WHERE x < ?", block)
    assert refused.value.facts == {"parameter": "1", "query": str(before + 2)}
    assert made.queries() == []
    written = made.register("SELECT x FROM s WHERE x < CAST('nan' AS DOUBLE)")
    assert made.invoke(written).to_table().column(0).to_pylist() == [0.5]


def test_a_repeated_block_is_the_same_queries() -> None:
    made = soup()
    first = made.submit(RegisterMany([TEMPLATE], rows(5), "a"))
    again = made.submit(RegisterMany([TEMPLATE], rows(5), "a"))
    assert isinstance(first, QueriesAcknowledgement)
    assert again == QueriesAcknowledgement(first.sequence, True, first.first_id, 5)
    with pytest.raises(Conflict, match="'a' was used to register 5 queries of another call"):
        made.submit(RegisterMany([TEMPLATE], rows(6), "a"))
    with pytest.raises(Conflict):
        made.register(filled(rows(1)[0]), "a")
    assert made.register_many([filled(rows(1)[0])], request_id="") == range(6, 7)


def test_a_replayed_block_leaves_the_same_state() -> None:
    admission, engine = Admission(SMALL), Engine(SMALL)
    made = soup()
    events = []
    for command in (
        RegisterMany([TEMPLATE], rows(100), "a"),
        RegisterMany([filled(row) for row in rows(3)]),
        RegisterMany(["SELECT * FROM trades WHERE qty > $least"], [{"least": 3}]),
    ):
        prepared = made.admission.prepare(command, 5)
        assert prepared.event is not None
        events.append(prepared.event)
        made.engine.apply([prepared.event])
    fresh = soup()
    admission, engine = fresh.admission, fresh.engine
    for event in events:
        admission.replay(event)
    engine.apply(events)
    assert admission.state() == made.admission.state()
    assert engine.bill() == made.engine.bill()
    fresh.check()


def test_a_gate_sees_no_trace_of_a_refused_block_and_the_same_state_after_a_replay() -> None:
    gate = Gate()
    gate.create("CREATE STREAM trades (sym TEXT, qty BIGINT)")
    gate.send(RegisterMany([TEMPLATE], rows(20), "a"))
    with pytest.raises(InvalidInput, match="parameter 3 of query 102 is 'None of use'"):
        gate.send(RegisterMany([TEMPLATE], [("a", 1, 2), ("a", 1, "None of use")], "b", number=101))
    gate.send(RegisterMany([TEMPLATE], rows(20), "a"))
    gate.send(RegisterMany(["SELECT * FROM trades WHERE qty = $q AND sym = $s"], [("x", 1)], names=("s", "q")))
    with pytest.raises(InvalidInput, match=r"parameter \$s is missing"):
        gate.send(RegisterMany(["SELECT * FROM trades WHERE qty = $q AND sym = $s"], [("x", 1)], names=("x", "q")))


def test_a_kept_template_is_prepared_anew_for_another_stream_of_its_name() -> None:
    made = soup()
    sql = "SELECT * FROM passing WHERE x = ?"
    for kind, value in (("BIGINT", 1), ("TEXT", "1")):
        made.execute(f"CREATE STREAM passing (x {kind})")
        (query_id,) = made.register_many(sql, [(value,)])
        made.push("passing", pa.table({"x": [value]}))
        assert answers(made, [query_id]) == [[value]]
        made.unregister(query_id)
        made.execute("DROP STREAM passing")
    with pytest.raises(SqlError, match="there is no stream or table 'passing'"):
        made.register_many(sql, [(1,)])
    made.check()

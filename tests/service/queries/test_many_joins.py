"""InvokeMany of joins of one form: found in one pass, and to the byte what each invocation gives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from psoup.answer import invoke_many
from psoup.answer.invoke import answer_to
from psoup.answer.question import Question
from psoup.answer.table_rows import TableQuestion
from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.execution.many import many_joins
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import queries_pb2
from psoup_service.host.ids import Ids
from psoup_service.servicers import many as servicer
from psoup_service.servicers.invoke_request import whole
from psoup_service.servicers.many import Many
from psoup_service.wire import convert
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, list_limit=4)
IDS = Ids("00000000")
BOTH = " AND x.v > $a AND y.v < $b"
NUMBERS, TEXTS = "x.k, x.v, y.v AS w, x._id AS i", "x.k, y.t, x.t AS u, y._id AS j"
FORMS = (
    (NUMBERS, "r AS x, s AS y WHERE x.k = y.k" + BOTH, True),
    (TEXTS, "r AS x, s AS y WHERE y.k = x.k" + BOTH, True),
    (NUMBERS, "r AS x [ROWS 70], s AS y [ROWS 150] WHERE x.k = y.k" + BOTH, True),
    (NUMBERS, "r AS x, r AS y WHERE x.k = y.v AND x.v > $a AND x.v <= $a + $b", True),
    ("x.d, y.o, y.v", "r AS x, s AS y WHERE x.k = y.k" + BOTH, True),
    ("x.k + y.v AS n", "r AS x, s AS y WHERE x.k = y.k" + BOTH, False),
    (NUMBERS, "r AS x, s AS y WHERE x.t = y.t" + BOTH, False),
    (NUMBERS, "r AS x, s AS y WHERE x.k = y.k AND x.v <= y.v" + BOTH, False),
    (NUMBERS, "r AS x, s AS y WHERE x.k = y.k AND CAST(x.t AS BIGINT) > $a AND y.v < $b", False),
)
"""SELECT lists and joins with parameters, and whether they are answered together; one has errors on a side."""


def _reply(many: Many, room: int) -> queries_pb2.InvokeManyResponse:
    return queries_pb2.InvokeManyResponse.FromString(many.reply(room).raw)


def rows(rng: np.random.Generator, count: int, *, nulls: bool) -> pa.Table:
    share = 0.1 if nulls else 0.0
    k, v = (pa.array(rng.integers(0, most, count), mask=rng.random(count) < share) for most in (12, 20))
    flags = pa.array(rng.random(count) < 0.5, mask=rng.random(count) < share)
    days = pa.array(rng.integers(0, 9, count).astype(np.int32), pa.date32())
    return pa.table({"k": k, "v": v, "t": rng.choice(["1", "7", "", "x"], count).tolist(), "o": flags, "d": days})


def streams() -> LocalPSoup:
    soup = LocalPSoup(SMALL, VirtualClock(0))
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, v BIGINT, t TEXT, o BOOLEAN, d DATE)")
    return soup


def parameters(rng: np.random.Generator, count: int = 40) -> pa.Table:
    return pa.table({"a": rng.integers(0, 20, count), "b": rng.integers(0, 20, count)})


def asking(soup: LocalPSoup, **options: Any) -> TableQuestion:
    return TableQuestion(
        soup.engine.snapshot(), soup.tenant, Question(soup.clock.now(), budget=ReadBudget(), **options)
    )


def together(soup: LocalPSoup, names: Sequence[str], room: int, **options: Any) -> list[bytes]:
    """The outcomes of the first replies up to the last name."""
    got: list[bytes] = []
    by_key = bool(options.pop("by_key", False))
    while len(got) < len(names):
        asked = asking(soup, **options)
        with closing(Many(asked, names[len(got) :], IDS, lambda _: None, by_key=by_key)) as many:
            got += [outcome.SerializeToString() for outcome in _reply(many, room).outcomes]
        assert asked.budget.joined == 0
    return got


def alone(soup: LocalPSoup, ids: Sequence[int], room: int, **options: Any) -> list[bytes]:
    """The same, each invoked by itself, where every answer has all of the room."""
    got = []
    for query_id in ids:
        asked = asking(soup, **options)
        try:
            made = answer_to(asked.snapshot, query_id, asked.tenant, asked.question)
            answer = whole(asked.snapshot, made, room)
            outcome = queries_pb2.InvokeOutcome(answer=answer)
        except PSoupError as problem:
            outcome = queries_pb2.InvokeOutcome(failure=convert.failure(IDS.named(problem, IDS.query(query_id))))
        got.append(outcome.SerializeToString())
    return got


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of joins that each pass was for; a reply takes the time that it takes."""
    counted: list[int] = []
    kernel = many_joins.pairs_of_sets

    def counting(*arguments: Any) -> int:
        counted.append(len(arguments[0]))
        return int(kernel(*arguments))

    monkeypatch.setattr(many_joins, "pairs_of_sets", counting)
    monkeypatch.setattr(servicer, "MANY_S", 600.0)
    return counted


ROOM = 1 << 27
"""Bytes of a reply that none fills: an answer that takes half of what is left comes in several batches."""


@pytest.mark.parametrize("nulls", swept([False, True], fast=(1,)))
@pytest.mark.parametrize(("select", "form", "shared"), FORMS)
def test_joins_of_one_form_are_to_the_byte_what_each_is_alone(
    select: str, form: str, shared: bool, nulls: bool, passes: list[int]
) -> None:
    rng = np.random.default_rng(len(form))
    soup = streams()
    ids = [*soup.register_many(f"SELECT {select} FROM {form}", parameters(rng))]
    names = list(map(IDS.query, ids))
    for step in range(3):
        for stream in "rs":
            soup.push(stream, rows(rng, 60, nulls=nulls))
        if step == 1:
            soup.maintain()
        assert together(soup, names, ROOM) == alone(soup, ids, ROOM)
    assert passes == [39] * 3 if shared else passes == []
    as_of = soup.clock.now()
    assert together(soup, names, ROOM, as_of=as_of) == alone(soup, ids, ROOM, as_of=as_of)


def test_rows_are_those_of_duckdb(passes: list[int]) -> None:
    rng = np.random.default_rng(3)
    soup, asked = streams(), parameters(rng, 64)
    ids = soup.register_many(f"SELECT x.k, x.v, y.v AS w FROM {FORMS[0][1]}", asked)
    connection, expected = duckdb.connect(config={"threads": 1}), 0
    for stream in "rs":
        table = rows(rng, 150, nulls=True)
        soup.push(stream, table)
        connection.register(stream, table)
    outcomes = together(soup, list(map(IDS.query, ids)), ROOM)
    for outcome, values in zip(outcomes, asked.to_pylist(), strict=True):
        answer = queries_pb2.InvokeOutcome.FromString(outcome).answer
        found = pa.ipc.open_stream(answer.arrow_ipc).read_all()
        theirs = connection.execute(f"SELECT x.k, x.v, y.v FROM {FORMS[0][1]}", values).fetchall()
        assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(theirs)
        assert answer.rows == len(theirs)
        expected += len(theirs)
    assert passes == [63] and expected > 1_000


def test_queries_of_several_forms_gone_ones_and_others_stand_between(passes: list[int]) -> None:
    rng = np.random.default_rng(4)
    soup = streams()
    first, second = ([*soup.register_many(f"SELECT {s} FROM {f}", parameters(rng))] for s, f, _ in FORMS[:2])
    plain = soup.register("SELECT k FROM r WHERE v < 4")
    for stream in "rs":
        soup.push(stream, rows(rng, 200, nulls=True))
    soup.unregister(second[7])
    late = [*soup.register_many(f"SELECT {NUMBERS} FROM {FORMS[0][1]}", parameters(rng))]  # not evaluated yet
    ids = [int(i) for pair in zip(first, second, strict=True) for i in pair] + [plain, first[3], first[3], *late]
    got = together(soup, [IDS.query(i) for i in ids], ROOM)
    assert got == alone(soup, ids, ROOM)
    assert sorted(passes) == [39, 81]
    broken = together(soup, ["no ID", *[IDS.query(i) for i in first], "no ID"], ROOM)
    assert broken[1:-1] == alone(soup, first, ROOM)
    failed = [queries_pb2.InvokeOutcome.FromString(outcome).failure.code for outcome in (broken[0], broken[-1])]
    assert failed == [3, 3]


def test_answers_asked_for_by_key_say_whose_they_are(passes: list[int]) -> None:
    rng = np.random.default_rng(5)
    soup = streams()
    keys = [f"key {number}" for number in range(40)]
    named = parameters(rng).append_column("name", pa.array(keys))
    ids = [*soup.register_many(f"SELECT {NUMBERS} FROM {FORMS[0][1]}", named, key="name")]
    for stream in "rs":
        soup.push(stream, rows(rng, 100, nulls=False))
    outcomes = [queries_pb2.InvokeOutcome.FromString(own).answer for own in together(soup, keys, ROOM, by_key=True)]
    assert [(own.query_id, own.key) for own in outcomes] == list(zip(map(IDS.query, ids), keys, strict=True))
    assert passes == [39]
    by_id = [
        queries_pb2.InvokeOutcome.FromString(own).answer for own in together(soup, list(map(IDS.query, ids)), ROOM)
    ]
    assert [own.key for own in by_id] == keys
    assert [own.arrow_ipc for own in by_id] == [own.arrow_ipc for own in outcomes]


def test_a_reply_has_no_more_than_it_may(passes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    soup = streams()
    ids = [*soup.register_many(f"SELECT {NUMBERS} FROM {FORMS[0][1]}", parameters(rng, 200))]
    for stream in "rs":
        soup.push(stream, rows(rng, 60, nulls=False))
    names, room, got = list(map(IDS.query, ids)), 40_000, list[bytes]()
    while len(got) < len(names):
        with closing(Many(asking(soup), names[len(got) :], IDS, lambda _: None, by_key=False)) as many:
            reply = _reply(many, room)
        assert sum(len(own.answer.arrow_ipc) for own in reply.outcomes if own.answer.rows) <= room
        got += [own.SerializeToString() for own in reply.outcomes]
    assert passes and max(passes) < 200
    monkeypatch.setattr(servicer, "LEAST", 1_000)
    assert got == together(soup, names, room)


def test_too_many_rows_are_left_to_invocations(passes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invoke_many, "_PAIRS", 2_000)
    rng = np.random.default_rng(7)
    soup = streams()
    ids = [*soup.register_many(f"SELECT {NUMBERS} FROM {FORMS[0][1]}", parameters(rng, 300))]
    for stream in "rs":
        soup.push(stream, rows(rng, 120, nulls=False))
    expected = alone(soup, ids, ROOM)
    with closing(Many(asking(soup), list(map(IDS.query, ids)), IDS, lambda _: None, by_key=False)) as many:
        assert [own.SerializeToString() for own in _reply(many, ROOM).outcomes] == expected
    assert passes == [299]
    names = list(map(IDS.query, ids * 3))
    assert together(soup, names, ROOM) == expected * 3
    assert passes[1:3] == [512, 256] and max(passes[3:]) < 256


def test_joins_whose_pairs_are_kept_are_made_of_these(passes: list[int]) -> None:
    rng = np.random.default_rng(8)
    soup = streams()
    statement = f"SELECT {NUMBERS} FROM {FORMS[0][1]}"
    ids = [*soup.register_many(statement, parameters(rng))]
    soup.register(statement.replace("$a", "1").replace("$b", "5"), keep_pairs=True)
    for stream in "rs":
        soup.push(stream, rows(rng, 200, nulls=False))
    soup.maintain()
    assert together(soup, list(map(IDS.query, ids)), ROOM) == alone(soup, ids, ROOM)
    assert passes == []

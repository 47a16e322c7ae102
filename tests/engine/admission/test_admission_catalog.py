"""Streams and queries: names, IDs, request IDs, windows against retention."""

from __future__ import annotations

import re

import pytest

from psoup.config import EngineConfig
from psoup.errors import AlreadyExists, Conflict, FailedPrecondition, InvalidInput, NotFound, OutOfRange, SqlError
from psoup.events.acknowledgements import QueriesAcknowledgement
from psoup.events.commands import Push, RegisterMany
from psoup.events.events import Unregistered
from psoup_testing.engines.admission_gate import Gate, rows

STREAM = "CREATE STREAM Trades (t TIMESTAMP, x BIGINT) TIMESTAMP BY t"


@pytest.fixture
def gate() -> Gate:
    gate = Gate()
    gate.create(STREAM)
    return gate


def test_ids_count_up_from_one_and_are_never_used_again(gate: Gate) -> None:
    assert gate.create("CREATE STREAM b (x BIGINT)").stream_id == 2
    gate.drop("b")
    assert gate.create("CREATE STREAM b (x BIGINT)").stream_id == 3
    assert gate.register("SELECT x FROM b").query_id == 1
    gate.unregister(1)
    assert gate.register("SELECT x FROM b").query_id == 2


def test_a_name_is_taken_in_any_case(gate: Gate) -> None:
    with pytest.raises(AlreadyExists, match="'Trades' exists") as caught:
        gate.create("CREATE STREAM TRADES (x BIGINT)")
    assert (caught.value.facts["stream_id"], caught.value.facts["identical"]) == ("1", "false")
    with pytest.raises(AlreadyExists) as caught:
        gate.create(STREAM.replace(",", " ,\n"))
    assert caught.value.facts["identical"] == "true"
    gate.push("tRADES", t=[1], x=[1])


THERE = "(a BIGINT, t TIMESTAMP) TIMESTAMP BY t LATENESS 90 SECONDS RETENTION 2 DAYS ARCHIVE 36 HOURS"


@pytest.mark.parametrize(
    ("said", "differs"),
    [
        ("(a BIGINT, t TIMESTAMP, z DECIMAL(9,2)) TIMESTAMP BY t", "it has no column z DECIMAL(9,2); LATENESS is 90"),
        (THERE.replace("a BIGINT", "a BIGINT NOT NULL"), "its column is a BIGINT, not a BIGINT NOT NULL;"),
        (THERE.replace("a BIGINT, t TIMESTAMP", "t TIMESTAMP, a BIGINT"), "its columns are in the order a, t;"),
        (THERE.replace("a BIGINT, ", ""), "it also has column a BIGINT;"),
        (THERE.replace("LATENESS 90 SECONDS ", ""), "LATENESS is 90 SECONDS, not 0 SECONDS;"),
        (THERE.replace("90 SECONDS", "90 SECONDS IDLE AFTER 1 HOUR"), "IDLE AFTER is absent, not 1 HOUR;"),
        (THERE.replace("90 SECONDS", "90 SECONDS AHEAD 1 HOUR"), "AHEAD is the default, not 1 HOUR;"),
        (THERE.replace("36 HOURS", "1 DAY"), "RETENTION is 2 DAYS ARCHIVE 36 HOURS, not 2 DAYS ARCHIVE 1 DAY;"),
        (THERE.replace("2 DAYS ARCHIVE 36 HOURS", "9 ROWS"), "RETENTION is 2 DAYS ARCHIVE 36 HOURS, not 9 ROWS;"),
        (f"({', '.join(f'c{n} TEXT' for n in range(12))})", "it has no column c7 TEXT; and 9 more; drop it first"),
    ],
)
def test_a_name_that_is_taken_says_what_differs(said: str, differs: str) -> None:
    gate = Gate(archive=True)
    gate.create(f"CREATE STREAM s {THERE}")
    with pytest.raises(AlreadyExists, match=re.escape(differs)) as caught:
        gate.create(f"CREATE STREAM s {said}")
    assert caught.value.facts["identical"] == "false"


@pytest.mark.parametrize(("name", "hint"), [("trade", "did you mean 'Trades'"), ("zzz", "CREATE STREAM")])
def test_an_unknown_stream_names_the_nearest(gate: Gate, name: str, hint: str) -> None:
    for attempt in (
        lambda: gate.push(name, x=[1]),
        lambda: gate.drop(name),
        lambda: gate.heartbeat(name, 1),
    ):
        with pytest.raises(NotFound, match=hint) as caught:
            attempt()
        assert caught.value.reason == "UNKNOWN_STREAM"
    with pytest.raises(SqlError) as unknown:
        gate.register(f"SELECT * FROM {name}")
    assert unknown.value.reason == "UNKNOWN_STREAM"


def test_a_bad_statement_is_refused_with_its_place(gate: Gate) -> None:
    with pytest.raises(SqlError, match="line 1"):
        gate.create("CREATE STREAM")
    with pytest.raises(SqlError, match="line 2"):
        gate.register("SELECT x\nFROM trades WHERE nope = 1")


def test_a_stream_in_use_is_not_dropped(gate: Gate) -> None:
    for _ in range(4):
        gate.register("SELECT * FROM trades")
    with pytest.raises(FailedPrecondition, match=r"used by 4 queries \(1, 2, 3, …\); unregister them") as caught:
        gate.drop("trades")
    assert (caught.value.reason, caught.value.facts["queries"]) == ("STREAM_IN_USE", "4")
    for query_id in (1, 2, 4):
        gate.unregister(query_id)
    with pytest.raises(FailedPrecondition, match=r"used by 1 query \(3\); unregister it first"):
        gate.drop("trades")
    gate.unregister(3)
    gate.drop("trades")
    with pytest.raises(NotFound):
        gate.drop("trades")


def test_an_unknown_query_is_not_found(gate: Gate) -> None:
    gate.register("SELECT * FROM trades")
    gate.unregister(1)
    for query_id in (1, 0, -1, 2**70):
        with pytest.raises(NotFound, match=f"no query {query_id}"):
            gate.unregister(query_id)


def test_tenants_do_not_see_each_other(gate: Gate) -> None:
    gate.register("SELECT * FROM trades")
    with pytest.raises(NotFound) as caught:
        gate.send(Push("trade", rows(x=[1]), tenant="b"))
    assert "Trades" not in str(caught.value)
    with pytest.raises(NotFound):
        gate.unregister(1, tenant="b")
    assert gate.create(STREAM, tenant="b").stream_id == 2
    assert gate.register("SELECT * FROM trades", "r", tenant="b").query_id == 2
    assert gate.register("SELECT x FROM trades", "r").query_id == 3


# Request IDs


def test_a_request_id_gets_the_same_query_back(gate: Gate) -> None:
    first = gate.register("SELECT x FROM trades", "r1")
    again = gate.register("SELECT x FROM trades", "r1")
    assert (again.query_id, again.sequence, again.duplicate) == (first.query_id, first.sequence, True)
    assert gate.register("SELECT x FROM trades", "r2").query_id == 2
    assert gate.register("SELECT x FROM trades").query_id == 3
    assert gate.register("SELECT x FROM trades").query_id == 4


def test_a_request_id_with_another_text_is_a_conflict(gate: Gate) -> None:
    gate.register("SELECT x FROM trades", "r1")
    with pytest.raises(Conflict, match="to register another query; use a new") as caught:
        gate.register("SELECT  x FROM trades", "r1")
    assert caught.value.reason == "REQUEST_ID_REUSED"


def test_a_request_id_whose_query_is_gone_makes_a_new_one(gate: Gate) -> None:
    gate.register("SELECT x FROM trades", "r0")
    gate.register("SELECT x FROM trades", "r1")
    gate.unregister(2)
    again = gate.register("SELECT x FROM trades", "r1")
    assert (again.query_id, again.duplicate) == (3, False)
    assert gate.register("SELECT x FROM trades", "r1").query_id == 3
    gate.unregister(3)
    assert gate.register("SELECT x + 1 FROM trades", "r1").query_id == 4  # of another text: nobody has the ID now
    assert gate.register("SELECT x FROM trades", "r0").duplicate
    for query_id in (1, 4):
        gate.unregister(query_id)
    gate.drop("trades")
    with pytest.raises(SqlError, match="no stream or table 'trades'"):
        gate.register("SELECT x FROM trades", "r1")


def test_a_repeated_block_has_no_dead_query(gate: Gate) -> None:
    texts = [f"SELECT x FROM trades WHERE x = {n}" for n in range(3)]

    def register() -> QueriesAcknowledgement:
        done = gate.send(RegisterMany(texts, None, "block")).acknowledgement
        assert isinstance(done, QueriesAcknowledgement)
        return done

    gate.register("SELECT x FROM trades")
    assert (register().first_id, register().duplicate) == (2, True)
    gate.unregister(3)
    with pytest.raises(
        FailedPrecondition, match="registered 3 queries, and 1 of them is unregistered by now"
    ) as caught:
        register()
    assert caught.value.reason == "QUERIES_GONE"
    gate.unregister(4)
    with pytest.raises(FailedPrecondition, match="2 of them are unregistered"):
        register()
    gate.unregister(2)
    again = register()
    assert (again.first_id, again.count, again.duplicate) == (5, 3, False)
    assert register().first_id == 5
    with pytest.raises(Conflict, match="to register 3 queries of another call"):
        gate.register("SELECT x FROM trades", "block")


def test_a_block_over_many_pages_is_known_to_the_last_query() -> None:
    gate = Gate()
    gate.create(STREAM)
    texts = ["SELECT x FROM trades"] * 600  # a page has 512
    gate.register("SELECT x FROM trades")
    gate.send(RegisterMany(texts, None, "block"))
    for query_id in range(2, 601):
        gate.admission.replay(Unregistered(gate.admission.sequence + 1, "default", query_id))
    with pytest.raises(FailedPrecondition, match="599 of them are"):
        gate.admission.prepare(RegisterMany(texts, None, "block"), 0)
    gate.admission.replay(Unregistered(gate.admission.sequence + 1, "default", 601))
    done = gate.admission.prepare(RegisterMany(texts, None, "block"), 0).acknowledgement
    assert isinstance(done, QueriesAcknowledgement)
    assert done.first_id == 602
    gate.admission.check()


def test_request_ids_are_forgotten_oldest_first() -> None:
    gate = Gate(EngineConfig(kept_requests=2))
    gate.create(STREAM)
    for request in ("a", "b", "c"):
        gate.register("SELECT x FROM trades", request)
    assert gate.register("SELECT x FROM trades", "b").query_id == 2
    assert gate.register("SELECT x FROM trades", "a").query_id == 4
    with pytest.raises(InvalidInput, match="256"):
        gate.register("SELECT x FROM trades", "r" * 257)


# Windows against retention


@pytest.mark.parametrize(
    ("retention", "window", "accepted"),
    [
        ("1 HOUR", "BEGIN (NOW - 60 MINUTES)", True),
        ("1 HOUR", "BEGIN (NOW - 61 MINUTES)", False),
        ("1 HOUR", "BEGIN (NOW - 61 MINUTES) END (NOW - 60 MINUTES)", False),
        ("1 HOUR", "BEGIN (START)", True),
        ("1 HOUR", "BEGIN (NOW - 1000000 ROWS)", True),
        ("1 HOUR", "BEGIN TIMESTAMP '2020-01-01 00:00:00'", True),
        ("1 HOUR", "BEGIN TIMESTAMP '2020-01-01 00:00:00' END TIMESTAMP '2020-01-01 01:00:00'", True),
        ("1 HOUR", "BEGIN TIMESTAMP '2020-01-01 00:00:00' END TIMESTAMP '2020-01-01 01:00:01'", False),
        ("100 ROWS", "BEGIN (NOW - 100 ROWS)", True),
        ("100 ROWS", "BEGIN (NOW - 101 ROWS)", False),
        ("100 ROWS", "BEGIN (NOW - 101 ROWS) END (NOW - 100 ROWS)", False),
        ("100 ROWS", "BEGIN (NOW - 10 DAYS)", True),
    ],
)
def test_a_window_wider_than_retention_is_refused(retention: str, window: str, accepted: bool) -> None:
    gate = Gate()
    gate.create(f"{STREAM} RETENTION {retention}")
    if accepted:
        gate.register(f"SELECT * FROM trades {window}")
    else:
        with pytest.raises(OutOfRange, match="narrow the window") as caught:
            gate.register(f"SELECT * FROM trades {window}")
        assert caught.value.reason.startswith("WINDOW_WIDER_THAN_RETENTION")

"""The extended protocol, message by message: names, portals with row limits, errors, limits."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import psycopg
import pytest

from psoup_service.pg.portals import MOST_PORTALS, MOST_STATEMENTS
from psoup_service.process.settings import Settings
from psoup_testing.pg.script import ScriptedSession, pg_address, scripted
from psoup_testing.pg.socket import (
    FLUSH,
    SYNC,
    PgSocket,
    bind,
    cells,
    close,
    describe,
    execute,
    fields,
    message,
    parse,
    query,
    text,
)
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def served() -> Iterator[Serving]:
    """A service whose statements are orders."""
    with scripted(Settings(port=0, pg_port=0)) as running:
        yield running


@pytest.fixture
def client(served: Serving) -> Iterator[PgSocket]:
    """A client of it."""
    with PgSocket(pg_address(served)) as opened:
        yield opened.start()


def test_a_statement_is_described_before_it_is_bound(client: PgSocket) -> None:
    client.send(parse("rows 2", "s", 23, 25), describe(b"S", "s"), FLUSH)
    assert client.kinds(b"T") == "1tT"
    client.send(bind("p", "s", b"1", None, formats=(1,)), describe(b"P", "p"), execute("p"), SYNC)
    messages = client.until(b"Z")
    assert b"".join(kind for kind, _ in messages) == b"2TDDCZ"
    assert messages[1][1].endswith(struct.pack("!h", 1)), "the format of the column is the portal's"
    assert [cells(body) for kind, body in messages if kind == b"D"] == [[struct.pack("!q", n)] for n in (0, 1)]
    client.send(parse("fail"), describe(b"S"), SYNC)
    assert client.kinds() == "1tnZ"


def test_arguments_have_their_format_and_type(client: PgSocket) -> None:
    arguments = text("") + text("") + struct.pack("!hhh", 2, 1, 0) + struct.pack("!h", 2)
    arguments += struct.pack("!i", 4) + b"\0\0\0\7" + struct.pack("!i", -1) + struct.pack("!h", 0)
    client.send(parse("echo", "", 23), message(b"B", arguments), execute(), SYNC)
    shown = [cells(body) for kind, body in client.until(b"Z") if kind == b"D"]
    assert shown == [[b"b'\\x00\\x00\\x00\\x07' 1 23"], [b"None 0 0"]]


def test_a_portal_with_a_row_limit_goes_on_where_it_stopped(client: PgSocket) -> None:
    client.send(query("begin"), parse("rows 2500"), bind("p"), SYNC)
    assert client.kinds() + client.kinds() == "CZ12Z"
    for limit, rows, last in ((999, 999, "s"), (2, 2, "s"), (0, 1499, "C"), (5, 0, "C")):
        client.send(execute("p", limit), SYNC)
        kinds = client.kinds()
        assert kinds == "D" * rows + last + "Z", "a portal outlives Sync within a transaction"
    client.send(query("commit"), execute("p"), SYNC)
    client.until(b"Z")
    assert client.error()["C"] == "34000", "and ends with it"
    client.until(b"Z")
    client.send(parse("rows 5"), bind("p"), execute("p", 2), SYNC, execute("p"), SYNC)
    assert client.kinds() == "12DDsZ"
    assert client.error()["M"] == "portal 'p' does not exist"


def test_two_portals_advance_by_turns_and_are_closed(client: PgSocket) -> None:
    client.send(query("begin"), parse("rows 6", "s"), bind("a", "s"), bind("b", "s"))
    client.send(execute("a", 1), execute("b", 2), execute("a", 2), close(b"P", "b"), execute("b", 1), SYNC)
    assert client.kinds() == "CZ"
    messages = client.until(b"Z")
    assert b"".join(kind for kind, _ in messages) == b"122DsDDsDDs3EZ"
    values = [cells(body)[0] for kind, body in messages if kind == b"D"]
    assert values == [b"0", b"0", b"1", b"1", b"2"]
    assert messages[-1][1] == b"E", "the transaction has failed"


def test_after_an_error_messages_up_to_sync_are_left_out(client: PgSocket) -> None:
    client.send(parse("fail"), bind(), execute(), parse("rows 1"), query("rows 1"), bind(), execute(), SYNC)
    assert client.kinds() == "12EZ"
    client.send(parse("rows 1"), bind(), execute(), SYNC, parse("defect"), bind(), execute(), SYNC)
    assert client.kinds() == "12DCZ"
    error = client.error()
    assert (error["C"], error["M"]) == ("XX000", "the statement failed by a defect (ZeroDivisionError)")


def test_names_that_are_missing_or_taken_are_refused_by_name(client: PgSocket) -> None:
    cases = {
        "26000 prepared statement 'nope' does not exist": bind("", "nope"),
        "26000 unnamed prepared statement does not exist": describe(b"S"),
        "34000 portal 'gone' does not exist": execute("gone"),
        "42P05 prepared statement 's' already exists; close it first": parse("rows 1", "s") + parse("rows 2", "s"),
        "42P03 portal 'p' already exists; close it first": bind("p", "s") + bind("p", "s"),
        "08P01 Bind gives 2 formats for the columns, and the statement has 1": (
            bind("q", "s", formats=(0, 1)) + describe(b"P", "q")
        ),
        "08P01 7 is not a format: 0 is text, 1 is binary": bind("r", "s", formats=(7,)),
    }
    for problem, sent in cases.items():
        client.send(sent, SYNC)
        error = fields(client.until(b"E")[-1][1])
        assert f"{error['C']} {error['M']}" == problem
        client.until(b"Z")
    client.send(close(b"S", "s"), close(b"P", "never"), SYNC)
    assert client.kinds() == "33Z", "to close what is not there is no error"


def test_too_many_portals_and_statements_are_refused_by_name(client: PgSocket) -> None:
    client.send(query("begin"), parse("rows 9", "s"), SYNC)
    client.until(b"Z"), client.until(b"Z")
    for number in range(MOST_PORTALS):
        client.send(bind(f"p{number}", "s"))
    client.send(bind("p10000", "s"), SYNC)
    error = client.error()
    assert error["C"] == "54000"
    assert "portal 'p10000' is one too many" in error["M"]
    client.until(b"Z")
    client.send(*(parse("rows 1", f"s{number}") for number in range(MOST_STATEMENTS)), SYNC)
    assert "prepared statement 's999' is one too many" in client.error()["M"]


def test_long_arguments_of_open_portals_are_charged_and_given_back(client: PgSocket, served: Serving) -> None:
    receiving = served.service._answering.receiving
    client.send(query("begin"), parse("echo", "s", 25), SYNC)
    client.until(b"Z"), client.until(b"Z")
    argument = b"x" * (3 << 20)
    for number in range(10):
        client.send(bind(f"p{number}", "s", argument), SYNC)
        assert client.kinds() == "2Z"
    assert receiving.bytes >= 30 << 20
    client.send(bind("p10", "s", argument), SYNC)
    assert "exceed the limit of 33,554,432; close some" in client.error()["M"]
    client.until(b"Z")
    client.send(query("commit"))
    client.until(b"Z")
    assert receiving.bytes == 0


@pytest.mark.parametrize("kind", ["statement", "portal"])
def test_long_names_are_charged_and_given_back(client: PgSocket, served: Serving, kind: str) -> None:
    receiving = served.service._answering.receiving
    client.send(query("begin"), parse("rows 1", "s"), SYNC)
    client.until(b"Z"), client.until(b"Z")
    names = [f"{number}{'x' * 2_000_000}" for number in range(5)]
    for name in names:
        client.send(parse("rows 1", name) if kind == "statement" else bind(name, "s"), SYNC)
        reply = client.until(b"Z")
    assert "exceed the limit of 33,554,432; close some" in fields(reply[0][1])["M"]
    for name in names:
        client.send(close(kind[:1].upper().encode(), name), SYNC)
        assert client.kinds() == "3Z"
    assert receiving.bytes == 0


def test_fields_that_do_not_fit_their_message_are_refused_and_the_next_statement_runs(client: PgSocket) -> None:
    wrong = (
        message(b"P", b"no end"),
        message(b"P", text("s") + text("rows 1") + struct.pack("!h", 9)),
        message(b"B", text("") + text("") + struct.pack("!hhi", 0, 1, 1_000_000) + b"x"),
        message(b"B", text("") + text("") + struct.pack("!hhi", 0, 1, -7)),
        message(b"E", text("p")),
        message(b"E", text("p") + b"\0\0\0\0 and more"),
        message(b"D", b"Q" + text("p")),
        message(b"P", b"\xff\xfe\0rows 1\0\0\0"),
    )
    for sent in wrong:
        client.send(parse("rows 1"), sent, SYNC)
        assert client.error()["C"] == "08P01"
        client.until(b"Z")
    client.send(query("rows 1"))
    assert client.kinds() == "TDCZ"


def test_an_empty_text_and_many_statements_in_one(client: PgSocket) -> None:
    client.send(query(" "), query("rows 1; rows 2;"), query("rows 1; fail; rows 1"))
    assert client.kinds() + client.kinds() + client.kinds() == "IZ" + "TDCTDDCZ" + "TDCEZ"
    client.send(parse(""), bind(), describe(b"P"), execute(), SYNC)
    assert client.kinds() == "12nIZ"
    client.send(message(b"F", b"\0\0\0\1"), query("rows 1"))
    assert client.error()["C"] == "0A000"
    assert client.kinds() == "Z"
    assert client.kinds() == "TDCZ"


def test_a_pipeline_of_psycopg_keeps_its_order(served: Serving) -> None:
    host, port = pg_address(served).rsplit(":", 1)
    with psycopg.connect(f"host={host} port={port} user=x dbname=d", autocommit=True) as connection:
        with connection.pipeline():
            cursors = [connection.execute(f"rows {number}") for number in range(40)]
            assert [len(cursor.fetchall()) for cursor in cursors] == list(range(40))
        with connection.cursor() as cursor:
            assert [n for (n,) in cursor.stream("rows 2500")] == list(range(2_500))
    assert ScriptedSession.open >= 0

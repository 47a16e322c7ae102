"""Mistakes that people make on their first day: each error says what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from psoup_client import Client
from psoup_testing.services.fixtures import numbers
from psoup_testing.services.threaded_service import Serving

SELECT = "SELECT * FROM mistaken WHERE "
MISTAKES: dict[str, tuple[Callable[[Client], object], str]] = {
    "one row without a list": (lambda c: c.push("mistaken", {"a": 1}), "put a single row in a list: [{...}]"),
    "rows as tuples": (lambda c: c.push("mistaken", [(1, "x")]), "every row must be a dict of values by column"),
    "a generator": (lambda c: c.push("mistaken", (row for row in ())), "a dict of lists: list(rows)"),
    "a word for a number": (lambda c: c.push("mistaken", [{"a": "one"}]), "without loss; give a whole number"),
    "a number for a text": (lambda c: c.push("mistaken", [{"s": 5}]), "without loss; give it as a text"),
    "half a number": (lambda c: c.push("mistaken", [{"a": 1.5}]), "round it, or make the column DOUBLE"),
    "a word for true": (lambda c: c.push("mistaken", [{"ok": "yes"}]), "give True or False"),
    "too many digits": (lambda c: c.push("mistaken", [{"d": 12345}]), "it has 2 digits before the point"),
    "a parameter of Python": (lambda c: c.register(f"{SELECT}a = %s", [5]), "parameters are written ?, $1 or $name"),
    "another of Python": (lambda c: c.register(f"{SELECT}a > %(x)s AND ok"), "parameters are written ?, $1 or $name"),
    "a parameter of others": (lambda c: c.register(f"{SELECT}a = :x", {"x": 5}), "hint: write ? or $name"),
    "a value for nothing": (lambda c: c.register(f"{SELECT}a = 5", [5]), "takes none: write ? or $name where"),
    "the wrong quotes": (lambda c: c.register(f'{SELECT}s = "x"'), "a text stands in single quotes: 'x'"),
    "a date in words": (lambda c: c.register(f"{SELECT}_time > 'now-ish'"), "write it as '2013-07-04 12:00:00'"),
    "a column in no group": (lambda c: c.register(f"{SELECT}ok GROUP BY a"), "or say which value: any_value("),
    "an INSERT": (lambda c: c.execute("INSERT INTO mistaken VALUES (1)"), "hint: rows come in by a push"),
    "SHOW": (lambda c: c.execute("SHOW STREAMS"), "hint: see psoup stream list"),
    "a type that is not there": (lambda c: c.create_stream("CREATE STREAM x (a VARCHARR)"), "the types are BOOLEAN, "),
    "a window without BEGIN": (lambda c: c.ask(f"{SELECT}ok", window="1 HOUR"), "BEGIN (NOW - 10 MINUTES) END (NOW)"),
    "a number of queries": (lambda c: c.queries(limit=-1), "limit is -1: give 0 or more"),
    "one ID for many": (lambda c: list(c.invoke_many("q-1")), "give a list of queries or IDs"),
    "no time at all": (lambda c: c.ask(f"{SELECT}ok", timeout=-1), "timeout is -1: give seconds, 0 or more"),
    "labels as queries": (lambda c: c.results("mistaken", {"user": "u"}), "labels go with labels="),  # type: ignore[arg-type]
    "a URL": (lambda c: Client("http://localhost:7433"), "leave http:// out"),
    "a port beyond": (lambda c: Client("localhost:99999"), "a port is 1 to 65535"),
}


@pytest.fixture(scope="module")
def mistaken(running: Serving) -> Iterator[Client]:
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM mistaken (a BIGINT, s TEXT, ok BOOLEAN, d DECIMAL(4,2))")
        yield client


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_says_what_to_do(mistaken: Client, mistake: str) -> None:
    call, way = MISTAKES[mistake]
    with pytest.raises(Exception) as raised:
        call(mistaken)
    assert way in str(raised.value)


def test_a_query_is_unregistered_as_such(mistaken: Client) -> None:
    query: Any = mistaken.register("SELECT a FROM mistaken", key=f"k{next(numbers)}")
    mistaken.unregister(query)
    assert mistaken.queries("mistaken") == []

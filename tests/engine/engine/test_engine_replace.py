"""Replacement of queries: by their keys, in one event, alone and in blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import Conflict, InvalidInput, NotFound
from psoup.events.commands import RegisterMany
from psoup.local import LocalPSoup
from psoup.published.departures import Succession

SQL = "SELECT x FROM s WHERE x > {}"
BLOCK = "SELECT x FROM s WHERE x > ?"


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(verify="all")
    soup.execute("CREATE STREAM s (x BIGINT)")
    return soup


def replaced_by(soup: LocalPSoup, query_id: int) -> str | None:
    """The query to which a call with the ID of one that is gone leads."""
    said = set()
    for call in (soup.invoke, soup.explain, soup.unregister):
        with pytest.raises(NotFound) as refused:
            call(query_id)
        said.add(refused.value.facts.get("replaced_by"))
    (later,) = said
    return later


def block(soup: LocalPSoup, values: list[int], keys: list[str], *, replace: bool = False) -> list[int]:
    """Register a block."""
    rows = pa.table({"x": values, "key": keys})
    return list(soup.register_many(BLOCK, rows, key="key", replace=replace))


def test_the_new_query_takes_the_place_of_the_old_one_in_one_event(soup: LocalPSoup) -> None:
    first = soup.register(SQL.format(1), key="k", labels={"user": "u"})
    soup.push("s", pa.table({"x": [1, 2, 3]}))
    before = soup.engine.snapshot().sequence
    again = soup.register(SQL.format(1), key="k", labels={"user": "u"}, replace=True)
    assert (again, soup.engine.snapshot().sequence) == (first, before), "the same call changes nothing"
    later = soup.register(SQL.format(2), key="k", labels={"user": "v"}, replace=True)
    assert soup.engine.snapshot().sequence == before + 1
    assert (soup.query("k"), soup.queries(), soup.queries(labels={"user": "u"})) == (later, [later], [])
    assert soup.invoke(later, window="BEGIN (START)").to_table().column("x").to_pylist() == [3]
    assert replaced_by(soup, first) == str(later)
    last = soup.register(SQL.format(2), key="k", replace=True)
    assert (replaced_by(soup, first), replaced_by(soup, later)) == (str(last), str(last))
    soup.unregister(last)
    assert (replaced_by(soup, last), replaced_by(soup, first)) == (None, str(last))
    soup.check()


def test_a_query_of_a_block_is_replaced_alone_and_recognised(soup: LocalPSoup) -> None:
    ids = block(soup, [1, 2, 3], ["a", "b", "c"])
    assert soup.register(SQL.format(2), key="b") == ids[1], "it is what stands, though not the same call"
    later = soup.register(SQL.format(7), key="b", replace=True)
    assert soup.queries() == [ids[0], ids[2], later]
    assert replaced_by(soup, ids[1]) == str(later)
    with pytest.raises(Conflict, match="key 'a' is that of a query of a block of 3, registered otherwise"):
        block(soup, [1, 2, 3], ["a", "b", "c"])


def test_a_block_is_replaced_whole_and_its_keys_may_have_been_of_any_queries(soup: LocalPSoup) -> None:
    single = soup.register(SQL.format(1), key="a")
    ids = block(soup, [2, 3, 4], ["b", "c", "d"])
    later = block(soup, [5, 6, 7], ["d", "new", "a"], replace=True)
    assert soup.queries() == [*ids[:2], *later]
    assert (replaced_by(soup, ids[2]), replaced_by(soup, single)) == (str(later[0]), str(later[2]))
    assert block(soup, [5, 6, 7], ["d", "new", "a"], replace=True) == later
    with pytest.raises(Conflict, match=r"key 'd' .*: its text is SELECT x FROM s WHERE x > 5"):
        block(soup, [8, 6, 7], ["d", "new", "a"])


@pytest.mark.parametrize(
    ("text", "labels", "why"),
    [
        (SQL.format(2), {"user": "u"}, "its text is SELECT x FROM s WHERE x > 1. To put"),
        (SQL.format(1), {"user": "v"}, "otherwise: its labels are user=u. To put the new query in its place"),
        (SQL.format(2), {}, "its text is .*; its labels are user=u. To put"),
        ("SELECT z FROM s", {"user": "u"}, "its text is"),
    ],
)
def test_a_conflict_says_what_differs(soup: LocalPSoup, text: str, labels: dict[str, str], why: str) -> None:
    first = soup.register(SQL.format(1), key="k", labels={"user": "u"})
    with pytest.raises(Conflict, match=why) as refused:
        soup.register(text, key="k", labels=labels)
    assert (refused.value.reason, refused.value.facts["query_id"]) == ("KEY_TAKEN", str(first))


def test_what_is_refused_replaces_nothing(soup: LocalPSoup) -> None:
    first = soup.register(SQL.format(1), key="k")
    before = soup.admission.state()
    for call, options in (
        ("SELECT z FROM s", {"key": "k"}),
        (SQL.format(2), {}),
        (SQL.format(2), {"key": "k" * 10_240}),
    ):
        with pytest.raises(InvalidInput):
            soup.register(call, replace=True, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="replace is for queries with a key"):
        soup.submit(RegisterMany([BLOCK], [[1]], replace=True))
    assert (soup.admission.state(), soup.query("k")) == (before, first)


def test_a_query_on_another_stream_takes_the_place(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (y BIGINT)")
    first = soup.register(SQL.format(1), key="k")
    later = soup.register("SELECT y FROM t", key="k", replace=True)
    assert (soup.queries("s"), soup.queries("t"), replaced_by(soup, first)) == ([], [later], str(later))
    soup.execute("DROP STREAM s")
    soup.check()


def test_the_latest_replacements_are_remembered() -> None:
    succession, known = Succession(5), dict[int, int]()
    later = 100
    for count in (1, 2, 9, 1, 1, 3, 40, 1):
        frozen, before = succession.freeze(), dict(known)
        earlier = np.arange(later, later + count) - 50
        succession.add(earlier, np.arange(later, later + count) + 1_000)
        known.update((int(i), int(i) + 1_050) for i in earlier)
        known = dict(list(known.items())[-5:])
        later += count
        succession.check()
        assert dict(succession.items()) == known
        assert {i: frozen.of(i) for i in before} == before, "what was frozen stays"
    assert succession.freeze().of(2**70) == 0

"""Stores of copies: what SQLite holds is the answer, value for value, after any recharge; budgets, faults, mistakes."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup_client import Client, InvalidRequest, NotFound, ServerFault
from psoup_client.copies.answer_copy import changes
from psoup_proto.v1 import sync_pb2
from psoup_recharge import Store, StoreError, rounds
from psoup_testing.oracles.questions import again

MakeStream = Callable[[str], str]
COLUMNS = "(b BOOLEAN, n BIGINT, x DOUBLE, d DECIMAL(18, 4), t TEXT, at TIMESTAMP, day DATE)"
STATEMENTS = {
    "plain": "SELECT * FROM {s} WHERE n % 3 <> 1 BEGIN (NOW - 60 ROWS)",
    "sorted": "SELECT n, x FROM {s} ORDER BY x DESC NULLS FIRST, d, t DESC, b, at, day BEGIN (START)",
    "up": 'SELECT n, x AS "a""b c" FROM {s} ORDER BY x, d DESC, n BEGIN (START)',
    "first": "SELECT t, n FROM {s} LIMIT 12 BEGIN (NOW - 80 ROWS)",
    "groups": "SELECT t, count(*), sum(d), min(at) FROM {s} GROUP BY t BEGIN (START)",
    "top": "SELECT n, day FROM {s} ORDER BY n DESC LIMIT 5 BEGIN (START)",
    "moves": "SELECT t FROM {s} GROUP BY t ORDER BY count(*) DESC, t BEGIN (NOW - 60 ROWS)",
    "middle": "SELECT n, t, x, d, b, at FROM {s} ORDER BY x, n LIMIT 20 OFFSET 3 BEGIN (NOW - 70 ROWS)",
    "kinds": "SELECT DISTINCT t, d, day FROM {s} BEGIN (NOW - 90 ROWS)",
    "none": "SELECT n FROM {s} WHERE n > 1000000 BEGIN (START)",
    "pairs": "SELECT a.n, b.t, b._id AS i FROM {s} AS a [BEGIN (NOW - 50 ROWS)], {s} AS b [BEGIN (NOW - 20 ROWS)]"
    " WHERE a.n = b.n AND a.b IS NOT NULL",
    "three": "SELECT a.x, b.d FROM {s} AS a, {s} AS b, {s} AS c WHERE a.n = b.n AND b.t = c.t AND c.day = a.day"
    " ORDER BY b.d DESC NULLS FIRST, a.x BEGIN (NOW - 30 ROWS)",
}


def some(rows: int, draw: random.Random) -> pa.Table:
    numbers = [None, 0.0, -0.0, 0.1, 1e300, -1e300, float("nan"), float("inf"), -float("inf")]
    texts = [None, "", "a", "ß\x00𝄞", "NaN", "1e5", "'\"; DROP TABLE rows_1"]
    decimals = [None, "0.0001", "-99999999999999.9999", "12.5", "99999999999999.9999", "-0.5"]
    columns = {
        "b": pa.array([draw.choice([None, True, False]) for _ in range(rows)]),
        "n": pa.array([draw.choice([*range(9), -5, 2**53 + 1, -(2**63)]) for _ in range(rows)], pa.int64()),
        "x": pa.array([draw.choice(numbers) for _ in range(rows)], pa.float64()),
        "d": pa.array([draw.choice(decimals) for _ in range(rows)]).cast(pa.decimal128(18, 4)),
        "t": pa.array([draw.choice(texts) for _ in range(rows)], pa.string()),
        "at": pa.array([draw.randrange(-(10**15), 10**15) for _ in range(rows)], pa.timestamp("us", "UTC")),
        "day": pa.array([draw.choice([None, -1, 0, 20_000]) for _ in range(rows)], pa.int32()).cast(pa.date32()),
    }
    return pa.table(columns)


@pytest.fixture
def stream(make_stream: MakeStream) -> str:
    return make_stream(COLUMNS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "copies.db") as store:
        yield store


def check(store: Store, client: Client, name: str) -> None:
    """Compare what the store holds with an invocation, value for value, and with what SQLite shows of it."""
    entry = store.entry(name)
    answer = again(client.invoke, key=store.key_of(entry))
    held = store.read(name)
    assert held.schema.names == answer.schema.names
    assert repr([column.to_pylist() for column in held.columns]) == repr(
        [column.to_pylist() for column in answer.to_arrow().columns]
    )
    names, shown = store.select(f"SELECT * FROM {name}")
    assert (entry.rows, len(shown)) == (len(answer), len(answer))
    assert len({column.lower() for column in names}) == len(names)


@pytest.mark.seeded("NaN is stored as NULL, -0.0 as 0.0")
def test_stores_hold_the_answers(client: Client, stream: str, store: Store) -> None:
    draw = random.Random(4)
    for place, (name, statement) in enumerate(STATEMENTS.items()):
        store.add(name, sql=statement.format(s=stream), priority=place)
    for rows in (0, 100, 1, 0, 30, 200):
        if rows:
            client.push(stream, some(rows, draw))
        told = store.recharge(client)
        assert not told.left_out and not [copy.error for copy in told.copies if copy.error]
        assert [copy.name for copy in told.copies] == list(reversed(STATEMENTS))
        for name in STATEMENTS:
            check(store, client, name)
    assert sum(line["came"] for line in store.history() if line["name"] == "up") == 331
    store.close()
    plain = sqlite3.connect(store.path)
    assert (
        plain.execute("SELECT count(*) FROM plain").fetchone()
        == plain.execute("SELECT count(*) FROM rows_1").fetchone()
    )
    (at, day) = plain.execute("SELECT \"at\", day FROM plain WHERE day = '1969-12-31'").fetchone()
    assert len(at) == 27 and at.endswith("Z") and day == "1969-12-31"
    plain.close()


def test_bytes_and_seconds_are_spent_by_priority(client: Client, stream: str, store: Store) -> None:
    client.push(stream, {"n": range(5_000)})
    for name, priority in (("low", 1), ("high", 9), ("middle", 5)):
        store.add(name, sql=f"SELECT n, _id FROM {stream} WHERE n <> {priority} BEGIN (START)", priority=priority)
    told = store.recharge(client, max_bytes=24_000)
    assert [copy.name for copy in told.copies] == ["high", "middle", "low"]
    assert told.copies[0].complete and not told.copies[2].complete, "the greatest priority first"
    assert "low" in told.left_out and told.received < 48_000
    assert store.recharge(client, max_seconds=0).left_out == ["high", "middle", "low"]
    assert not store.recharge(client).left_out
    for name in ("high", "middle", "low"):
        check(store, client, name)


def test_fresh_copies_are_left_alone(client: Client, stream: str, store: Store) -> None:
    store.add("calm", sql=f"SELECT n FROM {stream} BEGIN (START)", fresh=3_600)
    store.add("eager", sql=f"SELECT n FROM {stream} WHERE n > 0 BEGIN (START)")
    assert not store.recharge(client).fresh
    assert store.recharge(client).fresh == ("calm",)
    assert [copy.name for copy in store.recharge(client, only=["CALM"]).copies] == ["calm"]


def test_a_query_that_is_gone_is_registered_again(client: Client, stream: str, store: Store) -> None:
    client.push(stream, {"n": range(10)})
    store.add("own", sql=f"SELECT n FROM {stream} BEGIN (START)")
    other = client.register(f"SELECT n FROM {stream} WHERE n > 5 BEGIN (START)", key=f"{stream}/other")
    store.add("other", key=f"{stream}/other")
    store.add("by_id", query_id=other.id)
    store.recharge(client)
    client.unregister(key=store.key_of(store.entry("own")))
    client.unregister(other)
    client.push(stream, {"n": [77]})
    told = {copy.name: copy for copy in store.recharge(client).copies}
    check(store, client, "own")
    assert told["own"].reset == "first" and (told["own"].came, told["own"].gone) == (11, 10)
    assert isinstance(told["other"].error, NotFound) and isinstance(told["by_id"].error, NotFound)
    assert store.read("other").num_rows == 4, "a copy whose query is gone keeps its rows"
    assert "no query" in store.entry("other").error
    with pytest.raises(NotFound):
        store.forget("nothing")
    store.forget("own", client)
    assert not client.queries(stream)
    store.forget("other", client)
    assert [entry.name for entry in store.entries()] == ["by_id"]


def test_a_change_is_made_once_and_whole(client: Client, stream: str, store: Store) -> None:
    client.push(stream, {"n": range(10)})
    store.add("q", sql=f"SELECT n FROM {stream} BEGIN (START)")
    store.recharge(client)
    client.push(stream, {"n": [10, 11]})
    entry = store.entry("q")
    asked = store.want(entry)
    body, _ = changes(client, [asked], 10_000)
    change = body.outcomes[0].change
    broken = sync_pb2.Change()
    broken.CopyFrom(change)
    broken.columns_json = change.columns_json.replace(b"11]", b'11],["x"]')
    with pytest.raises(ServerFault, match="argument"):
        store.apply(entry, asked, broken, body.streams)
    assert store.read("q").num_rows == 10, "half of a change"
    with Store(store.path) as second:
        assert second.apply(entry, asked, change, body.streams) == 0
    assert store.apply(entry, asked, change, body.streams) is None, "another process was faster"
    assert store.read("q").column("n").to_pylist() == list(range(12))
    assert store.recharge(client).copies[0].came == 0


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_query_that_another_program_forgets_or_replaces_meanwhile_is_left_to_it(
    client: Client, stream: str, store: Store, monkeypatch: pytest.MonkeyPatch, forgotten: bool
) -> None:
    client.push(stream, {"n": range(10)})
    store.add("q", sql=f"SELECT n FROM {stream} BEGIN (START)", priority=1)
    store.add("other", sql=f"SELECT n FROM {stream} WHERE n > 1 BEGIN (START)")

    def meanwhile(*args: Any, **named: Any) -> Any:
        reply = changes(*args, **named)
        monkeypatch.undo()
        with Store(store.path) as second:
            if forgotten:
                second.forget("q")
            else:
                second.add("q", sql=f"SELECT n FROM {stream} WHERE n > 5 BEGIN (START)")
        return reply

    monkeypatch.setattr(rounds, "changes", meanwhile)
    told = {copy.name: copy for copy in store.recharge(client).copies}
    assert isinstance(told["q"].error, NotFound) and told["other"].complete
    store.recharge(client)
    for entry in store.entries():
        check(store, client, entry.name)
    assert len(store.entries()) == 2 - forgotten


def test_a_view_is_in_order_whatever_its_columns_are_called(client: Client, stream: str, store: Store) -> None:
    client.push(stream, {"n": [1, 2, 3], "x": [2.0, 3.0, 1.0]})
    store.add("sorted", sql=f'SELECT n AS "c3" FROM {stream} ORDER BY x BEGIN (START)')
    store.add(
        "pairs", sql=f'SELECT a.n, -a.n AS "c0", b.x FROM {stream} AS a, {stream} AS b WHERE a.n = b.n BEGIN (START)'
    )
    store.recharge(client)
    for name in ("sorted", "pairs"):
        assert store.select(f"SELECT * FROM {name}")[1] == client.invoke(key=store.key_of(store.entry(name))).rows()


@pytest.mark.parametrize("name", ["", "1a", "a b", "store", "ROWS_7", "sqlite_x", "a" * 64, 'a"b', "é"])
def test_names_that_cannot_be_taken_are_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest, match="not a valid name of a copy"):
        store.add(name, sql="SELECT 1")
    assert not store.entries()


def test_what_is_no_store_is_refused(tmp_path: Path, store: Store) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (a)")
    other.commit()
    other.close()
    (tmp_path / "text.db").write_text("no database" * 1_000)
    later = tmp_path / "later.db"
    Store(later).close()
    newer = sqlite3.connect(later)
    newer.execute("PRAGMA user_version = 9")
    newer.close()
    for path, what in (
        (tmp_path / "other.db", "something else"),
        (tmp_path / "text.db", "not a valid SQLite file"),
        (tmp_path / "later.db", "format 9"),
        (tmp_path / "no" / "folder.db", "cannot be opened"),
    ):
        with pytest.raises(StoreError, match=what):
            Store(path)
    store.add("q", key="k")
    with pytest.raises(StoreError, match="nothing has come"):
        store.read("q")
    for wrong in ("DROP TABLE queries", "DELETE FROM history", "SELECT * FROM nothing", "ATTACH 'x' AS y", "PRAGMA x"):
        with pytest.raises(InvalidRequest, match="SQLite says"):
            store.select(wrong)
    assert store.select("SELECT name FROM queries WHERE 0") == (["name"], [])
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.entries()


def test_pages_of_an_answer_without_tuple_ids_are_its_first_rows(client: Client, stream: str, store: Store) -> None:
    store.add("groups", sql=f"SELECT n, count(*), max(t) FROM {stream} WHERE n < 3000 GROUP BY n BEGIN (START)")
    client.push(stream, {"n": range(3_000), "t": [f"text {k}" for k in range(3_000)]})
    sizes, key = list[int](), store.key_of(store.entry("groups"))
    for draw in (1, 2_999, 2, 7, 5):
        told = store.recharge(client, max_bytes=1_000)
        held, whole = store.read("groups").to_pylist(), client.invoke(key=key).to_arrow().to_pylist()
        assert held == whole[: len(held)]
        assert told.copies[0].complete == (len(held) == len(whole))
        sizes.append(len(held))
        client.push(stream, {"n": [draw], "t": ["z"]})
    assert 0 < sizes[0] < sizes[1] < 3_000
    store.recharge(client)
    check(store, client, "groups")

"""Budgets of a recharge: shares, orders, windows, replies as large as the line is fast; profiles and quantities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from psoup_client import Client, InvalidRequest
from psoup_client.errors import DeadlineExceeded
from psoup_proto.v1 import sync_pb2
from psoup_recharge import Entry, Store, read_profile
from psoup_recharge.budget import RechargeBudget
from psoup_recharge.quantities import read_bytes, read_seconds
from psoup_testing.services.threaded_service import serving

pytestmark = [
    pytest.mark.seeded("a share is not kept, or what it leaves is not for others"),
    pytest.mark.seeded("another statement of a name finds the query of the first"),
]

MakeStream = Callable[[str], str]


@pytest.fixture
def stream(client: Client, make_stream: MakeStream) -> str:
    name = make_stream("(n BIGINT)")
    client.push(name, {"n": range(6_000)})
    return name


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "copies.db") as store:
        yield store


def sql(stream: str, number: int) -> str:
    return f"SELECT n, _id FROM {stream} WHERE n <> {number} BEGIN (START)"


def rows(store: Store, name: str) -> list[int]:
    return list(store.read(name).column("n").to_pylist())


def test_a_share_is_kept_for_its_copy(client: Client, stream: str, store: Store) -> None:
    store.add("greedy", sql=sql(stream, 1), priority=9)
    store.add("modest", sql=sql(stream, 2), priority=1, share=0.5)
    told = store.recharge(client, max_bytes=8_000)
    greedy, modest = told.copies
    assert not greedy.complete and not modest.complete
    assert modest.size > 3_000 and greedy.size > 3_000, "half of it for each, though one is of a greater priority"
    assert (told.why, told.left_out) == ("bytes", ["greedy", "modest"])
    assert greedy.left + greedy.came == modest.left + modest.came == 5_999
    (line,) = store.recharges()
    assert (line["left_out"], line["why"], line["received"]) == ("greedy modest", "bytes", told.received)
    assert line["sent"] > 0 and line["came"] == greedy.came + modest.came
    store.recharge(client)
    store.add("modest", sql=f"SELECT n FROM {stream} WHERE n = 7 BEGIN (START)", priority=1, share=0.9)
    client.push(stream, {"n": range(6_000, 10_000)})
    greedy, modest = store.recharge(client, max_bytes=20_000).copies
    assert modest.complete and modest.size < 200
    assert greedy.complete and greedy.size > 4_000, "what a share leaves is for all"
    assert [line["why"] for line in store.recharges()] == ["", "", "bytes"]


def test_shares_of_more_than_all_are_parts_of_it(store: Store) -> None:
    budget = RechargeBudget(1_000, None)
    entries = [Entry("a", key="k", share=1), Entry("b", key="k", share=1), Entry("c", key="k")]
    budget.share_out(entries)
    assert [budget.part_of(entry) for entry in entries] == [500, 500, 0]
    budget.spend(entries[0], 600)
    assert [budget.part_of(entry) for entry in entries] == [0, 500, 0]
    budget.share_in()
    assert [budget.part_of(entry) for entry in entries] == [-1, -1, -1]


def test_replies_are_as_large_as_the_line_is_fast() -> None:
    budget = RechargeBudget(None, None)
    first = budget.room
    assert first == 64 * 1024
    budget.note_reply(10, 1_000, 3_000, 0.001)
    assert budget.room == first, "a small reply tells nothing"
    sizes = list[int]()
    for seconds in (0.1, 0.5, 1.0, 0.01, 0.01, 8.0, 8.0, 8.0, 8.0, 8.0):
        budget.note_reply(10, budget.room // 5, budget.room, seconds)
        sizes.append(budget.room // 1_024)
    assert sizes == [256, 512, 512, 2_048, 3_072, 768, 192, 48, 12, 8]


def test_an_answer_that_comes_whole_has_room(client: Client, stream: str, store: Store) -> None:
    store.add("volatile", sql=f"SELECT n, now() AS t FROM {stream} BEGIN (START)", share=0.1)
    (copy,) = store.recharge(client).copies
    assert copy.complete and copy.came == 6_000 and copy.error is None


def test_orders_and_windows(client: Client, stream: str, store: Store) -> None:
    store.add("old", sql=sql(stream, 1), order="oldest")
    store.add("new", sql=sql(stream, 1), window="BEGIN (NOW - 10 ROWS)")
    store.recharge(client, max_bytes=3_000)
    old = rows(store, "old")
    assert old == [n for n in range(6_000) if n != 1][: len(old)] and len(old) < 5_999
    store.recharge(client)
    assert len(rows(store, "old")) == 5_999 and rows(store, "new") == list(range(5_990, 6_000))
    store.add("new", sql=sql(stream, 1), window="BEGIN (NOW - 3 ROWS)")
    told = {copy.name: copy for copy in store.recharge(client).copies}
    assert (told["new"].reset, rows(store, "new")) == ("other window", [5_997, 5_998, 5_999])
    store.add("new", sql=sql(stream, 1), window="BEGIN (NEVER)")
    (copy,) = store.recharge(client, only=["new"]).copies
    assert copy.error is not None and rows(store, "new") == [5_997, 5_998, 5_999], "it keeps what it has"
    store.add("new", sql=sql(stream, 1))
    assert store.recharge(client, only=["new"]).copies[0].came == 5_999


def test_another_statement_of_a_name_takes_the_place_of_the_first(client: Client, stream: str, store: Store) -> None:
    store.add("q", sql=f"SELECT n FROM {stream} WHERE n < 5 BEGIN (START)")
    store.recharge(client)
    store.add("q", sql=f"SELECT n FROM {stream} WHERE n < 2 BEGIN (START)")
    store.recharge(client)
    assert rows(store, "q") == [0, 1]
    store.forget("q")
    store.add("q", sql=f"SELECT n FROM {stream} WHERE n < 3 BEGIN (START)")
    store.recharge(client)
    assert rows(store, "q") == [0, 1, 2] and len(client.queries(stream)) == 1


def test_a_service_that_has_lost_all_is_told_the_statements(client: Client, stream: str, store: Store) -> None:
    store.add("q", sql=sql(stream, 1))
    store.recharge(client)
    with serving() as other, Client(other.address) as elsewhere:
        elsewhere.create_stream(f"CREATE STREAM {stream} (n BIGINT)")
        elsewhere.push(stream, {"n": [1, 2, 3]})
        (copy,) = store.recharge(elsewhere).copies
        assert (copy.came, copy.gone, copy.complete, rows(store, "q")) == (2, 5_999, True, [2, 3])
        (copy,) = store.recharge(elsewhere).copies
        assert (copy.came, copy.reset) == (0, "")


def test_what_is_overdue_comes_first(client: Client, stream: str, store: Store) -> None:
    store.add("low", sql=sql(stream, 1), priority=1)
    store.add("high", sql=sql(stream, 2), priority=9)
    store.add("wished", sql=sql(stream, 3), fresh=3_600)
    assert [entry.name for entry in store.entries()] == ["wished", "high", "low"]
    assert [copy.name for copy in store.recharge(client).copies] == ["wished", "high", "low"]
    assert [entry.name for entry in store.entries()] == ["high", "low", "wished"]
    ages = [entry.age for entry in store.entries()]
    assert all(age is not None and 0 <= age < 3_600 for age in ages)


def test_a_service_that_fails_halfway_is_noted(
    client: Client, stream: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("q", sql=sql(stream, 1))
    store.recharge(client, max_bytes=3_000)
    held = rows(store, "q")
    real, calls = client.connection.call, 0

    def fails(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise InvalidRequest("the line is cut")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(client.connection, "call", fails)
    with pytest.raises(InvalidRequest, match="cut"):
        store.recharge(client)
    came = store.recharges()[0]["came"]
    assert came > 0 and len(rows(store, "q")) == len(held) + came, "what came before that is there, and noted"


def test_a_call_that_is_cut_off_ends_the_time(
    client: Client, stream: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("q", sql=sql(stream, 1))
    store.recharge(client, max_bytes=3_000)

    def slow(*_: object) -> object:
        raise DeadlineExceeded("the line is slow")

    monkeypatch.setattr(client.connection, "call", slow)
    with pytest.raises(DeadlineExceeded):
        store.recharge(client)
    store.add("new", sql=sql(stream, 2), priority=1)
    for names in (["q"], ["new", "q"]):
        told = store.recharge(client, max_seconds=600, only=names)
        assert (told.why, told.left_out, told.received) == ("time", names, 0)
    assert store.recharges()[0]["why"] == "time"


def test_an_id_that_means_nothing_any_more_is_looked_for_by_its_key(
    client: Client, stream: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("q", sql=sql(stream, 1))
    store.recharge(client)
    ((token,),) = store._file.run("SELECT token FROM queries")
    restored = token[:2] + bytes(byte ^ 1 for byte in token[2:6]) + token[6:]  # of another incarnation
    store._file.run("UPDATE queries SET token = ?", restored)
    assert store.want(store.entry("q")) == sync_pb2.Want(token=restored)
    (copy,) = store.recharge(client).copies
    assert copy.complete and copy.came == 5_999 and copy.error is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("one = 3", "a table for each query"),
        ('[one]\nsql = "x"\nkey = "k"', "one of them"),
        ("[one]", "one of them"),
        ('[one]\nsgl = "x"', r"\[one\]: 'sgl' is not known"),
        ("[one]\nsql = 3", r"sql is 3; it must be a text"),
        ('[one]\nsql = "x"\npriority = true', "priority is True; it must be a number"),
        ('[one]\nsql = "x"\npriority = nan', "priority is nan"),
        ('[one]\nsql = "x"\nfresh = -1', "0 or more"),
        ('[one]\nsql = "x"\nfresh = nan', "0 or more"),
        ('[one]\nsql = "x"\nfresh = "soon"', r"fresh is 'soon', no span of time"),
        ('[one]\nsql = "x"\nfresh = [1]', r"fresh is \[1\]; it must be seconds, or a text"),
        ('[one]\nsql = "x"\nshare = 1.5', r"share is 1.5; it is a part of the budget, from 0 to 1"),
        ('[one]\nsql = "x"\nshare = "half"', "share is half; it must be a number"),
        ('[one]\nsql = "x"\norder = "best"', "order is 'best'; it is newest or oldest"),
        (f'[one]\nsql = "x"\nwindow = "{"x" * 1_001}"', "window has 1,001 characters"),
        ('[one]\nsql = "x"\n[ONE]\nsql = "x"', "differ in case only"),
        ('[one]\nsql = "x"\n[one]\nsql = "x"', "not valid TOML.*line 3"),
        ('["a b"]\nsql = "x"', "not a valid name of a copy"),
        ("[one", "not valid TOML"),
        ("x = " + "[" * 100_000, "not valid TOML"),
        ("[one]\npriority = " + "1" * 5_000, "not valid TOML.*5000 digits"),
        ("[one]\nkey = [0x" + "f" * 5_000 + "]", "more digits than"),
    ],
)
def test_bad_profiles_are_refused(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=what) as refused:
        read_profile(path)
    assert str(path) in refused.value.message


def test_good_profiles_are_read(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(
        '[one]\nsql = "SELECT 1"\npriority = 3\nfresh = "15min"\nshare = 0.5\norder = "oldest"\n'
        '[two]\nid = "q-0-1"\nwindow = "BEGIN (START)"\n[three]\nkey = "k"\n'
    )
    entries = read_profile(path)
    assert entries == [
        Entry("one", "SELECT 1", priority=3, fresh=900.0, share=0.5, order="oldest"),
        Entry("two", query_id="q-0-1", window="BEGIN (START)"),
        Entry("three", key="k"),
    ]
    store.adopt(entries)
    assert store.entries() == entries


def test_values_of_other_types_are_refused(store: Store) -> None:
    for values, what in (
        ({"sql": 5}, "sql is 5; it must be a text"),
        ({"key": "k", "priority": "high"}, "q: priority is high; it must be a number"),
        ({"key": "k", "share": True}, "q: share is True; it must be a number"),
        ({"key": "k", "window": None}, "window is None; it must be a text"),
    ):
        with pytest.raises(InvalidRequest, match=what):
            store.add("q", **values)  # type: ignore[arg-type]
    assert not store.entries()


def test_quantities() -> None:
    assert [read_bytes(text) for text in ("7", "200kB", " 1.5 MiB ", "2GB")] == [7, 200_000, 1_572_864, 2 * 10**9]
    assert [read_seconds(text) for text in ("7", "250ms", "1.5h", "2 D")] == [7, 0.25, 5_400, 172_800]
    for text in ("", "kB", "-5kB", "1e9", "12 parsecs", "1.kB", "٣kB", "9" * 400, "1 k B"):
        with pytest.raises(ValueError, match="the units are"):
            read_bytes(text)

"""Many queries unregistered at once: the same as one after another, and all or none."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import Conflict, FailedPrecondition, InvalidInput, NotFound
from psoup.events.commands import UnregisterMany
from psoup.local import LocalPSoup
from psoup_testing.histories.histories import TINY
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64, columnar_queries=8, delta_queries=16, kept_removals=64, shape=TINY)
BLOCK = "SELECT x FROM s WHERE x = ? AND n <> ?"
WORDS = "SELECT x FROM s WHERE n LIKE ? AND x > ?"


def make(verify: Any = "all") -> LocalPSoup:
    """Two streams with queries of each kind, ten tuples, and two tenants."""
    soup = LocalPSoup(CONFIG, verify=verify)
    soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
    soup.execute("CREATE STREAM t (x BIGINT)")
    return soup


def fill(soup: LocalPSoup, source: random.Random, rounds: int = 3) -> list[int]:
    """Queries by columns, as records, alone, with shared clauses, and some that look for texts; with tags or not."""
    ids: list[int] = []
    for _ in range(rounds):
        count = source.choice((5, 12, 20))
        values: dict[str, Any] = {"x": [source.randrange(9) for _ in range(count)]}
        values["n"] = [f"w{source.randrange(6)}" for _ in range(count)]
        tags: dict[str, Any] = {}
        if source.random() < 0.7:
            values["k"] = [f"{soup.admission.next_query}/{row}" for row in range(count)]
            values["user"] = [f"u{row % 3}" for row in range(count)]
            tags = {"key": "k", "labels": ("user",)}
        ids += soup.register_many(BLOCK, pa.table(values), **tags)
        ids += soup.register_many(WORDS, [[f"%{source.choice('abcdefgh')}{row}%", row] for row in range(count)])
        ids += [soup.register(f"SELECT x FROM {source.choice('st')} WHERE x > {source.randrange(4)}") for _ in range(9)]
        key = f"alone {soup.admission.next_query}"
        ids.append(soup.register("SELECT x FROM s WHERE x < 3", key=key, labels={"user": "u1"}))
        soup.push("s", pa.table({"x": [source.randrange(9) for _ in range(30)], "n": ["a1 b2 w3"] * 30}))
        soup.push("t", pa.table({"x": [1, 2, 3]}))
        if source.random() < 0.4:
            soup.maintain()
    return ids


def shown(soup: LocalPSoup) -> Any:
    """What stands, what it answers, and what admission has promised."""
    answers = {
        i: again(soup.invoke, i, window="BEGIN (START)").to_table().column("x").to_pylist() for i in soup.queries()
    }
    labels = [soup.queries(labels={"user": user}) for user in ("u0", "u1", "u2")]
    state: Any = soup.admission.state()
    tags = [(first, call.queries, call.names) for first, call in state["tags"]]
    return answers, labels, tags, {name: state[name] for name in ("reserved", "queries", "requests", "streams")}


@pytest.mark.parametrize("number", range(scaled(4)))
def test_at_once_is_the_same_as_one_after_another(number: int) -> None:
    source, same = random.Random(number), random.Random(number)
    many, loop = make(), make("cheap")
    for soup, own in ((many, source), (loop, same)):
        fill(soup, own, 2)
    for _ in range(2):
        stands = many.queries()
        going = sorted(source.sample(stands, source.choice((1, 2, len(stands) // 2, max(len(stands) - 3, 1)))))
        assert many.unregister_many(source.sample(going * 2, 2 * len(going))) == len(going)
        for query_id in going:
            loop.unregister(query_id)
        assert shown(many) == shown(loop)
        if source.random() < 0.5:
            many.maintain(), loop.maintain()
        later = random.Random(source.random())
        state = later.getstate()
        assert fill(many, later, 1)
        later.setstate(state)
        fill(loop, later, 1)
        assert shown(many) == shown(loop)
    assert many.unregister_many(many.queries()) > 0
    many.maintain()
    fresh = make().engine.bill()
    bill = many.engine.bill()
    for name in ("queries", "clauses", "query_blocks_bytes", "query_tags_bytes", "query_stem.main", "query_stem.delta"):
        assert bill[name] == fresh.get(name, 0), name
    assert many.admission.query_bytes == 0
    many.check()


def test_by_labels_and_by_how_keys_begin() -> None:
    soup = make()
    rows = {"x": list(range(20)), "n": ["a"] * 20, "k": [f"site-{row % 2}/{row}" for row in range(20)]}
    rows |= {"user": [None if row == 4 else f"u{row % 4}" for row in range(20)], "kind": ["feed", "alert"] * 10}
    block = soup.register_many(BLOCK, pa.table(rows), key="k", labels=("user", "kind"))
    three = {name: column[:3] for name, column in rows.items()} | {"k": ["site-", "other", "Site-1"]}
    few = soup.register_many(BLOCK, pa.table(three), key="k", labels=("user", "kind"))
    alone = soup.register("SELECT x FROM s", key="site-1/alone", labels={"user": "u1"})
    bare = soup.register("SELECT x FROM t")
    assert soup.unregister_many(labels={"user": "u9"}) == soup.unregister_many(key_prefix="site-3") == 0
    assert soup.unregister_many(labels={"user": "u1", "kind": "alert"}) == 6
    assert soup.queries(labels={"user": "u1"}) == [alone]
    assert soup.unregister_many(key_prefix="site-1/") == 6
    with pytest.raises(NotFound):
        soup.query("site-1/alone")
    assert soup.queries() == [*block[::2], few[0], few[2], bare]
    assert soup.register("SELECT x FROM s", key="site-1/alone") == bare + 1
    assert soup.unregister_many(labels={"user": "u0"}) == 5
    assert soup.queries(labels={"user": "u0"}) == []
    assert soup.unregister_many([]) == 0


def test_labels_and_keys_that_are_not_published_yet() -> None:
    """Admission runs ahead of the writer: what is on its way there is meant, too, and what is gone by then is not."""
    soup = make()
    first = soup.register("SELECT x FROM s", key="a/1", labels={"user": "u"})
    behind = soup.engine.snapshot()
    soup.admission.share_published(lambda: behind)
    table = pa.table({"x": range(9), "n": ["a"] * 9, "k": [f"a/{row}b" for row in range(9)], "user": ["u"] * 8 + ["v"]})
    block = soup.register_many(BLOCK, table, key="k", labels=("user",))
    last = soup.register("SELECT x FROM s", key="a/2", labels={"user": "u"})
    soup.unregister(block[0])
    assert soup.unregister_many(labels={"user": "u"}) == 9
    assert soup.unregister_many(key_prefix="a/") == 1
    assert soup.queries() == []
    assert first < block[0] < last


def test_all_or_none() -> None:
    soup = make()
    ids = fill(soup, random.Random(1), 1)
    soup.unregister(ids[3])
    before = shown(soup)
    for wrong in ([*ids[:3], ids[3]], [1 << 40], [-1, ids[0]], [0]):
        with pytest.raises(NotFound, match=r"cannot be found: .*nothing was unregistered"):
            soup.unregister_many(wrong)
    with pytest.raises(NotFound, match="of 2 queries, 2 cannot be found"):
        soup.submit(UnregisterMany(np.array(ids[:2]), tenant="other"))
    with pytest.raises(InvalidInput, match="say which queries"):
        soup.submit(UnregisterMany())
    with pytest.raises(InvalidInput, match="say which queries"):
        soup.unregister_many(ids[:1], key_prefix="a")
    with pytest.raises(InvalidInput, match="prefix of keys has 257 bytes"):
        soup.unregister_many(key_prefix="k" * 257)
    with pytest.raises(InvalidInput, match="label 'user' has a NUL"):
        soup.unregister_many(labels={"user": "a\0"})
    assert soup.submit(UnregisterMany(labels=(("user", "u1"),), tenant="other")).count == 0  # type: ignore[attr-defined]
    assert soup.submit(UnregisterMany(prefix="alone", tenant="other")).count == 0  # type: ignore[attr-defined]
    assert shown(soup) == before


def test_a_retry_gets_the_answer_of_the_first_call() -> None:
    soup = make("cheap")  # hundreds of events, whose structures other tests check
    ids = fill(soup, random.Random(2), 1)
    assert soup.unregister_many(ids[:4], request_id="once") == 4
    sequence = soup.admission.sequence
    assert soup.unregister_many(ids[3::-1], request_id="once") == 4
    assert soup.admission.sequence == sequence
    with pytest.raises(Conflict, match="request ID 'once' was used"):
        soup.unregister_many(ids[:5], request_id="once")
    for number in range(CONFIG.kept_removals):
        soup.unregister_many([soup.register("SELECT x FROM t")], request_id=f"later {number}")
    with pytest.raises(NotFound):
        soup.unregister_many(ids[:4], request_id="once")


def test_a_stream_is_dropped_with_its_queries() -> None:
    soup = make()
    ids = fill(soup, random.Random(3))
    on_s, on_t = soup.queries("s"), soup.queries("t")
    with pytest.raises(FailedPrecondition, match=rf"used by {len(on_s)} queries .* drop the stream with CASCADE"):
        soup.drop_stream("s")
    assert soup.drop_stream("s", cascade=True) == len(on_s)
    assert soup.queries() == on_t and sorted([*on_s, *on_t]) == ids
    with pytest.raises(NotFound):
        soup.invoke(on_s[0])
    assert soup.queries(labels={"user": "u1"}) == []
    soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
    assert soup.drop_stream("s", cascade=True) == 0
    assert soup.drop_stream("t", cascade=True) == len(on_t)
    assert soup.admission.query_bytes == 0
    soup.check()

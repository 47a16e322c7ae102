"""Topics of clients that watch: how often those are asked for that only asking tells about, and what is left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from psoup.answer.copies.watched_clauses import clause_of
from psoup.local import LocalPSoup
from psoup.plan.amounts import Amount
from psoup_proto.v1 import sync_pb2
from psoup_service.watching.pages import Target
from psoup_service.watching.topics import Topics
from psoup_service.watching.watcher import Watcher, WatchForm

FORM = WatchForm("t", sync_pb2.ENCODING_UNSPECIFIED, sync_pb2.COMPRESSION_UNSPECIFIED, 1_000, 15)


def watcher() -> Watcher:
    made = Watcher([sync_pb2.Want(), sync_pb2.Want()], FORM, lambda _: None)
    made.take()
    return made


def snapshot(sequence: int) -> Any:
    return SimpleNamespace(sequence=sequence)


def asked(topics: Topics, client: Watcher, now: float, sequence: int) -> list[int]:
    """The places that are marked at a time of the loop, as of an event."""
    topics.ask(now, snapshot(sequence))
    return [*client.take().places]


def test_a_topic_is_asked_once_a_second_if_something_has_happened() -> None:
    topics, client = Topics(), watcher()
    topics.add(client, 0, Target(7, (1,), None, False, b""), snapshot(5))
    assert asked(topics, client, 10.0, 5) == [0]
    assert asked(topics, client, 10.9, 6) == []
    assert asked(topics, client, 11.0, 6) == [0]
    assert asked(topics, client, 12.0, 6) == [], "no event since"
    topics.add(client, 1, Target(8, (1,), None, True, b""), snapshot(6))
    assert asked(topics, client, 13.0, 6) == asked(topics, client, 14.0, 6) == [1], "NOW goes on"


def test_a_costly_topic_is_asked_less_often() -> None:
    topics, client = Topics(), watcher()
    topics.add(client, 0, Target(7, (1,), None, True, b""), snapshot(5))
    topics.asked_for(client, 0, 0.5, 9.0)
    assert asked(topics, client, 10.0, 5) == [0]
    topics.asked_for(client, 0, 0.5, 10.5)
    assert asked(topics, client, 20.4, 6) == []
    assert asked(topics, client, 20.5, 6) == [0]


def test_one_costly_evaluation_among_cheap_ones_delays_no_change() -> None:
    topics, client = Topics(), watcher()
    topics.add(client, 0, Target(7, (1,), None, True, b""), snapshot(5))
    for now, cost in [(10.0, 0.9), (11.0, 0.001), (12.0, 0.9), (13.0, 0.0)]:
        assert asked(topics, client, now, 5) == [0]
        topics.asked_for(client, 0, cost, now)


def test_nothing_is_left_of_those_who_have_left() -> None:
    topics, first, second = Topics(), watcher(), watcher()
    target = Target(7, (1,), None, True, b"")
    for client in (first, second):
        topics.add(client, 0, target, snapshot(5))
    assert len(topics) == 1, "they watch the same"
    topics.drop(first, 0)
    topics.drop(first, 1)
    assert asked(topics, first, 10.0, 5) == [] and asked(topics, second, 12.0, 6) == [0]
    topics.drop(second, 0)
    assert len(topics) == 0 and asked(topics, second, 14.0, 7) == []


def test_a_topic_watches_the_clause_that_its_query_has_after_an_alteration() -> None:
    """The topic is marked at the alteration. An idle query is asked at most once a second after new tuples."""
    soup, topics, client = LocalPSoup(), Topics(), watcher()
    soup.execute("CREATE STREAM s (a BIGINT)")
    query = soup.register("SELECT a FROM s WHERE a = 7")
    first = soup.engine.snapshot()
    clause = clause_of(first, first.query(query, "default"), None)
    topics.add(client, 0, Target(query, (1,), clause, False, b""), first)

    def marked(*values: int) -> list[int]:
        """The places that are marked after a push."""
        if values:
            soup.push("s", pa.table({"a": values}))
        topics.look(soup.engine.snapshot())
        return [*client.take().places]

    assert (marked(1), marked(7), marked()) == ([], [0], [])
    soup.alter_queries([query], amount=Amount.NONE)
    assert (marked(), marked(7), asked(topics, client, 10.0, 9)) == ([0], [], [0])
    assert (marked(1), asked(topics, client, 10.9, 10), asked(topics, client, 11.0, 10)) == ([], [], [0])
    soup.alter_queries([query], amount=Amount.PARTIAL)
    assert (marked(), marked(1), marked(7), marked()) == ([0], [], [0], [])
    topics.drop(client, 0)
    assert len(topics) == 0

"""Followers that name queries with amount NONE: their events, positions, groups and refusals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from psoup_client import Client, Following, InvalidRequest
from psoup_service.following import followers
from psoup_service.groups import groups
from psoup_testing.services.threaded_service import serving


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(followers, "LATE_S", 0.02)
    monkeypatch.setattr(groups, "LATE_S", 0.02)
    with serving() as running, Client(running.address) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        for key, amount in (("usual", "partial"), ("rare", "none"), ("other", "none")):
            client.register("SELECT n FROM s WHERE n % 2 = 0", key=key, labels={"user": "u"}, amount=amount)
        yield client


def told(following: Following, count: int) -> list[tuple[int, list[str | None]]]:
    """The next tuples with the keys of their queries, `count` tuples in all."""
    matches = list[tuple[int, list[str | None]]]()
    while len(matches) < count:
        matches += [(match.tuple["n"], match.keys) for match in next(following)]
    assert len(matches) == count
    return matches


def push(client: Client, *values: int) -> None:
    client.push("s", [{"n": value} for value in values])


def test_a_follower_is_told_the_queries_that_it_names_and_goes_on_after_its_position(client: Client) -> None:
    with client.follow("s", keys=["usual", "rare"]) as following:
        push(client, 1, 2)
        assert told(following, 1) == [(2, ["usual", "rare"])]
        push(client, 4)
        assert told(following, 1) == [(4, ["usual", "rare"])]
        position = following.position
        assert client.query(key="usual").alter(amount="none") and client.query(key="rare").alter(amount="partial")
        push(client, 5, 6)
        assert told(following, 1) == [(6, ["usual", "rare"])]
    with client.follow("s", position, keys=["usual"], labels={"user": "u"}) as following:
        assert told(following, 1) == [(6, ["usual", "rare"])]
        client.query(key="usual").alter(active=False)
        push(client, 8)
        assert told(following, 1) == [(8, ["rare"])]
    with pytest.raises(InvalidRequest, match="query 'usual' is inactive, and followers are not told of its matches"):
        next(client.follow("s", keys=["usual"]))


def test_a_group_is_told_the_queries_that_it_names(client: Client) -> None:
    push(client, 1, 2)
    with client.follow("s", keys=["rare"], group="mailer", after="start") as worker:
        for value in (2, 4, 6):
            batch = next(worker)
            assert [(match.tuple["n"], match.keys) for match in batch] == [(value, ["rare"])]
            push(client, value + 1, value + 2)

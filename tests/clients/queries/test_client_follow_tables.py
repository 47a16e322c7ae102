"""Followers of a table through a real service: versions come, stay and leave, in the SDK, in groups and as events."""

from __future__ import annotations

from uuid import uuid4

from psoup_client import Client, GroupFollowing, Match
from psoup_proto.v1 import follow_pb2
from psoup_service.web.follow_events import event_of


def make_table(client: Client) -> str:
    name = f"ads_{uuid4().hex[:8]}"
    client.execute(f"CREATE TABLE {name} (id BIGINT, price DOUBLE, PRIMARY KEY (id))")
    return name


def told(matches: list[Match]) -> list[tuple[int, list[str], list[str], list[str]]]:
    """The ID of each row with the keys of the queries that came, stay and left."""
    keys = [dict(zip(match.query_ids, match.keys, strict=True)) for match in matches]
    return [
        (match.tuple["id"], *([str(names[query]) for query in each] for each in (match.came, match.stays, match.left)))
        for match, names in zip(matches, keys, strict=True)
    ]


def test_a_version_tells_what_came_stays_and_left(client: Client) -> None:
    table = make_table(client)
    cheap = client.register(f"SELECT id FROM {table} WHERE price < 50", key=f"{table}-cheap")
    client.register(f"SELECT id FROM {table}", key=f"{table}-all")
    with client.follow(table) as following:
        client.push(table, [{"id": 1, "price": 10.0}, {"id": 2, "price": 90.0}])
        client.push(table, [{"id": 1, "price": 99.0}, {"id": 2, "price": 5.0}])
        batches = [next(following)]
        while batches[-1].next_id < 4:
            batches.append(next(following))
        a, c = f"{table}-all", f"{table}-cheap"
        assert told([match for batch in batches for match in batch]) == [
            (1, [c, a], [], []), (2, [a], [], []), (1, [], [a], [c]), (2, [c], [a], []),
        ]  # fmt: skip
        assert batches[0].matches.column_names == ["tuple_id", "query_id", "change"]
        assert batches[0].tuples.column_names == ["_id", "_time", "_deleted", "id", "price"]
        place = following.position
    client.push(table, [{"id": 3, "price": 1.0}])
    with client.follow(table, after=place, queries=[cheap]) as again:
        (match,) = next(again)
        assert (match.tuple["id"], match.came, match.tuple["_deleted"]) == (3, [cheap.id], False)


def test_a_group_of_a_table_tells_changes(client: Client) -> None:
    table = make_table(client)
    client.register(f"SELECT id FROM {table} WHERE price < 50", key=f"{table}-cheap", labels={"user": "u1"})
    client.push(table, [{"id": 1, "price": 10.0}])
    client.push(table, [{"id": 1, "price": 11.0}])
    client.push(table, [{"id": 1, "price": 60.0}])
    with client.follow(table, after="start", group="mailer", old=True) as worker:
        assert isinstance(worker, GroupFollowing)
        changes = [change for match in next(worker) for change in match.changes]
    assert changes == ["came", "stays", "left"]


def test_an_event_of_a_table_names_the_change(client: Client) -> None:
    table = make_table(client)
    query = client.register(f"SELECT id FROM {table} WHERE price < 50")
    client.push(table, [{"id": 1, "price": 10.0}])
    with client.follow(table) as following:
        connection = following._session.connection
    request = follow_pb2.FollowRequest(stream=table, after="start", old=True)
    call = connection.open(connection.follow.Follow, request, 30.0)
    replies = connection.replies(call)
    reply = next(reply for reply in replies if reply.matches_ipc)
    call.cancel()
    event = event_of(reply)
    assert b'"_deleted":false' in event and b'"query_id":"' + query.id.encode() in event
    assert b'"change":"came"' in event

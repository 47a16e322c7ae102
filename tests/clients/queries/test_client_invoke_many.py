"""Many answers at once: in order, each with its outcome, whatever their size; in the SDK and as a command."""

import inspect
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from psoup_cli.main import main
from psoup_client import Client, InvalidRequest, NotFound, PSoupError, Query
from psoup_proto.v1 import queries_pb2
from psoup_testing.services.threaded_service import Serving

MakeStream = Callable[[str], str]
ROWS = 60_000


@pytest.fixture
def queries(client: Client, make_stream: MakeStream) -> list[Query]:
    """Queries of 0, 7, 14 … rows."""
    name = make_stream("(a BIGINT, b TEXT)")
    standing = client.register_many(f"SELECT a, b FROM {name} WHERE a < ?", [(7 * count,) for count in range(700)])
    client.push(name, {"a": list(range(ROWS)), "b": ["text"] * ROWS})
    standing[0].invoke()  # the command is another client: now it finds the push applied
    return standing


@pytest.mark.long
def test_answers_come_in_order_over_several_calls(client: Client, queries: list[Query]) -> None:
    order = [queries[(31 * place) % 700] for place in range(1_500)]
    answers = list(client.invoke_many(query.id if place % 2 else query for place, query in enumerate(order)))
    assert len(answers) == 1_500
    for place in (0, 1, 511, 512, 513, 1_498, 1_499):
        answer = answers[place]
        assert not isinstance(answer, PSoupError)
        assert answer.rows() == order[place].invoke().rows()
    counts = [0 if isinstance(answer, PSoupError) else len(answer) for answer in answers]
    assert counts == [7 * ((31 * place) % 700) for place in range(1_500)]


def test_a_large_answer_among_small_ones(client: Client, queries: list[Query]) -> None:
    all_of_it = client.register(queries[0].sql.replace("< 0", "< 9999999"))
    sizes = [len(one) for one in client.invoke_many([queries[1], all_of_it, queries[2]])]  # type: ignore[arg-type]
    assert sizes == [7, ROWS, 14]


def test_queries_by_keys_and_by_labels(client: Client, queries: list[Query]) -> None:
    name = queries[0].info.stream
    sql, rows = f"SELECT a, b FROM {name} WHERE a < $a", [{"a": n, "id": f"{name}{n}", "user": "u3"} for n in (3, 9, 4)]
    keyed = client.register_many(sql, [*rows, {"a": ROWS, "id": f"{name}all", "user": "u4"}], key="id", labels=["user"])
    keys = [f"{name}{n}" for n in (4, "all", 3, 4, "none")]
    *answers, missing = client.invoke_many(keys=keys, return_errors=True)
    assert [(one.query_id, one.key, len(one)) for one in answers] == [  # type: ignore[union-attr, arg-type]
        (keyed[place].id, key, count) for place, key, count in zip((2, 3, 0, 2), keys, (4, ROWS, 3, 4), strict=False)
    ]
    assert isinstance(missing, NotFound) and missing.facts["key"] == keys[4]
    labelled = list(client.invoke_many(labels={"user": "u3"}))
    assert [one.key for one in labelled] == [row["id"] for row in rows]  # type: ignore[union-attr]
    assert [len(one) for one in client.invoke_many([queries[1], keyed[0]])] == [7, 3]  # type: ignore[arg-type]
    alone = client.invoke(key=keys[0])
    assert (alone.query_id, alone.key, len(alone)) == (keyed[2].id, keys[0], 4)
    large = client.invoke(keyed[3].id)
    assert (large.query_id, large.key, len(large)) == (keyed[3].id, keys[1], ROWS)
    assert client.invoke(queries[1]).key == ""
    lazy = Query(client, "", key=keys[0])
    assert len(lazy.invoke()) == 4 and lazy == keyed[2] and lazy.key == keys[0]
    assert Query(client, "", key=keys[0]).explain().details["query_id"] == keyed[2].id
    with pytest.raises(NotFound, match="no query with key"):
        client.invoke(key=keys[4])


def test_who_is_asked_is_said_once(client: Client, queries: list[Query]) -> None:
    for call in (client.invoke_many(), client.invoke_many([queries[0]], keys=["k"])):
        with pytest.raises(ValueError, match="give queries, keys or labels"):
            next(call)
    with pytest.raises(TypeError, match="keys is 'k': give a list of keys"):
        next(client.invoke_many(keys="k"))
    with pytest.raises(ValueError, match="give the query's ID, or its key"):
        client.invoke()
    many = queries_pb2.InvokeManyRequest(query_ids=[queries[0].id], keys=["k"])
    one = queries_pb2.InvokeRequest(query_id=queries[0].id, key="k")
    for method, request in ((client.connection.queries.InvokeMany, many), (client.connection.queries.Invoke, one)):
        with pytest.raises(InvalidRequest, match="not both"):
            client.connection.call(method, request)


def test_what_is_wrong_with_a_query_takes_its_place(client: Client, queries: list[Query]) -> None:
    gone = client.register(queries[0].sql.replace("< 0", "< 1"))
    gone.unregister()
    wanted = [queries[1], gone, "nonsense", queries[2]]
    found = list(client.invoke_many(wanted, return_errors=True))
    assert [type(one).__name__ for one in found] == ["Answer", "NotFound", "InvalidRequest", "Answer"]
    assert isinstance(found[1], NotFound)
    assert found[1].facts["query_id"] == gone.id
    answers = client.invoke_many(wanted)
    assert len(next(answers)) == 7  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="there is no query"):
        next(answers)
    assert list(client.invoke_many([])) == []
    with pytest.raises(InvalidRequest, match="half of a surrogate pair"):
        list(client.invoke_many(["\udcff"]))


def test_what_was_pushed_is_in_and_half_may_be_left(
    client: Client, queries: list[Query], make_stream: MakeStream
) -> None:
    name = make_stream("(n BIGINT)")
    last = client.register(f"SELECT n FROM {name} BEGIN (NOW - 1 ROWS)")
    for number in range(20):
        client.push(name, [{"n": number}])
        (answer,) = client.invoke_many([last])
        assert answer.rows() == [(number,)]  # type: ignore[union-attr]
    some = list(itertools.islice(client.invoke_many([*queries] * 5), 3))
    assert len(some) == 3


def test_a_client_that_remembers_more_than_the_service(client: Client, queries: list[Query]) -> None:
    client.wait_for(client.last_sequence)
    client.last_sequence = 10**12  # of a service that kept its data in memory, and is not there any more
    assert len(next(client.invoke_many([queries[3]]))) == 21  # type: ignore[arg-type]


def test_the_command(running: Serving, queries: list[Query], capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def psoup(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--address", running.address])
        return int(ended.value.code or 0), *capfd.readouterr()

    ids = tmp_path / "ids.txt"
    ids.write_text(f"{queries[1].id}\n\n  {queries[0].id}\n")
    code, out, err = psoup("invoke", "--file", str(ids))
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["query_id"], len(line["rows"]), line["final"]) for line in lines] == [
        (queries[1].id, 7, False),
        (queries[0].id, 0, False),
    ]
    assert "7 rows of 2 queries." in err
    code, out, err = psoup("invoke", queries[1].id, "nonsense", queries[2].id, "--format", "table", "--rows", "2")
    assert code == 4
    assert out.count("text") == 4
    assert f"{queries[2].id}: 14 rows." in out
    assert "1 query without an answer" in err
    assert "'nonsense' is not a query ID" in err
    assert "if it is a key, say so (key=, --key)" in err
    for wrong in (["--file", str(tmp_path / "none")], ["a", "--file", str(ids)], [], ["a", "b", "--format", "csv"]):
        assert psoup("invoke", *wrong)[0] == 2, wrong


def test_text_that_utf8_cannot_say_is_refused_by_name(client: Client, queries: list[Query]) -> None:
    for attempt in (
        lambda: client.register("SELECT '\udcff' FROM s"),
        lambda: client.create_stream("CREATE STREAM \udcff (a BIGINT)"),
        lambda: client.describe("\ud800"),
        lambda: queries[0].invoke(window="BEGIN \udcff"),
        lambda: client.register_many(["SELECT '\udcff' FROM s"]),
    ):
        with pytest.raises(InvalidRequest, match="half of a surrogate pair") as caught:
            attempt()
        assert caught.value.reason == "NOT_UTF8"


def test_every_call_of_a_client_refuses_such_text() -> None:
    """A group of calls that was not made to refuse it shows here."""
    groups = [group for group in Client.__mro__ if group.__module__.startswith("psoup_client.calls")]
    assert len(groups) == 20
    for group in (*groups, Query):
        for name, method in vars(group).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                assert hasattr(method, "__wrapped__"), f"{group.__name__}.{name}"

"""The SDK against a real service: streams, pushes, queries, answers in every form."""

import datetime as dt
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from psoup_client import (
    AlreadyExists,
    Cancelled,
    Client,
    Conflict,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidData,
    InvalidRequest,
    InvalidStatement,
    NotFound,
    NotSupported,
    OutOfRange,
    PlanStep,
    QuerySource,
    Unavailable,
)
from psoup_testing.services.threaded_service import Serving

MakeStream = Callable[[str], str]


def test_streams(client: Client) -> None:
    sql = "CREATE STREAM things (a BIGINT NOT NULL, b DECIMAL(6,2), t TIMESTAMP) TIMESTAMP BY t LATENESS 5 SECONDS"
    info = client.create_stream(sql)
    assert [(c.name, c.type, c.nullable) for c in info.columns] == [
        ("a", "BIGINT", False),
        ("b", "DECIMAL(6,2)", True),
        ("t", "TIMESTAMP", True),
    ]
    assert (info.time_column, info.lateness) == ("t", dt.timedelta(seconds=5))
    assert info.schema.field("b").type == pa.decimal128(6, 2)
    assert client.describe("THINGS").stream_id == info.stream_id
    assert "things" in [stream.name for stream in client.streams()]
    with pytest.raises(AlreadyExists):
        client.create_stream(sql)
    assert client.create_stream(sql, if_not_exists=True).stream_id == info.stream_id
    with pytest.raises(AlreadyExists):
        client.create_stream("CREATE STREAM things (other TEXT)", if_not_exists=True)
    client.drop("things")
    with pytest.raises(NotFound):
        client.describe("things")
    with pytest.raises(NotFound):
        client.drop("things")


def test_a_stream_in_use_is_not_dropped(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT)")
    query = client.register(f"SELECT a FROM {name}")
    with pytest.raises(FailedPrecondition):
        client.drop(name)
    query.unregister()
    client.drop(name)


def test_leave_and_come_back(running: Serving, client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT, b TEXT)")
    client.push(name, [{"a": 1, "b": "old"}])
    with Client(running.address) as leaving:
        query_id = leaving.register(f"SELECT b FROM {name} WHERE a >= 1").id
    client.push(name, {"a": [0, 2], "b": ["no", "new"]})
    with Client(running.address) as back:
        query = back.query(query_id)
        assert query.invoke(wait_for=client.last_sequence).rows() == [("old",), ("new",)]
        assert query.window_kind == "landmark"


def test_answers_in_every_form(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT, b TEXT)")
    query = client.register(f"SELECT a, b FROM {name} ORDER BY a")
    client.push(name, [{"a": 2, "b": None}, {"a": 1, "b": "x"}])
    answer = query.invoke()
    assert len(answer) == 2
    assert list(answer) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert answer.rows() == [(1, "x"), (2, None)]
    assert answer.to_arrow().to_pydict() == {"a": [1, 2], "b": ["x", None]}
    assert answer.to_pandas()["a"].tolist() == [1, 2]
    assert answer.to_polars()["b"].to_list() == ["x", None]
    assert answer.columns == ("a", "b")
    assert "2 rows" in repr(answer)


def test_as_of_window_and_completeness(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(t TIMESTAMP NOT NULL, a BIGINT) TIMESTAMP BY t LATENESS 10 SECONDS")
    query = client.register(f"SELECT a FROM {name} BEGIN (NOW - 30)")
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    times = [start + dt.timedelta(seconds=10 * n) for n in range(10)]
    assert client.push(name, {"t": times, "a": list(range(10))}).watermark == times[8]
    late = client.push(name, {"t": [times[0]], "a": [99]}, refused="count")
    assert (late.accepted, late.late) == (0, 1)

    answer = query.invoke()
    assert answer.rows() == [(5,), (6,), (7,), (8,)]
    assert (answer.completeness.now, answer.completeness.pending) == (times[8], 1)
    assert not answer.completeness.final

    before = query.invoke(as_of=times[4])
    assert before.rows() == [(1,), (2,), (3,), (4,)]
    assert before.completeness.final
    wider = query.invoke(as_of="2024-01-01T00:00:40Z", window="BEGIN (START)")
    assert len(wider) == 5
    assert wider.completeness.late == 1
    assert (wider.completeness.late_in_window, wider.completeness.pending_in_window) == (1, 0)
    assert wider.completeness.sentence() == (
        "Final up to 2024-01-01 00:00:40Z: nothing can change it any more; 1 tuple of the stream came too late and was"
        " refused, in this window."
    )
    assert (answer.completeness.late_in_window, answer.completeness.ahead_in_window) == (0, 0)
    assert answer.completeness.sentence() == (
        "May still grow; 1 tuple of the stream still waits for the watermark;"
        " 1 tuple of the stream came too late and was refused, not in this window."
    )

    with pytest.raises(OutOfRange):
        query.invoke(as_of=times[9])
    assert client.heartbeat(name, times[9]) == times[9]
    assert len(query.invoke(as_of=times[9])) == 4


def test_a_large_answer_comes_whole_and_in_pieces(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT, b TEXT)")
    query = client.register(f"SELECT a, b FROM {name}")
    table = pa.table({"a": range(200_000), "b": [f"text {n}" for n in range(200_000)]})
    result = client.push(name, table)
    assert (result.accepted, result.batches) == (200_000, 4)
    assert query.invoke().to_arrow()["a"].to_pylist() == list(range(200_000))
    with query.stream() as answer:
        assert answer.schema.names == ["a", "b"]
        batches = list(answer)
        assert len(batches) > 1
        assert sum(batch.num_rows for batch in batches) == 200_000


def test_an_abandoned_answer_is_cancelled(running: Serving, client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT, b TEXT)")
    query = client.register(f"SELECT a, b FROM {name}")
    client.push(name, {"a": list(range(300_000)), "b": ["x" * 50] * 300_000})
    answer = query.stream()
    next(iter(answer))
    answer.close()
    with pytest.raises(Cancelled):
        answer.read_all()
    assert client.info().state == "serving"


def test_register_is_idempotent_by_request_id(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT)")
    first = client.register(f"SELECT a FROM {name}", request_id=f"{name}-1")
    assert client.register(f"SELECT a FROM {name}", request_id=f"{name}-1").id == first.id
    with pytest.raises(Conflict):
        client.register(f"SELECT a FROM {name} WHERE a > 1", request_id=f"{name}-1")
    assert client.register(f"SELECT a FROM {name}").id != first.id
    assert client.queries(name)[0].id == first.id


def test_unregister(client: Client, make_stream: MakeStream) -> None:
    query = client.register(f"SELECT a FROM {make_stream('(a BIGINT)')}")
    query.unregister()
    for ask in (query.invoke, query.unregister, query.explain, lambda: client.query(query.id)):
        with pytest.raises(NotFound):
            ask()
    with pytest.raises(InvalidRequest):
        client.query("nonsense")


def test_statements_that_are_wrong(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(price BIGINT)")
    with pytest.raises(InvalidStatement) as caught:
        client.register(f"SELECT price\nFROM {name}\nWHERE prise > 3")
    assert (caught.value.line, caught.value.column) == (3, 7)
    lines = caught.value.message.splitlines()
    excerpt = next(n for n, line in enumerate(lines) if line.strip() == "^")
    assert lines[excerpt - 1][lines[excerpt].index("^") :].startswith("prise")
    assert "price" in caught.value.message
    with pytest.raises(NotSupported):
        client.register(f"SELECT random() FROM {name}")
    with pytest.raises(InvalidStatement):
        client.create_stream("CREATE STREAM ((")


def test_matches_explain_info_and_waiting(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT)")
    low = client.register(f"SELECT _id, a FROM {name} WHERE a < 5")
    high = client.register(f"SELECT _id, a FROM {name} WHERE a > 1")
    result = client.push(name, [{"a": 0}, {"a": 3}, {"a": 9}])
    assert client.wait_for(result.sequence) >= result.sequence
    assert client.matches(name, 1) == [low.id, high.id]
    assert client.matches(name, 2) == [high.id]
    assert name in str(low.explain())
    explanation = low.explain()
    assert explanation.details
    window = "BEGIN (START) END (NOW)"
    assert explanation.plan == [
        PlanStep(0, "Project _id, a", "monotonic"),
        PlanStep(1, f"Source {name} {window}", "monotonic"),
    ]
    project, source = explanation.nodes
    assert (project.operator, project.inputs, project.update_pattern) == ("project", (1,), "monotonic")
    assert (source.operator, source.facts["stream"], source.facts["window"]) == ("source", name, window)
    assert (source.figures["tuples_in_window"], source.figures["matches_in_window"]) == (3, 2)
    assert low.streams == (name,)
    assert low.sources == (QuerySource(name, name, low.info.clause, window, "landmark"),)
    info = client.info()
    assert info.state == "serving"
    assert not info.durable
    with pytest.raises(OutOfRange):
        client.wait_for(result.sequence + 1_000_000)


def test_bad_rows_leave_the_stream_as_it_was(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT NOT NULL)")
    for bad in ([{"a": None}], [{"a": "x"}], [{"b": 1}], {"a": [1, 2.5]}):
        with pytest.raises(InvalidData):
            client.push(name, bad)
    assert client.push(name, []).batches == 0
    with pytest.raises(NotFound):
        client.push("nowhere", [{"a": 1}])
    result = client.push(name, [{"a": 1}])
    assert result.accepted == 1
    client.wait_for(result.sequence)
    assert client.describe(name).tuples == 1


def test_a_stream_made_anew_with_other_columns(running: Serving, client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT)")
    client.push(name, [{"a": 1}])
    with Client(running.address) as other:
        other.drop(name)
        other.create_stream(f"CREATE STREAM {name} (b TEXT)")
    assert client.push(name, [{"b": "x"}]).accepted == 1


def test_pushes_of_several_threads(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT)")
    problems: list[BaseException] = []

    def work(base: int) -> None:
        try:
            for n in range(20):
                client.push(name, [{"a": base + n}])
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(1_000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    query = client.register(f"SELECT a FROM {name}")
    assert sorted(row[0] for row in query.invoke().rows()) == [1_000 * t + n for t in range(4) for n in range(20)]


def test_deadlines_and_closed_clients(running: Serving) -> None:
    with pytest.raises(ValueError, match="timeout"):
        Client(running.address, timeout=0)
    client = Client(running.address)
    assert client.wait_ready(10).state == "serving"
    with pytest.raises((DeadlineExceeded, OutOfRange)):
        client.wait_for(client.info().sequence + 1, timeout=0.05)
    client.close()
    client.close()
    for ask in (client.info, client.streams, lambda: client.register("SELECT 1")):
        with pytest.raises(Cancelled, match="closed"):
            ask()


def test_nobody_there() -> None:
    with Client("127.0.0.1:1", timeout=5) as client:
        with pytest.raises(Unavailable, match="psoup serve"):
            client.info()
        with pytest.raises(Unavailable):
            client.wait_ready(0.2)
        with pytest.raises(Unavailable):
            client.create_stream("CREATE STREAM s (a BIGINT)")


def test_address_from_the_environment(running: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSOUP_ADDRESS", running.address)
    with Client() as client:
        assert client.address == running.address
        assert client.info().version


@pytest.mark.parametrize("value", [True, 1.5, "soon", None])
def test_what_is_no_time(client: Client, make_stream: MakeStream, value: Any) -> None:
    name = make_stream("(t TIMESTAMP NOT NULL) TIMESTAMP BY t")
    with pytest.raises((TypeError, ValueError)):
        client.heartbeat(name, value)

"""Stages from the SDK and the command line, on a real service."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, Conflict, FailedPrecondition, InvalidData, NotFound, Stage
from psoup_testing.services.threaded_service import Serving

Make = Callable[[str], str]


def test_a_block_commits_and_an_error_aborts(client: Client, make_stream: Make) -> None:
    name = make_stream("(x BIGINT)")
    query = client.register(f"SELECT x FROM {name}")
    with client.stage(name) as stage:
        stage.add({"x": [1, 2]})
        stage.add([{"x": 3}])
        assert len(query.invoke()) == 0
    assert stage.result is not None
    assert stage.result.accepted == 3
    assert [row["x"] for row in query.invoke()] == [1, 2, 3]
    with pytest.raises(InvalidData, match="'x'"), client.stage(name) as stage:
        stage.add([{"x": 4}]) and stage.add({"x": ["five"]})
    with pytest.raises(NotFound):
        stage.commit()
    assert len(query.invoke()) == 3


def test_a_job_that_runs_again_doubles_nothing(client: Client, make_stream: Make) -> None:
    name = make_stream("(x BIGINT)")
    for rows in ([1, 2, 3], [3, 2, 1]):  # the second run orders its rows otherwise
        with client.stage(name, producer="job", number=0) as stage:
            stage.add({"x": rows})
    assert stage.result is not None
    assert (stage.result.duplicates, stage.result.accepted) == (1, 3)
    with pytest.raises(FailedPrecondition, match="number 1 is expected"):
        client.stage(name, producer="job", number=2)
    with client.producer(name, name="plain", epoch=0) as producer:
        producer.push({"x": [1]})
    with pytest.raises(Conflict):
        client.stage(name, producer="plain", number=0)


def test_parts_from_other_clients(client: Client, make_stream: Make, running: Serving) -> None:
    name = make_stream("(x BIGINT)")
    stage = client.stage(name)
    parts: dict[int, list[str]] = {}
    for worker in (2, 0, 1):
        with Client(running.address) as other:
            joined = Stage.join(other, name, stage.id)
            joined.add({"x": [-1]}, part=f"{worker}-failed")
            parts[worker] = joined.add({"x": [worker, worker]}, part=f"{worker}-again")
    result = stage.commit([part for worker in sorted(parts) for part in parts[worker]])
    assert result.accepted == 6
    query = client.register(f"SELECT x FROM {name}")
    assert [row["x"] for row in query.invoke(wait_for=result.sequence)] == [0, 0, 1, 1, 2, 2]


def test_push_whole(tmp_path: Path, client: Client, make_stream: Make, running: Serving) -> None:
    name = make_stream("(x BIGINT)")
    file = tmp_path / "rows.csv"

    def push(*options: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, ["push", name, str(file), "--address", running.address, *options])
        return result.exit_code, result.stdout, result.stderr

    file.write_text("x\n" + "\n".join(map(str, range(70_000))) + "\nwrong\n", "utf-8")
    code, _, problem = push("--whole", "--id", "monday")
    assert code != 0
    assert "No row was taken." in problem
    assert client.describe(name).tuples == 0
    file.write_text("x\n1\n2\n", "utf-8")
    assert "2 rows taken in 1 batch" in push("--whole", "--id", "monday")[2]
    assert "2 rows had been taken before" in push("--whole", "--id", "monday")[2]
    last = json.loads(push("--whole", "--json")[1])
    assert last["accepted"] == 2
    assert "give --whole too" in push("--id", "monday")[2]
    query = client.register(f"SELECT x FROM {name}")
    assert [row["x"] for row in query.invoke(wait_for=last["sequence"])] == [1, 2, 1, 2]

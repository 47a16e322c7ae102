"""Bad input to the real service: it answers correctly, or names the fault, and goes on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from psoup_client import Client, InvalidRequest, ResourceExhausted
from psoup_service.process.settings import Settings
from psoup_testing.oracles.questions import again
from psoup_testing.services.threaded_service import Serving, serving


@pytest.fixture
def running() -> Iterator[Serving]:
    with serving() as service:
        yield service


@pytest.fixture
def client(running: Serving) -> Iterator[Client]:
    with Client(running.address, timeout=120) as connected:
        yield connected


def column(query: object) -> list[object]:
    return [row["x"] for row in again(query.invoke)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_equal_queries_are_evaluated_once(client: Client, running: Serving, count: int) -> None:
    client.create_stream("CREATE STREAM s (x BIGINT)")
    client.push("s", {"x": [1, 9]})
    found = client.register_many("SELECT x FROM s WHERE x > ?", [(5,)] * count, timeout=600)
    assert len({query.id for query in found}) == count
    assert len(running.service.host._engine.snapshot().clauses) == 1
    client.push("s", {"x": list(range(10)) * 1_000})
    for query in (found[0], found[count // 2], found[-1]):
        assert column(query) == [9] + [6, 7, 8, 9] * 1_000
    found[0].unregister()
    assert len(client.matches("s", 1)) == count - 1
    assert client.matches("s", 0) == []


@pytest.mark.long
def test_queries_that_match_everything(client: Client) -> None:
    client.create_stream("CREATE STREAM s (x BIGINT) RETENTION 50000 ROWS")
    random = np.random.default_rng(1)
    before, after = random.integers(0, 100, 40_000), random.integers(0, 100, 40_000)
    client.push("s", {"x": before})
    found = client.register_many("SELECT x FROM s WHERE x >= ?", [(-number,) for number in range(1_000)])
    for start in range(0, len(after), 4_000):
        client.push("s", {"x": after[start : start + 4_000]})
    kept = np.concatenate([before, after])[-50_000:].tolist()
    for query in (found[0], found[499], found[-1]):
        assert column(query) == kept
    assert client.matches("s", 79_999) == [query.id for query in found]


def test_a_template_with_wrong_parameters_says_which_and_of_which_type(client: Client) -> None:
    client.create_stream("CREATE STREAM s (sym TEXT, x BIGINT, at TIMESTAMP)")
    text = "SELECT x FROM s WHERE sym = ? AND x > ?"
    wrong = {
        r"the values of parameter 2 .* int \(row 1\), str \(row 3\)": [("a", 1), ("b", 2), ("c", "many")],
        "parameter 2 of query 2 is 'many', a text, but BIGINT": [("a", "1"), ("b", "many")],
        "parameter 2 in row 1 is .* out of the range": [("a", 2**70)],
        "row 2 has 1 value, those before it 2": [("a", 1), ("b",)],
        "query 1: 1 parameter is given.* takes 2": [("a",)],
    }
    for message, rows in wrong.items():
        with pytest.raises(InvalidRequest, match=message):
            client.register_many(text, rows)
    assert client.queries() == []
    with pytest.raises(InvalidRequest, match=r"parameter 1 .*'not a time'.* TIMESTAMP"):
        client.register("SELECT x FROM s WHERE at > ?", ["not a time"])
    assert column(client.register(text, ["a", 1])) == []


def test_a_budget_of_a_megabyte_for_tuples_is_kept_and_named() -> None:
    with serving(Settings(port=0, memory_mib=1)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        query = client.register("SELECT x FROM s WHERE x < 3")
        taken = 0

        def push() -> None:
            nonlocal taken
            while taken < 1_000:
                client.push("s", {"x": range(4_096)}, timeout=60)
                taken += 1

        with pytest.raises(ResourceExhausted, match="memory"):
            push()
        assert 0 < taken * 4_096 * 8 <= 1 << 20
        assert column(query) == [0, 1, 2] * taken


@pytest.mark.long
def test_a_budget_of_a_megabyte_for_results_changes_no_answer() -> None:
    with serving(Settings(port=0, results_mib=1)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        found = client.register_many("SELECT x FROM s WHERE x % ? = 0", [(k,) for k in range(1, 65)])
        values = np.arange(200_000)
        for start in range(0, len(values), 50_000):
            client.push("s", {"x": values[start : start + 50_000]})
        for k in (1, 7, 64):
            assert column(found[k - 1]) == values[values % k == 0].tolist()

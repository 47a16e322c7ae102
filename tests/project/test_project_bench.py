"""The benchmarks: the distributions of the workload, the arithmetic of the rows, and that answers are checked."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import arrival, report
from benchmarks.measure import Row, Sample, Target, machine
from benchmarks.peers import DuckDBScan, NumPyPerQuery, PolarsScan
from benchmarks.workload import batches, make_columns, make_queries

FIELDS = {"name", "value", "unit", "peer", "peer_value", "ratio", "target", "met"}


def sample(value: float) -> Sample:
    return Sample.of([value])


def test_queries_have_the_paper_s_distribution() -> None:
    intervals = [i for query in make_queries(2_000, 4) for i in query.intervals]
    lengths = np.array([i.high - i.low for i in intervals])
    assert lengths.min() == 0
    assert lengths.max() == 255
    assert abs(lengths.mean() - 127.5) < 3
    assert all(0 <= i.low <= i.high <= 255 for i in intervals)
    multiples = np.mean([i.low % 32 == 0 for i in intervals if i.high - i.low < 32])
    assert 0.2 < multiples < 0.26  # one in five, and one in 32 of the others
    assert all(len({i.attribute for i in query.intervals}) == 4 for query in make_queries(100, 4))


def test_the_workload_follows_from_its_seed() -> None:
    assert make_queries(8, 3) == make_queries(8, 3)
    assert np.array_equal(make_columns(64), make_columns(64))
    assert not np.array_equal(make_columns(64), make_columns(64, seed=3))


@pytest.mark.parametrize("factors", [1, 4, 8])
def test_peers_agree_with_numpy(factors: int) -> None:
    columns, queries = make_columns(4_096), make_queries(20, factors)
    bits = np.unpackbits(NumPyPerQuery(queries, np.uint8).arrive(columns), axis=1, bitorder="little").astype(bool)
    for peer in (DuckDBScan(columns, queries), PolarsScan(columns, queries)):
        for number, query in enumerate(queries):
            assert np.array_equal(bits[number], query.mask(columns))
            assert np.array_equal(peer.answer(number), columns[:, query.mask(columns)])
        peer.close()


def test_an_answer_that_differs_from_the_peer_s_ends_the_run() -> None:
    columns, queries = make_columns(4_096), make_queries(4, 2)
    engine = arrival.Loaded(queries, batches(columns, 4_096))
    engine.arrive()
    arrival.check(engine, NumPyPerQuery(queries), columns)
    with pytest.raises(AssertionError, match="the peer has"):
        arrival.check(engine, NumPyPerQuery(queries[::-1]), columns)


@pytest.mark.parametrize(
    ("unit", "target", "ours", "theirs", "ratio", "met"),
    [
        ("tuples/s", Target(at_least=25, value_at_least=100), 200, 4, 50, True),
        ("tuples/s", Target(at_least=25, value_at_least=1_000), 200, 4, 50, False),
        ("us", Target(at_least=10), 50, 400, 8, False),
        ("us", Target(at_most=2), 150, 100, 1.5, True),
        ("us", None, 50, 400, 8, None),
    ],
)
def test_ratio_and_target(
    unit: str, target: Target | None, ours: float, theirs: float, ratio: float, met: bool | None
) -> None:
    row = Row("row", sample(ours), unit, "peer", sample(theirs), target)
    assert row.ratio == ratio
    assert row.met is met


def test_the_file_holds_one_object_for_each_row(tmp_path: Path) -> None:
    rows = [Row(f"row{n}", sample(2), "us", "peer", sample(4), Target(at_least=1)) for n in range(3)]
    report.write_json(tmp_path / "deep" / "bench.json", rows, machine())
    objects = json.loads((tmp_path / "deep" / "bench.json").read_text())
    assert [item["name"] for item in objects] == ["row0", "row1", "row2"]
    assert all(set(item) >= FIELDS and item["machine"]["cores"] for item in objects)

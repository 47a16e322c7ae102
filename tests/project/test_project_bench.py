"""The benchmarks: the distributions of the workload, the arithmetic of the rows, and that answers are checked."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.answers import invocation
from benchmarks.arrival import arrival, growth, scale
from benchmarks.peers import Missing, join, made
from benchmarks.peers.arrive import engines
from benchmarks.peers.by_hand import BruteForce, NumPyPerQuery
from benchmarks.peers.scan import in_order, other_scans, quick_scans
from benchmarks.tool import report
from benchmarks.tool.machine import machine
from benchmarks.tool.measure import Row, Sample, Target, beside
from benchmarks.tool.run import Run, Size
from benchmarks.tool.workload import batches, make_columns, make_queries
from psoup_testing.suite.sweeps import swept

SMALL = {
    "arrival": lambda run: arrival.paper("arrival.q16.f2", make_queries(16, 2), samples=1),
    "invoke": lambda run: invocation.shape("invoke.w4096.f2", 4_096, 2, 1, Target(at_least=1e9), 4, everything=True),
    "growth": lambda run: growth.series(
        run, "growth.factors", (1, 2), lambda factors: growth.paper(make_queries(8, factors))
    ),
}
"""Rows of each kind, small enough for a test; the second misses its target."""

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


@pytest.mark.parametrize("factors", swept([4, 1, 8], fast=0))
def test_peers_of_arrival_agree_with_numpy(factors: int) -> None:
    columns, queries = make_columns(256), make_queries(20, factors)
    makers = [lambda: NumPyPerQuery(queries), lambda: NumPyPerQuery(queries, np.uint8), lambda: BruteForce(queries)]
    peers, _ = made([*makers, *engines(queries)])
    assert len(peers) >= 6  # what needs nothing beyond the environment
    for peer in peers:
        masks = peer.masks(columns)
        assert np.array_equal(masks, [query.mask(columns) for query in queries[: peer.queries]]), peer.name
        peer.close()


@pytest.mark.long
def test_peers_of_invocation_agree_with_numpy() -> None:
    columns, queries = make_columns(4_096), make_queries(20, 4)
    peers, _ = made([*quick_scans(columns, queries), *other_scans(columns, queries, 5)])
    assert len(peers) >= 6
    for peer in peers:
        for number, query in enumerate(queries[: peer.queries]):
            expected = in_order(columns[:, query.mask(columns)])
            assert np.array_equal(in_order(peer.answer(number)), expected), peer.name
        peer.close()


@pytest.mark.parametrize(
    ("work", "makers"),
    swept([(scale.by_symbol(5_000, True), join.symbol_joins), (scale.by_range(5_000), join.range_joins)], fast=(1,)),
    ids=["symbol", "range"],
)
def test_peers_of_many_queries_agree_with_numpy(work: scale.Workload, makers: Callable[..., Any]) -> None:
    peers, _ = made(makers(work.bounds))
    assert len(peers) >= 5
    tuples = np.ascontiguousarray(work.data[:, :16])
    expected = {(q, n) for n in range(16) for q in np.flatnonzero(work.mask(tuples[:, n])).tolist()}
    for peer in peers:
        found = peer.join(tuples)
        assert set(zip(found.queries.tolist(), found.tuples.tolist(), strict=True)) == expected, peer.name
        peer.close()


def test_an_answer_that_differs_is_an_error() -> None:
    columns, queries = make_columns(2 * arrival.BATCH), make_queries(4, 2)
    engine = arrival.Loaded(queries, batches(columns, arrival.BATCH))
    engine.arrive()
    arrival.check(engine, queries, [NumPyPerQuery(queries)], columns)
    with pytest.raises(AssertionError, match="NumPy has"):
        arrival.check(engine, queries[::-1], [], columns)
    with pytest.raises(AssertionError, match="NumPy int64"):
        arrival.check(engine, queries, [NumPyPerQuery(queries[::-1])], columns)


def test_a_peer_that_is_not_here_is_a_row_that_says_how_to_get_it() -> None:
    def absent() -> str:
        raise Missing("chDB", "make bench-setup")

    here, missing = made([lambda: "DuckDB", absent])
    (first, second) = beside(
        "row", sample(10), "us", [(name, sample(20)) for name in here], missing, Target(at_least=1)
    )
    assert (first.peer, first.ratio, first.met) == ("DuckDB", 2, True)
    assert (second.peer, second.met, second.lost) == ("chDB", None, False)
    assert "make bench-setup" in second.note
    assert second.to_dict()["ratio"] is None
    assert "| chDB: not here |" in report.markdown([second])


def test_the_best_engine_holds_the_target() -> None:
    peers = [("NumPy", sample(50)), ("DuckDB", sample(10)), ("Polars", sample(20))]
    rows = list(beside("row", sample(100), "tuples/s", peers, target=Target(at_least=5)))
    assert [(row.peer, row.met) for row in rows] == [("NumPy", None), ("Polars", True), ("DuckDB", None)]


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
    here = machine()
    report.write_json(tmp_path / "deep" / "bench.json", [report.json_line(row, here) for row in rows])
    objects = json.loads((tmp_path / "deep" / "bench.json").read_text())
    assert [item["name"] for item in objects] == ["row0", "row1", "row2"]
    assert all(set(item) >= FIELDS and item["machine"]["cores"] for item in objects)


@pytest.mark.long
def test_a_run_prints_a_table_and_writes_rows_of_every_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "GROUPS", SMALL)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--strict", "--json", str(tmp_path / "bench.json")])
    assert command.main() == 1  # the target of an invocation is out of reach
    rows = json.loads((tmp_path / "bench.json").read_text())
    names = list(dict.fromkeys(row["name"] for row in rows))
    assert names == ["arrival.q16.f2", "arrival.q16.f2.two", "invoke.w4096.f2", "growth.factors.1", "growth.factors.2"]
    assert {"DuckDB", "Polars", "PyArrow", "SQLite"} <= {row["peer"] for row in rows if row["name"] == names[0]}
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)
    processor, _, header, *_ = (tmp_path / "bench.md").read_text().splitlines()
    assert header.startswith("| row | PSoup | peer |")
    here = rows[0]["machine"]
    assert {here["cpu_kind"], *here["numpy_uses"], *here["numba_uses"]} <= set(re.split(r"[ ;(),]+", processor))
    assert processor in " ".join(printed.split())
    some = tmp_path / "some.json"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "growth", "--markdown", "--json", str(some)])
    assert command.main() == 0
    assert {row["name"] for row in json.loads(some.read_text())} == set(names[3:])


@pytest.mark.long
def test_a_row_that_fails_says_why_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(run: Run) -> Iterator[Row]:
        yield from run.part(lambda: first(run), "one", "one.two")
        yield from run.part(lambda: [Row("other", sample(1), "us", "peer", sample(2))], "other")

    def first(run: Run) -> Iterator[Row]:
        yield Row("one", sample(1), "us", "peer", sample(2))
        raise ValueError("too many | of\nthem")

    def broken(run: Run) -> Iterator[Row]:
        raise OSError("no disk")

    monkeypatch.setattr(command, "GROUPS", {"one": rows, "third": broken, "last": SMALL["growth"]})
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--json", str(tmp_path / "bench.json")])
    assert command.main() == 1
    found = json.loads((tmp_path / "bench.json").read_text(), parse_constant=pytest.fail)
    failed = {row["name"]: row["failure"] for row in found if row["failure"]}
    assert failed == {"one.two": "ValueError: too many | of them", "third": "OSError: no disk"}
    assert {"one", "other", "growth.factors.1"} <= {row["name"] for row in found} - failed.keys()
    assert "in first" in next(row["details"]["traceback"] for row in found if row["name"] == "one.two")
    assert "| `one.two` | failed | ValueError: too many \\| of them | | | no |" in (tmp_path / "bench.md").read_text()
    told = capsys.readouterr()
    assert "Failed: one.two, third" in told.err
    assert "one.two failed: ValueError: too many | of them" in told.out
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "other", "--json", str(tmp_path / "bench.json")])
    monkeypatch.setattr(command, "GROUPS", {"o": rows})
    assert command.main() == 0  # what was not asked for is not measured


def test_a_part_is_measured_if_one_of_its_rows_was_asked_for() -> None:
    def given(*only: str) -> list[str]:
        rows = [Row("a.b", sample(1), "us", "peer", None), Row("a.b.two", sample(1), "us", "peer", None)]
        return [row.name for row in Run(Size.TINY, only).part(lambda: rows, "a.b", "a.b.two")]

    assert given() == given("a") == given("a.b.two") == given("a.b.two.three") == ["a.b", "a.b.two"]
    assert given("a.c") == given("b") == []


def test_rows_that_do_not_exist_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "departure"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--only departure: rows begin with arrival.q4096.f4" in capsys.readouterr().err


@pytest.mark.long
def test_a_benchmark_that_fails_leaves_no_server_behind(tmp_path: Path) -> None:
    script = "from benchmarks.peers.postgres import *; s = PostgresServer(); print(s._process.pid, s._folder); 1 / 0"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if f"{Missing.__module__}.Missing" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert "ZeroDivisionError" in done.stderr
    pid, folder = done.stdout.split()
    assert not Path(folder).exists()
    assert not Path("/proc", pid).exists()

"""Folds that are made ahead and would take all memory, or end the process: the service lives, and starts again.

keys of a megabyte    each measure, of an archived stream, in limited memory: refused, and other streams are folded
a deadly fold         ends the first run and the first start; the second start leaves it out, and names the query
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.sql.aggregates import AGGREGATES
from psoup_client import Client
from psoup_service.process.rehearsal import rehearse
from psoup_testing.services.zygote import Zygote

pytestmark = pytest.mark.long
ROWS = 64
MEASURES = {
    "count": "count(DISTINCT k)",
    **dict.fromkeys(("count_if", "countif", "bool_and", "bool_or"), "{}(k > 3)"),
    **dict.fromkeys(("arg_min", "argmin", "min_by", "arg_max", "argmax", "max_by"), "{}(t, k)"),
    **dict.fromkeys(("quantile_cont", "quantile", "quantile_disc", "approx_quantile"), "{}(k, 0.5)"),
    **dict.fromkeys(("min", "max", "first", "arbitrary", "last", "any_value"), "{}(repeat(t, 9))"),
}
"""The text of a measure; any other measure has one argument, a number."""
SETTINGS = {"PSOUP_MEMORY_MIB": "256", "PSOUP_SORT_MIB": "16", "PSOUP_SORTS_MIB": "32"}


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    memory = {"PSOUP_TEST_CHUNK_ROWS": str(ROWS), "PSOUP_TEST_MEMORY_MIB": "1024", "PSOUP_TEST_DEADLY": "13"}
    with Zygote(**memory, **SETTINGS) as made:
        yield made


def explained(client: Client, query: str) -> str:
    return str(client.query(query).explain())


def wait_until(client: Client, query: str, words: str) -> None:
    """Ask until EXPLAIN of a query has some words: folds are made every two seconds."""
    for _ in range(20_000):
        if words in explained(client, query):
            return
    raise AssertionError(explained(client, query))


def test_keys_of_a_megabyte_are_refused_for_each_measure_and_other_streams_are_folded(
    tmp_path: Path, zygote: Zygote
) -> None:
    folder = str(tmp_path / "data")
    zygote.start(folder)
    with Client(zygote.ready()) as client:
        client.create_stream("CREATE STREAM s (k BIGINT, t TEXT) RETENTION 1 DAY ARCHIVE 30 DAYS")
        client.create_stream("CREATE STREAM b (k BIGINT) RETENTION 1 DAY ARCHIVE 30 DAYS")
        measures = [MEASURES.get(name, "{}(k)").format(name) for name in AGGREGATES]
        keys = "GROUP BY repeat(t, 100000) || k BEGIN (START)"
        wide = [client.register(f"SELECT {made} AS m FROM s WHERE k >= 0 {keys}").id for made in measures]
        plain = client.register("SELECT count(*) AS n, sum(k) AS m FROM b WHERE k >= 3 BEGIN (START)").id
        client.push("s", pa.table({"k": [n // 4 for n in range(ROWS + 6)], "t": ["abcdefghij"] * (ROWS + 6)}))
        client.push("b", pa.table({"k": range(ROWS + 6)}))
        wait_until(client, plain, "0 chunks not folded yet")
        refused = [query for query in wide if "not folded ahead: it needs at least" in explained(client, query)]
        assert refused, "at least those whose states are bounded"
    assert zygote.kill()
    zygote.start(folder)
    with Client(zygote.ready()) as client:
        client.push("b", pa.table({"k": range(ROWS)}))
        wait_until(client, plain, "0 chunks not folded yet")
        wait_until(client, refused[-1], "not folded ahead: it needs at least")
        assert [*client.query(plain).invoke().rows()] == [(67 + 61, sum(range(3, 70)) + sum(range(3, 64)))]
    assert zygote.stop() == 0


def test_a_fold_that_ends_the_process_is_left_out_by_the_second_start(
    tmp_path: Path, zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "data")
    zygote.start(folder)
    with Client(zygote.ready()) as client:
        client.create_stream("CREATE STREAM s (k BIGINT) RETENTION 1 DAY ARCHIVE 30 DAYS")
        deadly = client.register("SELECT sum(abs(k)) AS m FROM s WHERE k >= 0 BEGIN (START)").id
        plain = client.register("SELECT sum(k) AS m FROM s WHERE k >= 1 BEGIN (START)").id
        client.push("s", pa.table({"k": range(ROWS + 6)}))
    assert zygote.died() == signal.SIGKILL
    zygote.start(folder)
    assert zygote.died() == signal.SIGKILL
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    (finding,) = rehearse(Path(folder), 1024, "psoup_testing.crash.deadly")
    assert (finding.severity, finding.place) == ("replay", "stream s")
    assert f"SIGKILL, with 1,024 MiB) while it folded {deadly} ahead" in finding.what and deadly in finding.repair
    for _ in range(2):  # the next one has a note
        zygote.start(folder)
        with Client(zygote.ready()) as client:
            wait_until(client, deadly, "not folded ahead: the process has ended twice")
            wait_until(client, plain, "0 chunks not folded yet")
            assert [*client.query(plain).invoke().rows()] == [(sum(range(ROWS + 6)),)]
        assert zygote.stop() == 0

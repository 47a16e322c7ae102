"""Thinning as a task: what may happen between its computation and its installation, and what it frees."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.data.thinning import worth_thinning
from psoup.engine.maintenance.task import Task
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.published.snapshot import StreamView
from psoup.values.columns import Array
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER

QUERY = 1
STAY: Array = np.array([1, 8, 40])
CONFIG = EngineConfig(chunk_rows=64, ahead=10_000 * SECOND, shape=EAGER)


@pytest.fixture
def soup() -> LocalPSoup:
    """A stream with two closed chunks, and a query that covers them."""
    soup = LocalPSoup(CONFIG, VirtualClock(1_000 * SECOND), verify="all")
    soup.execute("CREATE STREAM s (at TIMESTAMP NOT NULL, t TEXT) TIMESTAMP BY at RETENTION 500 SECONDS")
    assert soup.register("SELECT _id FROM s WHERE t = 'x' BEGIN (START)") == QUERY
    push(soup, range(140))
    soup.maintain()
    return soup


def push(soup: LocalPSoup, seconds: range) -> None:
    """Push a tuple for each second."""
    at = pa.array(np.array(seconds) * SECOND, pa.timestamp("us", "UTC"))
    soup.push("s", pa.table({"at": at, "t": ["x"] * len(seconds)}))


def view_of(soup: LocalPSoup) -> StreamView:
    """The published stream."""
    return soup.engine.snapshot().stream("s", soup.tenant)


def task_of(soup: LocalPSoup, number: int, rows: Array = STAY) -> Task:
    """The task that thins a chunk."""
    task = soup.engine.thin(view_of(soup).stream_id, number, rows)
    assert task is not None
    return task


def ids_of(soup: LocalPSoup) -> list[int]:
    """The tuple IDs that the query finds."""
    ids: list[int] = soup.invoke(QUERY).to_table().column(0).to_pylist()
    return ids


def test_a_thinning_frees_the_bytes_of_the_rows_that_left(soup: LocalPSoup) -> None:
    before = view_of(soup).nbytes
    freed = soup.engine.install(task_of(soup, 0).compute())
    assert freed == before - view_of(soup).nbytes > 0
    soup.admission.give_back(freed)
    assert ids_of(soup) == [*STAY.tolist(), *range(64, 140)]
    soup.maintain()
    soup.check()


def test_a_chunk_that_was_altered_meanwhile_is_thinned_with_its_new_column(soup: LocalPSoup) -> None:
    result = task_of(soup, 0).compute()
    soup.execute("ALTER STREAM s ADD COLUMN n BIGINT")
    soup.admission.give_back(soup.engine.install(result))
    rows = soup.ask("SELECT _id, n FROM s BEGIN (START) END 60").to_table().to_pylist()
    assert rows == [{"_id": i, "n": None} for i in STAY.tolist()]
    soup.check()


def test_a_chunk_that_was_thinned_or_dropped_meanwhile_stays_as_it_is(soup: LocalPSoup) -> None:
    both = task_of(soup, 0).compute(), task_of(soup, 0, np.array([5])).compute()
    assert soup.engine.install(both[0]) > 0 == soup.engine.install(both[1])
    assert ids_of(soup)[:4] == [*STAY.tolist(), 64]
    later = task_of(soup, 1).compute()
    push(soup, range(900, 901))
    assert view_of(soup).first_id > 64
    assert soup.engine.install(later) == 0
    soup.check()


def test_results_that_were_computed_before_a_thinning_are_not_installed(soup: LocalPSoup) -> None:
    later = soup.register("SELECT _id FROM s WHERE t < 'y' BEGIN (START)")
    while (task := soup.engine.maintenance(everything=True)) is not None and task.name != "cover":
        soup.engine.install(task.compute())
    assert task is not None
    results = task.compute()
    soup.engine.install(task_of(soup, 0).compute())
    soup.engine.install(results)
    soup.check()
    assert soup.invoke(later).to_table().column(0).to_pylist() == ids_of(soup) == [*STAY.tolist(), *range(64, 140)]


def test_only_closed_sealed_chunks_that_are_kept_can_be_thinned(soup: LocalPSoup) -> None:
    stream_id = view_of(soup).stream_id
    assert soup.engine.thin(stream_id, 2, STAY) is None, "the open chunk"
    assert soup.engine.thin(stream_id, -1, STAY) is soup.engine.thin(stream_id, 9, STAY) is None
    push(soup, range(140, 200))
    assert soup.engine.thin(stream_id, 2, STAY) is None, "it is not sealed"
    soup.maintain()
    assert soup.engine.thin(stream_id, 2, STAY) is not None


def test_a_chunk_is_worth_thinning_to_a_quarter_of_its_places(soup: LocalPSoup) -> None:
    chunk = view_of(soup).chunks[0].data
    assert worth_thinning(chunk, 16) and not worth_thinning(chunk, 17)
    soup.engine.install(task_of(soup, 0).compute())
    chunk = view_of(soup).chunks[0].data
    assert worth_thinning(chunk, 2) and not worth_thinning(chunk, 3), "no row would leave"

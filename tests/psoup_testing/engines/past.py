"""The small stream of the tests of attached history: a row a second, with its number and one of seven words.

soup              an engine on a durable store, chunks of 64 rows, clock at 1,000 s
job(soup, "one", 100, 300)     a directory with the rows of the seconds 100 to 299, as a job writes it
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.attachments import write
from psoup_testing.engines.batches import seconds
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again

CONFIG = EngineConfig(chunk_rows=64, shape=EAGER)
EVENTS = "CREATE STREAM s (t TIMESTAMP, x BIGINT, w TEXT) TIMESTAMP BY t"


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    """The engine, without a stream; checked and closed at the end."""
    made = RestartingPSoup(CONFIG, VirtualClock(1_000 * SECOND), tmp_path / "data")
    yield made
    made.check()
    made.store.close()


def rows(first: int, stop: int) -> pa.Table:
    """A row for each second from `first` to before `stop`."""
    times = pa.array(seconds(first, stop), pa.timestamp("us", "UTC"))
    return pa.table({"t": times, "x": range(first, stop), "w": [f"w{n % 7}" for n in range(first, stop)]})


def job(soup: RestartingPSoup, name: str, first: int, stop: int, every: int = 50) -> Path:
    """A job directory of those rows."""
    folder = soup.path.parent / name
    spec = soup.engine.snapshot().stream("s", "default").spec
    write(folder, spec, rows(first, stop), seconds(first, stop), range(0, stop - first, every))
    return folder


def values(soup: RestartingPSoup, query: int) -> list[Any]:
    """The values of the query's answer."""
    return list(again(soup.invoke, query).to_table().columns[0].to_pylist())


def examine_closed(soup: RestartingPSoup) -> Any:
    """The doctor's report of the directory."""
    soup.store.close()
    return examine(soup.path)

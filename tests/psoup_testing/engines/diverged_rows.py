"""Rows that `psoup replica rejoin` keeps in the folder `diverged`, and rows that a copy has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from psoup.errors import NotFound
from psoup.model import SECOND
from psoup_storage.durable.directory import DIVERGED
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import Target
from psoup_testing.engines.format_fixture import END, Soup
from psoup_testing.oracles.questions import again


def kept_table(directory: Path, stream: str, fence: int | None = None) -> pa.Table | None:
    """The rows of a stream that were kept behind a fence, or behind the only one; None if none were."""
    files = [*(directory / DIVERGED).glob(f"{fence or '*'}/{stream}.*.parquet")]
    assert len(files) < 2, "name the fence"
    return pq.read_table(files[0]) if files else None


def kept_values(directory: Path, stream: str, column: str = "x") -> list[Any]:
    """The values in a column of such rows."""
    table = kept_table(directory, stream)
    return [] if table is None else table[column].to_pylist()


def copied_values(target: Target, path: Path, *streams: str) -> Counter[tuple[str, Any]]:
    """The values `x` of all tuples that the copy has, with their streams. `path`: of the directory to restore."""
    restore_copy(target, path)
    soup = Soup(path, END + 600 * SECOND)
    values = Counter[tuple[str, Any]]()
    for stream in streams:
        try:
            if soup.engine.snapshot().stream(stream, "default").spec.event_time:
                soup.heartbeat(stream, END + 300 * SECOND)
            answer = again(soup.invoke, soup.register(f"SELECT x FROM {stream} BEGIN (START)"))
        except NotFound:
            continue
        values.update((stream, value) for value in answer.to_table()["x"].to_pylist())
    soup.store.close()
    return values

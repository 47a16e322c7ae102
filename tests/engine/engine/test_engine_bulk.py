"""A large push is copied into its chunk at once, and joined in pieces; chunks end where they would if it came so."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.data.data_stem import OpenChunk
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=512, piece_rows=64, block_rows=64, chunk_text_bytes=4_000, shape=EAGER)
STATEMENTS = (
    ("SELECT x, _id FROM s BEGIN (START)",),
    ("SELECT x, _id FROM s WHERE x % 3 = 1 BEGIN (START)", "SELECT n FROM s WHERE t LIKE '%7%' BEGIN (START)"),
    ("SELECT x, _id FROM s BEGIN (START)", "SELECT x FROM s WHERE t LIKE '%777%' BEGIN (START)"),
    (),
)


def table(rows: int, texts: int) -> pa.Table:
    rng = np.random.default_rng(rows + texts)
    words = ["7" * int(length) if length else None for length in rng.integers(0, texts + 1, rows)]
    return pa.table(
        {"x": np.arange(rows), "t": pa.array(words, pa.string()), "n": [None if i % 5 else i for i in range(rows)]}
    )


def played(statements: tuple[str, ...], whole: pa.Table, size: int, before: int) -> tuple[list[object], list[object]]:
    """The answers, and where chunks begin, if the rows come in batches of `size` after some others."""
    soup = LocalPSoup(CONFIG, VirtualClock(0), verify="all")
    soup.execute("CREATE STREAM s (x BIGINT, t TEXT, n BIGINT)")
    queries = [soup.register(statement) for statement in statements]
    if before:
        soup.push("s", table(before, 0))
    for start in range(0, len(whole), size):
        soup.push("s", whole.slice(start, size))
    answers: list[object] = [again(soup.invoke, query).to_table().to_pylist() for query in queries]
    entries = soup.engine.snapshot().by_id[1].chunks
    return answers, [(entry.data.number, entry.data.first_id, len(entry.data)) for entry in entries]


@pytest.mark.parametrize("statements", STATEMENTS)
@pytest.mark.parametrize(
    ("rows", "texts", "before"),
    swept([(2_000, 0, 0), (2_000, 30, 0), (700, 30, 128), (64, 200, 0), (65, 9, 64), (900, 0, 40)], fast=(2, 4)),
)
def test_one_batch_does_what_its_pieces_do(statements: tuple[str, ...], rows: int, texts: int, before: int) -> None:
    whole = table(rows, texts)
    assert played(statements, whole, rows, before) == played(statements, whole, CONFIG.piece_rows, before)


def test_each_column_of_a_batch_is_copied_once_for_a_chunk() -> None:
    with patch.object(OpenChunk, "append", autospec=True, side_effect=OpenChunk.append) as append:
        _, chunks = played(STATEMENTS[1], table(2_000, 0), 2_000, 0)
    assert append.call_count == 4 == len(chunks)

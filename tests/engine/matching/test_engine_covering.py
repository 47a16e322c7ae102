"""Old tuples meet new clauses in pieces that are larger than on arrival, as far as memory allows."""

from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.matching import old_tuples

VALUES = [n * 37 % 101 for n in range(320)]


@pytest.mark.parametrize(("allowed", "expected"), [(2**20, [128, 128]), (1, [64, 64, 64, 64])])
def test_pieces_are_large_unless_their_bitmaps_would_be(
    monkeypatch: pytest.MonkeyPatch, allowed: int, expected: list[int]
) -> None:
    sizes = list[int]()
    probe = old_tuples.probe

    def counted(clauses: Any, piece: Any, *args: Any, **more: Any) -> dict[int, str]:
        sizes.append(len(piece))
        return probe(clauses, piece, *args, **more)

    monkeypatch.setattr(old_tuples, "_BITMAPS", allowed)
    soup = LocalPSoup(EngineConfig(chunk_rows=256, piece_rows=64))
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.push("s", pa.table({"x": VALUES}))
    soup.maintain()
    queries = soup.register_many(
        [f"SELECT x FROM s WHERE x >= {low} AND x < {low + 9} BEGIN (START)" for low in range(90)]
    )
    monkeypatch.setattr(old_tuples, "probe", counted)
    soup.maintain()
    assert sizes == expected
    soup.engine.check()
    for low, query in enumerate(queries):
        found = soup.invoke(query).to_table().column("x").to_pylist()
        assert found == [value for value in VALUES if low <= value < low + 9]

"""The places of refused columns of a derived stream in its statement."""

from __future__ import annotations

import pytest

from psoup.local import LocalPSoup
from psoup.sql import derived_places


def test_a_statement_with_many_columns_is_read_as_often_as_one_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement is read on the writer's thread. With a thousand columns it kept all clients waiting for 20 s."""
    read, counts, tokens = [0], list[int](), derived_places._tokens

    def counted(*given: object) -> object:
        read[0] += 1
        return tokens(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(derived_places, "_tokens", counted)
    soup = LocalPSoup()
    soup.execute("CREATE STREAM t (k BIGINT)")
    for columns in (2, 50):
        read[0] = 0
        soup.execute(
            f"CREATE STREAM x{columns} AS (SELECT {', '.join(f'k + {i} AS c{i}' for i in range(columns))} FROM t)"
        )
        counts.append(read[0])
    assert counts[0] == counts[1] > 0

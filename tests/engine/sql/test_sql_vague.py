"""Ambiguous definitions that a new stream may not have; definitions in a log are still read."""

from __future__ import annotations

import pytest

from psoup.errors import SqlError
from psoup.model import SECOND
from psoup.sql import alter_stream, create_stream
from psoup_testing.engines.admission_gate import Gate

CREATE = "CREATE STREAM s (t TIMESTAMP, x TEXT) TIMESTAMP BY t"


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (
            "CREATE STREAM s (x INT) RETENTION 5",
            35,
            "RETENTION 5 has no unit\n.*\n.*\nhint: .* 5 DAYS, .* or RETENTION 5 ROWS",
        ),
        (f"{CREATE} RETENTION 5 DAYS ARCHIVE 9", 79, "ARCHIVE 9 has no unit"),
        (
            f"{CREATE} LATENESS 3",
            63,
            "LATENESS 3 has no unit\n.*\n.*\nhint: write LATENESS 3 MINUTES or LATENESS 3 SECONDS",
        ),
        (f"{CREATE} AHEAD 1.5", 60, r"AHEAD 1\.5 has no unit"),
        (
            "CREATE STREAM s (x VARCHAR2(3))",
            20,
            r"the length of VARCHAR2\(3\) would not be kept to\n.*\n.*\nhint: write TEXT",
        ),
        (
            "CREATE STREAM s (x DECIMAL NOT NULL)",
            20,
            r"DECIMAL has no digits\n.*\n.*\nhint: write DECIMAL\(18, 2\) or the like",
        ),
        ("CREATE STREAM s (y INT, x NUMERIC)", 27, "NUMERIC has no digits"),
        ("CREATE STREAM s (y INT, x char(1) NOT NULL)", 27, "the length of char"),
    ],
)
def test_what_is_vague_is_refused_of_new_streams_only(text: str, column: int, message: str) -> None:
    create_stream(text)
    with pytest.raises(SqlError, match=message) as caught:
        create_stream(text, new=True)
    assert caught.value.column == column
    with pytest.raises(SqlError, match=message):
        Gate().create(text)


def test_alterations_are_no_vaguer() -> None:
    for text, message in (("AHEAD 7", "AHEAD 7 has no unit"), ("ADD x VARCHAR(9)", "the length of VARCHAR")):
        alter_stream(f"ALTER STREAM s {text}")
        with pytest.raises(SqlError, match=message):
            alter_stream(f"ALTER STREAM s {text}", new=True)


def test_nothing_needs_no_unit() -> None:
    assert create_stream(f"{CREATE} LATENESS 0 AHEAD 0.0", new=True).ahead == 0
    assert (
        create_stream(f"{CREATE} LATENESS INTERVAL '3' SECOND AHEAD INTERVAL '9 SECONDS'", new=True).ahead == 9 * SECOND
    )

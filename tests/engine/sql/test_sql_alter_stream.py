"""ALTER STREAM: the columns it adds, and what is refused with which words."""

from __future__ import annotations

import pytest

from psoup.errors import SqlError
from psoup.model import BIGINT, TEXT, Attribute, decimal
from psoup.sql import Alteration, alter_stream, create_stream


def test_columns_in_their_order() -> None:
    assert alter_stream("ALTER STREAM s ADD COLUMN x BIGINT") == Alteration("s", (Attribute("x", BIGINT),))
    found = alter_stream('alter stream "My Stream" add x text null, add column if not exists "Y z" decimal(9,2);')
    assert found.stream == "My Stream"
    assert found.attributes == (Attribute("x", TEXT), Attribute("Y z", decimal(9, 2)))
    assert found.lenient == {"Y z"}


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("ALTER STREAM s ADD x BIGINT NOT NULL", 20, "NULL in the tuples that are there already"),
        ("ALTER STREAM s DROP COLUMN x", 16, "columns cannot be dropped"),
        ("ALTER STREAM s RENAME TO t", 16, "columns can be added, or LATENESS, AHEAD or WATERMARK BY be changed"),
        ("ALTER VIEW s ADD x INT", 7, "only streams and tables can be altered"),
        ("ALTER STREAM", 13, "^line 1, column 13: ALTER STREAM needs a name\n"),
        ("ALTER STREAM s ADD", 19, "^line 1, column 19: a column needs a name and a type\n"),
        ("ALTER STREAM s ADD x", 21, "a type is missing here"),
        ("ALTER STREAM s ADD x INT,", 26, "columns can be added"),
        ("ALTER STREAM s ADD x INT ADD y INT", 26, "'ADD' is not known here"),
        ("ALTER STREAM s ADD x UUID", 22, "UUID"),
        ("ALTER STREAM s ADD _id INT", 20, "reserved"),
        ("ALTER STREAM s ADD x INT, ADD X INT", 31, "declared twice"),
        ("CREATE STREAM s (x INT)", 1, "ALTER STREAM is needed here, not CREATE"),
        ("SELECT 1", 1, "ALTER STREAM is needed here, not SELECT"),
        ("DROP STREAM s", 1, "ALTER STREAM is needed here, not DROP"),
        ("", 1, "empty"),
    ],
)
def test_what_is_refused(text: str, column: int, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        alter_stream(text)
    assert caught.value.column == column


def test_hints_are_words_of_the_statement() -> None:
    """No name is taken for a word of another statement."""
    with pytest.raises(SqlError, match="hint: SELECT the columns that are wanted"):
        alter_stream("ALTER STREAM weather DROP COLUMN x")
    with pytest.raises(SqlError, match="hint: did you mean 'RETENTION'"):
        create_stream("CREATE STREAM weather (x INT) RETENSION 5 DAYS")

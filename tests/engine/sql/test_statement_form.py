"""The form of a statement has no value of it, in whatever way the value is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psoup.sql.statement_form import MOST_CHARACTERS, UNREADABLE, statement_form
from psoup_testing.suite.budget import round_settings

TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0$"), max_size=30)


@pytest.mark.parametrize(
    ("statement", "form"),
    [
        ("SELECT x FROM s WHERE a = 'Ann' -- for Bob", "SELECT x FROM s WHERE a = ?"),
        ("SELECT /* for Bob */ x\n FROM s", "SELECT x FROM s"),
        ("SELECT x FROM s WHERE a IN (1, 2,3) AND b = -1_000.5e3", "SELECT x FROM s WHERE a IN (?, …) AND b = -?"),
        ("SELECT x FROM s WHERE a = 0x1F AND b = 12abc", "SELECT x FROM s WHERE a = ? AND b = ?"),
        ("SELECT x FROM s WHERE a = N'x' AND b = X'ff'", "SELECT x FROM s WHERE a = ? AND b = X?"),
        ("VALUES (1, 'a'), (2, 'b'), (3, 'c')", "VALUES (?, …), …"),
        ('SELECT "a b", `c` FROM s WHERE t < $1', 'SELECT "a b", `c` FROM s WHERE t < $1'),
        ("SELECT x FROM s BEGIN (NOW - 15 MINUTES) END (NOW)", "SELECT x FROM s BEGIN (NOW - ? MINUTES) END (NOW)"),
        ("SELECT 'never closed", UNREADABLE),
        ("nonsense ) 5", "nonsense ) ?"),
        ("", ""),
    ],
)
def test_a_form_has_names_and_words_alone(statement: str, form: str) -> None:
    assert statement_form(statement) == form


def test_a_long_form_is_cut() -> None:
    form = statement_form("SELECT " + ", ".join(f"column_{number}" for number in range(1_000)))
    assert len(form) == MOST_CHARACTERS + 1 and form.endswith("…")


@given(TEXTS)
@round_settings(100)
def test_a_text_leaves_no_trace(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    quoted = value.replace("'", "''")
    for written in (f"'{quoted}'", f"E'{escaped}'", f"$q${value}$q$"):
        assert statement_form(f"SELECT x FROM s WHERE a = {written} AND b") == "SELECT x FROM s WHERE a = ? AND b"

"""Texts of several statements: only semicolons outside of quotes and comments divide them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psoup_service.pg.statement_texts import statements_of

PARTS = (
    "SELECT ';'",
    "SELECT 'it''s; so'",
    r"SELECT E'\';'';' ",
    'SELECT ";"" ;"',
    "SELECT $$;$a$;$$",
    "SELECT $a$;$$;$a$",
    "SELECT a$b$ ",
    "SELECT 1 -- ; '\n",
    "SELECT /* ; /* ; */ ; ' */ 2",
    "SELECT $1",
    "SELECT type'x\\' ",
    "é",
)


@given(st.lists(st.sampled_from(PARTS), max_size=6))
def test_statements_are_divided_where_they_were_joined(parts: list[str]) -> None:
    assert statements_of(";".join(parts)) == parts
    assert statements_of(";; ;".join([*parts, ""])) == parts


@pytest.mark.parametrize("open", ["'", '"', "/*", "/* /* */", "$$", "$a$ $$", "--", "E'\\'"])
def test_a_quote_without_an_end_reaches_to_the_end(open: str) -> None:
    assert statements_of(f"a; b {open} ; c") == ["a", f" b {open} ; c"]


@pytest.mark.parametrize("text", ["-- ping", "/* a */ -- b\n /* /* c */", " ; --;\n ;", ""])
def test_a_text_of_comments_has_no_statement(text: str) -> None:
    assert statements_of(text) == []
    assert statements_of(f"a;{text}") == ["a"]


@given(st.text(alphabet=";'\"$/*-\nEa\\ "))
def test_no_character_is_lost(text: str) -> None:
    parts = statements_of(text)
    assert all(part in text and part.strip() for part in parts)
    assert sum(map(len, parts)) <= len(text)

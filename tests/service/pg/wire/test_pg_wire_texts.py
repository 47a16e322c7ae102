"""Texts of several statements: only semicolons outside of quotes and comments divide them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psoup.sql.parser import spaces
from psoup_service.pg.statement_texts import statements_of
from psoup_service.pg.statements.words import Words
from psoup_testing.engines.within import within

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


WORD = re.compile(
    r"\s+|--[^\n]*|(?P<word>[eE]'(?:[^'\\]|\\.|'')*+'|'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"|[\w.$+-]+|\S)", re.DOTALL
)
"""A space, a comment or a word, by one expression."""


@given(st.text(alphabet="'\"$;-\nEa\\ .", max_size=40))
def test_words_end_where_one_expression_ends_them(text: str) -> None:
    places, words = list[int](), Words(text)
    while words.next():
        places.append(words.place)
        words.skip()
    expected = [match for match in WORD.finditer(text) if match["word"] is not None]
    if expected and expected[-1]["word"] == ";":
        expected.pop()
    assert places == [match.start() for match in expected]


@given(st.text(alphabet=";'\"$/*-\nEa\\ "))
def test_a_search_in_steps_finds_the_same(text: str) -> None:
    parts = statements_of(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spaces, "STEP", 1)
        assert statements_of(text) == parts


@pytest.mark.parametrize("part", ["(1,2),", " ", "a"])
def test_one_search_reads_a_long_text_without_quotes_in_some_nanoseconds_a_character(part: str) -> None:
    text = part * ((4 << 20) // len(part))

    def searches() -> int:
        words = Words(f"'{text}'", 5 << 20)
        words.skip()
        words.end()
        return len(statements_of(f"INSERT {text};'{text}'"))

    assert within(1.0, searches) == 2, "a search holds the interpreter"

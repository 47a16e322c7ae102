"""LIKE against a matcher of a few lines, for every character, for random patterns, and for patterns made to be slow."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from psoup.expressions.functions import Scope, evaluate, resolve
from psoup.expressions.texts import like as wildcards
from psoup.expressions.texts.like import has_many_states, to_regex, tokenize
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.model import TEXT
from psoup.values.columns import Column
from psoup.values.from_arrow import column_from_arrow
from psoup_testing.suite.sweeps import swept

T = AttributeRef(TEXT, 0, "t")
P = AttributeRef(TEXT, 1, "p")
CHARACTERS = [*(chr(code) for code in range(128)), "é", "日", "👨", "\u0301", "\u2028"]


def column(texts: list[str]) -> Column:
    return column_from_arrow("t", TEXT, pa.array(texts, pa.large_string()))


def matches(expr: Expr, texts: list[str], patterns: list[str] | None = None) -> list[bool]:
    columns = [column(texts), column(patterns or texts)]
    found = evaluate(expr, Scope(columns, len(texts)))
    assert found.valid is None
    flags: list[bool] = found.values.tolist()
    return flags


def like(pattern: str) -> Expr:
    return resolve("like", [T, Literal(TEXT, pattern)])


def reference(text: str, pattern: str) -> bool:
    """The definition, by dynamic programming over the pattern's positions."""
    reach = {0}
    for position, character in enumerate(pattern):
        if character == "%":
            reach |= {end for start in reach for end in range(start, len(text) + 1)}
        else:
            reach = {i + 1 for i in reach if i < len(text) and character in ("_", text[i])}
        assert position < len(pattern)
    return len(text) in reach


@pytest.mark.parametrize("around", swept(["_{}", "{}_%", "%{}%_", "_%{}", "{}%{}"], fast=2))
def test_every_character_stands_for_itself(around: str) -> None:
    texts = [f"x{character}" for character in CHARACTERS] + [f"{c}y" for c in CHARACTERS] + ["", "xx", "\n"]
    for character in CHARACTERS:
        if character not in "%_":
            pattern = around.format(character, character)
            assert matches(like(pattern), texts) == [reference(text, pattern) for text in texts], pattern


def test_random_patterns() -> None:
    rng = random.Random(7)
    texts = ["".join(rng.choices("abé\n", k=rng.randrange(8))) for _ in range(200)]
    patterns = ["".join(rng.choices("abé\n%%__", k=rng.randrange(7))) for _ in range(200)]
    for pattern in patterns:
        assert matches(like(pattern), texts) == [reference(text, pattern) for text in texts], pattern
    pairs = [(text, rng.choice(patterns)) for text in texts for _ in range(5)]
    found = matches(resolve("like", [T, P]), [text for text, _ in pairs], [pattern for _, pattern in pairs])
    assert found == [reference(text, pattern) for text, pattern in pairs]


@pytest.mark.parametrize("letters", swept(["ab", "aé", "aaab", "a日b"], fast=(3,)))
def test_patterns_of_many_states_say_the_same(letters: str) -> None:
    rng = random.Random(letters)
    texts = ["".join(rng.choices(letters, k=rng.randrange(60))) for _ in range(100)] + ["", "a", "a" * 40]
    for _ in range(60):
        parts = ["".join(rng.choices("ab____é", k=rng.randrange(4))) for _ in range(rng.randrange(4))]
        parts.insert(rng.randrange(len(parts) + 1), "a" + "_" * rng.randrange(13, 20) + rng.choice(["", "a", "b"]))
        pattern = "%" + "%".join(parts) + rng.choice(["", "%"])
        assert has_many_states(tokenize(pattern, "") or []), pattern
        assert matches(like(pattern), texts) == [reference(text, pattern) for text in texts], pattern


def test_a_part_is_found_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wildcards, "_BLOCK", 7)
    texts = ["x" * k + "a" + "-" * 13 + "b" + "x" * (40 - k) for k in range(40)] + ["a" * 13 + "b", "a" * 14 + "b"]
    for pattern in ("%a" + "_" * 13 + "b%", "%a" + "_" * 13 + "b%x", "x%a" + "_" * 13 + "b", "%-" + "_" * 13 + "x%x"):
        assert matches(like(pattern), texts) == [reference(text, pattern) for text in texts], pattern


@pytest.mark.parametrize(
    ("pattern", "many"),
    [
        ("%a" + "_" * 12 + "b%", False),
        ("%a" + "_" * 13 + "b%", True),
        ("%a" + "_b" * 13, True),
        ("%a" + "_" * 12 + "%a" + "_" * 12 + "%", False),
        ("%" + "_" * 900 + "b%", False),
        ("a" + "_" * 900 + "b%", False),
    ],
)
def test_which_patterns_have_many_states(pattern: str, many: bool) -> None:
    assert has_many_states(tokenize(pattern, "") or []) is many


def test_a_pattern_of_many_states_and_a_long_text() -> None:
    texts = ["ab" * 500_000, "a" * 1_000_000]
    assert matches(like("%a" + "_" * 500 + "c%"), texts) == [False, False]
    assert matches(like("%" + "a_" * 490 + "c%"), texts) == [False, False]


@pytest.mark.parametrize("pattern", ["%a" * 400 + "%b", "%_a" * 300, "%a_" * 300 + "%b", "_" * 1000, "%" * 900 + "b"])
def test_no_pattern_takes_time_beyond_pattern_times_text(pattern: str) -> None:
    """A matcher that tries one way after the other would need more steps than there are atoms."""
    assert matches(like(pattern), ["a" * 5_000] * 20) == [reference_of_bombs(pattern)] * 20


def reference_of_bombs(pattern: str) -> bool:
    return pattern.startswith("%_a")


def test_long_plain_patterns_are_allowed() -> None:
    long = "ab" * 20_000
    assert matches(like(f"%{long}%"), [long + "x", "x"]) == [True, False]
    assert matches(like(long + "%"), [long + "x", "x" + long]) == [True, False]


def test_patterns_in_rows_that_are_malformed_or_too_long_are_errors() -> None:
    patterns = ["a", "a$", "%a" * 600, "a%"]
    expr = Call(resolve("like", [T, P]).type, "like", (T, P, Literal(TEXT, "$")))
    found = evaluate(expr, Scope([column(["a"] * 4), column(patterns)], 4))
    assert found.error is not None
    assert found.error.tolist() == [False, True, True, False]
    assert found.values.tolist() == [True, False, False, True]


def test_the_regular_expression() -> None:
    assert to_regex(tokenize("a_%.", "") or []) == r"(?s)\Aa..*\.\z"
    assert to_regex(tokenize("_" * 501, "") or []) == r"(?s)\A.{500}.\z"
    assert tokenize("a$%$$", "$") == [("a", False), ("%", False), ("$", False)]
    assert tokenize("%%", "") == [("%", True)]
    assert tokenize("a$", "$") is None

"""Regular expressions against DuckDB, which has RE2 too; patterns that take long or much, on the way in and in rows."""

from __future__ import annotations

import random
import time

import pyarrow as pa
import pytest

from psoup.config import TextLimits
from psoup.errors import InvalidInput
from psoup.expressions.evaluate import Scope, TooMuchText, evaluate
from psoup.expressions.frame import TooMuchWork
from psoup.expressions.functions import resolve
from psoup.expressions.texts.regex import MOST_BYTES, MOST_STATES, regex_of
from psoup.expressions.tree import AttributeRef, Expr, Literal
from psoup.model import BIGINT, TEXT
from psoup.values.columns import Column
from psoup.values.from_arrow import column_from_arrow
from psoup_testing.oracles.expression_oracle import Oracle, sample
from psoup_testing.suite.budget import scaled

T = AttributeRef(TEXT, 0, "t")
WORDS = [
    "",
    "a",
    "ab",
    "abc",
    "aab",
    "B",
    "AbC",
    "a.c",
    "a\nb",
    "\n",
    "éa",
    "日本語",
    "x1y22",
    "12",
    "(a)",
    "a b",
    "[a]",
    "\\d",
]
ATOMS = [
    *(
        "a",
        "b",
        "é",
        "日",
        ".",
        r"\d",
        r"\w",
        r"\s",
        "[ab]",
        "[^a]",
        "[]a]",
        r"[\d-]",
        "[[:alpha:]]",
        r"\pL",
        r"\x{e9}",
    ),
    *("^", "$", r"\b", r"\.", r"\(", r"\Qa.(\E", "(?i)b", "(?s).", "[(]", r"\x61"),
]
OPTIONS = ["", "i", "s", "m", "c", "ci", "sm", "ms", "l", "li", " i"]
REPLACEMENTS = ["", "x", r"[\0]", r"\\", r"\1", r"\2\1", "é"]


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle({"t": (TEXT, sample(WORDS, 1, 60))})


def text(value: str | None) -> Literal:
    return Literal(TEXT, value)


def drawn(rng: random.Random, depth: int = 2) -> str:
    """A pattern with groups of every kind."""
    if depth == 0 or rng.random() < 0.4:
        return "".join(rng.choices(ATOMS, k=rng.randint(1, 3)))
    inside = drawn(rng, depth - 1)
    name = f"g{rng.randrange(10**9)}"
    made = rng.choice(
        ["({})", "(?:{})", f"(?P<{name}>{{}})", "(?i:{})", "({})?", "({})*?", "({})+", "({}){{1,3}}"]
    ).format(inside)
    return rng.choice([made, made + "|" + drawn(rng, depth - 1), drawn(rng, depth - 1) + made])


def test_random_patterns_find_extract_and_replace_as_in_duckdb(oracle: Oracle) -> None:
    rng, exprs = random.Random(5), list[Expr]()
    while len(exprs) < scaled(1_200):
        pattern, options = text(drawn(rng)), rng.choice(OPTIONS)
        more = [text(options)] if options else []
        group = Literal(BIGINT, rng.randrange(4))
        try:
            some = [
                resolve("regexp_matches", [T, pattern, *more]),
                resolve("regexp_full_match", [T, pattern, *more]),
                resolve("regexp_extract", [T, pattern, group, *more]),
                resolve("regexp_extract", [T, pattern, *more]),
                resolve("regexp_replace", [T, pattern, text(rng.choice(REPLACEMENTS)), *more]),
                resolve("regexp_replace", [T, pattern, text(rng.choice(REPLACEMENTS)), text(options + "g")]),
            ]
        except InvalidInput:
            continue
        exprs += some
    oracle.compare(exprs)


def test_nulls_are_duckdbs(oracle: Oracle) -> None:
    nothing = text(None)
    oracle.compare(
        [
            resolve("regexp_matches", [T, nothing]),
            resolve("regexp_extract", [T, nothing]),
            resolve("regexp_extract", [T, text("a"), Literal(BIGINT, None)]),
            resolve("regexp_extract", [T, text("(a)"), Literal(BIGINT, 7)]),
            resolve("regexp_replace", [T, nothing, text("x")]),
            resolve("regexp_replace", [T, text("a"), nothing]),
        ]
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([text("(a")], "'(a' is not a regular expression: missing ): (a"),
        ([text("a{1001}")], "invalid repetition size"),
        ([text("a" * (MOST_BYTES + 1))], "has at most 16,384 bytes, not 16,385"),
        ([text("(a{900}b){9}c{999}")], "invalid repetition size"),
        ([text(r"[^a]{1000}" * 3)], "has at most 10,000 states, not about 36"),
        ([text(r"\pL{999}")], "pattern too large"),
        ([T], "the pattern of regexp_matches must be a constant"),
        ([text("a"), text("x")], "regexp_matches has no option 'x'"),
        ([text("a"), text("g")], "for regexp_replace, not for regexp_matches"),
        ([text("a"), text(None)], "must not be NULL"),
    ],
)
def test_what_is_refused_says_why(args: list[Expr], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve("regexp_matches", [T, *args])
    assert said in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("new", "said"), [("\\2", "requests 2 matches"), ("\\", "not allowed at end"), ("\\x", "digit")]
)
def test_a_replacement_that_does_not_fit_is_refused(new: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        resolve("regexp_replace", [T, text("(a)"), text(new)])


def test_the_first_found_is_replaced_by_any_of_nine_groups_in_any_part_of_a_column() -> None:
    texts = column_from_arrow(
        "t", TEXT, pa.array(["é", "zabcdefghiz", None, "", "abcdefghiabcdefghi"], pa.large_string())
    )
    nine = resolve("regexp_replace", [T, text("(a)(b)(c)(d)(e)(f)(g)(h)(i)"), text(r"<\9\8é\1\1>")])
    wanted = ["é", "z<ihéaa>z", None, "", "<ihéaa>abcdefghi"]
    for start in range(5):
        assert evaluate(nine, Scope((texts.slice(start, 5),), 5 - start)).to_list() == wanted[start:]
    short = TextLimits(16, 1_000)
    assert evaluate(nine, Scope((texts,), 5, texts=short)).to_list() == ["é", "z<ihéaa>z", None, "", None]


def test_states_grow_with_repetitions() -> None:
    assert regex_of("abc").states < 10
    assert 900 < regex_of("(a|b){300}").states < 3_000
    assert regex_of(r"\pL").states >= 400
    assert regex_of("(a{30}){30}").states > 900
    assert regex_of("x" * (MOST_STATES - 9)).states <= MOST_STATES
    assert len(regex_of(r"(a)(?:b)(?P<n>c)(?i:d)[(]\(\Q(\E").groups) == 2


def column(*values: str) -> Column:
    return column_from_arrow("t", TEXT, pa.array(values, pa.large_string()))


def test_work_is_bounded_by_the_states_and_the_bytes() -> None:
    """What would take minutes is cut, refused together, or an error of its row; never just done."""
    dear = resolve("regexp_matches", [T, text("(a|b)*a(a|b){900}c")])
    long = column(*["ab" * 1_000] * 64)
    assert evaluate(dear, Scope((long,), 64)).to_list() == [False] * 64
    with pytest.raises(TooMuchWork):
        evaluate(dear, Scope((column(*["ab" * 20_000] * 64),), 64, texts=TextLimits(1 << 20, 1 << 26, 16)))
    alone = evaluate(dear, Scope((column("ab" * 500_000, "ab"),), 2))
    assert alone.to_list() == [None, False]
    assert alone.error is not None
    assert alone.error.tolist() == [True, False]


@pytest.mark.long
def test_a_search_that_looks_far_ahead_of_each_match_is_charged_for_it() -> None:
    """All of `a.*c|a` in a MiB of one letter took RE2 10 minutes, for which every client waited."""
    short, long = "a" * 1_000, "a" * (1 << 20)
    for pattern in ("a.*c|a", "(a.*c)?a", "(a.*?c){0,1}a", "a{2,}c|a"):
        every = resolve("regexp_replace", [T, text(pattern), text("x"), text("g")])
        found = evaluate(every, Scope((column(long, short),), 2))
        assert found.to_list() == [None, "x" * 1_000], pattern
        assert found.error is not None and found.error.tolist() == [True, False]
    for pattern in ("a+c", "[^c]+", "a|c", "(a)c*"):
        assert not regex_of(pattern).looks_ahead
        every = resolve("length", [resolve("regexp_replace", [T, text(pattern), text("x"), text("g")])])
        assert evaluate(every, Scope((column(long),), 1)).to_list() in ([1 << 20], [1])


def test_replacements_that_multiply_are_errors_before_they_are_made() -> None:
    grown: Expr = T
    for _ in range(4):
        grown = resolve("regexp_replace", [grown, text("."), text(r"\0\0\0" + "y" * 3_000), text("g")])
    started = time.process_time()
    found = evaluate(resolve("length", [grown]), Scope((column("x" * 99, ""),), 2))
    assert found.to_list() == [None, 0]
    assert time.process_time() - started < 60, "no text of gigabytes was made"
    with pytest.raises(TooMuchText):
        evaluate(
            resolve("regexp_replace", [T, text("x"), text("z" * 9_000), text("g")]),
            Scope((column(*["x" * 99] * 99),), 99, texts=TextLimits(1 << 20, 1 << 20)),
        )

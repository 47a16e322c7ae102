"""Pieces of texts against DuckDB, over columns and constants; what would be too long is an error before it is made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import InvalidInput
from psoup.expressions.evaluate import Scope, evaluate
from psoup.expressions.functions import FUNCTIONS, resolve
from psoup.expressions.texts.text import LONG_PART
from psoup.expressions.tree import AttributeRef, Expr, Literal
from psoup.model import BIGINT, TEXT
from psoup.values.columns import Column
from psoup.values.from_arrow import column_from_arrow
from psoup_testing.oracles.expression_oracle import TEXTS, Oracle, sample
from psoup_testing.suite.sweeps import swept

PLAIN = [text for text in TEXTS if "\u0301" not in text and "\u200d" not in text]
"""Texts of which each code point is what a reader sees as one character: reverse is DuckDB's for these."""
NUMBERS = [0, 1, -1, 2, -2, 3, 5, -7, 12, 40, 97]
FAR = [233, 0x20AC, 55_296, 128_512, 1_114_112, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, -(2**63), -(2**32) - 1]


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    columns = {
        "t": (TEXT, sample(PLAIN, 1, 120)),
        "u": (TEXT, sample(PLAIN, 2, 120)),
        "n": (BIGINT, sample(NUMBERS, 3, 120)),
        "w": (BIGINT, sample([*NUMBERS, *FAR], 4, 120)),
    }
    return Oracle(columns)  # type: ignore[arg-type]


SHAPES = {
    **dict.fromkeys(("reverse", "strlen", "bit_length", "ascii", "unicode", "md5"), "t"),
    **dict.fromkeys(("instr", "ends_with"), "tt"),
    **dict.fromkeys(("left", "right"), "tw"),
    **dict.fromkeys(("lpad", "rpad"), "tnt"),
    "repeat": "tn",
    "chr": "w",
    "split_part": "ttw",
    "concat_ws": "tttn",
}


def operands(oracle: Oracle, kind: str) -> list[Expr]:
    if kind == "t":
        texts: list[Expr] = [Literal(TEXT, text) for text in ("", "a", "é", "aa", "x日", None)]
        return [oracle.ref("t"), oracle.ref("u"), *texts]
    numbers: list[Expr] = [Literal(BIGINT, number) for number in (0, 1, -1, 2, -3, 7, None)]
    return [oracle.ref("n" if kind == "n" else "w"), *numbers]


def calls(oracle: Oracle, name: str) -> Iterator[Expr]:
    for args in itertools.product(*(operands(oracle, kind) for kind in SHAPES[name])):
        if not all(isinstance(arg, Literal) for arg in args):
            yield resolve(name, args)


@pytest.mark.parametrize("name", swept(SHAPES, fast=range(0, 16, 3)))
def test_every_function_is_duckdbs(oracle: Oracle, name: str) -> None:
    exprs = list(calls(oracle, name))
    oracle.compare(exprs[:: max(1, len(exprs) // 150)])


def test_all_are_compared() -> None:
    from psoup.expressions.texts.text_pieces import EVALUATORS

    assert set(EVALUATORS) == set(SHAPES)
    assert set(SHAPES) <= set(FUNCTIONS)


def column(*values: object) -> Column:
    return column_from_arrow("c", TEXT, pa.array(values, pa.large_string()))


T = AttributeRef(TEXT, 0, "t")
N = AttributeRef(BIGINT, 1, "n")


@pytest.mark.parametrize("times", [2**20 + 1, 10**9, 2**63 - 1])
def test_what_would_be_too_long_is_an_error_of_its_row(times: int) -> None:
    """Of all rows, nested or not, and no byte is made: 10^9 letters would be a gigabyte each."""
    scope = Scope((column("x", "", None),), 3)
    many = Literal(BIGINT, times)
    repeated = resolve("repeat", [T, many])
    for made in (repeated, resolve("repeat", [repeated, many]), resolve("concat_ws", [T, repeated, repeated])):
        found = evaluate(made, scope)
        assert found.to_list()[1:] == ["", None]
        assert found.error is not None
        assert found.error.tolist() == [True, False, False]
    constant = evaluate(resolve("repeat", [Literal(TEXT, "x"), many]), Scope((), 2))
    assert constant.to_list() == [None, None]
    for pad in ("lpad", "rpad"):
        padded = evaluate(resolve(pad, [T, many, Literal(TEXT, "xy")]), scope)
        assert padded.to_list() == [None, None, None]


def test_the_limit_itself_is_no_error() -> None:
    found = evaluate(resolve("strlen", [resolve("repeat", [T, N])]), Scope(_limits(), 3))
    assert found.to_list() == [2**20, None, 2**20]
    padded = evaluate(resolve("strlen", [resolve("lpad", [T, N, Literal(TEXT, "é")])]), Scope(_limits(), 3))
    assert padded.to_list() == [None, None, 2**20]


def _limits() -> tuple[Column, Column]:
    return column("x", "x", "é"), Column(BIGINT, np.array([2**20, 2**20 + 1, 2**19]))


@pytest.mark.parametrize(
    ("name", "args"),
    [("repeat", [T, T]), ("left", [N, N]), ("chr", [T]), ("split_part", [T, N, N]), ("lpad", [T, N, N])],
)
def test_other_types_are_refused(name: str, args: list[Expr]) -> None:
    with pytest.raises(InvalidInput, match=f"{name} needs"):
        resolve(name, args)


def test_long_parts_are_replaced_and_split_at_as_in_duckdb() -> None:
    """Parts around the length from which Python looks for them; what almost is one everywhere takes no longer."""
    long = ["a" * n for n in (LONG_PART - 1, LONG_PART, LONG_PART + 1)] + ["é" * 33, "ab" * 40, "a" * 70 + "b"]
    texts = ["", *long, *[f"x{part}y{part}{part[1:]}{part}" for part in long], "é" * 300, "a" * 300]
    oracle = Oracle({"t": (TEXT, sample(texts, 3, 40)), "u": (TEXT, sample(long, 4, 40))})
    t, u = (AttributeRef(TEXT, place, name) for place, name in enumerate("tu"))
    parts = [*[Literal(TEXT, part) for part in long], u]
    exprs = [resolve("replace", [t, part, Literal(TEXT, new)]) for part in parts for new in ("", "é", "x" * 99)]
    exprs += [resolve("split_part", [t, part, Literal(BIGINT, n)]) for part in parts for n in (-2, -1, 0, 1, 2, 3)]
    oracle.compare(exprs)
    almost = resolve("replace", [t, Literal(TEXT, "a" * 50_000 + "b"), Literal(TEXT, "x")])
    whole = column_from_arrow("t", TEXT, pa.array(["a" * (1 << 20)], pa.large_string()))
    assert evaluate(resolve("length", [almost]), Scope((whole,), 1)).to_list() == [1 << 20]

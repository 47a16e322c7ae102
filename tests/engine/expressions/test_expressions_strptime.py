"""strptime and try_strptime against DuckDB: formats and texts by hand and at random, and what is refused."""

from __future__ import annotations

import random

import pytest

from psoup.errors import InvalidInput
from psoup.expressions.functions import resolve
from psoup.expressions.times.moments import SHORT
from psoup.expressions.times.strptime import MOST_PARTS, READABLE
from psoup.expressions.tree import Expr, Literal
from psoup.model import BIGINT, TEXT, TIMESTAMP
from psoup_testing.oracles.expression_oracle import Oracle, mine_text
from psoup_testing.suite.sweeps import in_parts

TEXTS = [
    *(
        "2020-02-29",
        " 2020-02-29\t ",
        "2021-02-29",
        "2020-2-9",
        "20200229",
        "2020060",
        "2021366",
        "0000-01-01",
        "1000000-01-01",
    ),
    *(
        "29.02.2020 13:14:15.5",
        "1/2/20 1 PM",
        "12 AM",
        "12 pm",
        "0 am",
        "13 am",
        "0 pm",
        "68",
        "69",
        "1.5",
        "1.1234567",
    ),
    *(
        "Feb 29, 2020",
        "feb  3, 1999",
        "Saturday 29 February 2020",
        "mon 29 FEBRUARY 2020",
        "9999-12-31 23:59:59.999999",
    ),
    *(
        "2020-02-29 10:00:00 +02",
        "2020-02-29T10:00:00.123456-0130",
        "2020-02-29T24:00:00.0Z",
        "1 +0230:15",
        "1 +02:30:99",
        "1 -023060",
        "é2020",
        "%2020",
        "",
        " ",
    ),
]
FORMATS = [
    *(
        "%Y-%m-%d",
        "%d.%m.%Y %H:%M:%S.%f",
        "%-d/%-m/%y %I %p",
        "%Y%m%d",
        "%Y%j",
        "%b %d, %Y",
        "%a %d %B %Y",
        "%A %d %B %Y",
    ),
    *("%Y-%m-%d %H:%M:%S %z", "%Y-%m-%dT%H:%M:%S.%f%z", "%c", "%x", "%X", "%I %p", "%H %p", "%y", "%S.%g", "%%%Y"),
    *(" %Y", "%Y ", "plain", "%d %z", "%m1", "%d%d", "%Y %Y", "%-S.%f", "é%Y", " "),
]
SPLIT = "0 1 2 9 12 31 2020 02 29 60 99 999 - : . / T Jan feb MAY Sunday am PM +02 -0230 +01:30 é 366 13 24 000001"
MARKS = (*READABLE, *SHORT, "-", ":", ".", " ", "1", "x", "/")


def drawn(r: random.Random, pieces: tuple[str, ...], most: int) -> str:
    return "".join(r.choice(pieces) for _ in range(r.randint(1, most)))


@in_parts(4)
def test_formats_are_read_as_duckdb_reads_them(part: slice) -> None:
    r = random.Random(13)
    texts = [*TEXTS, *(drawn(r, (*SPLIT.split(), " ", "  ", "\t"), 8) for _ in range(300))]
    oracle = Oracle({"t": (TEXT, [None, *texts])})
    exprs: list[Expr] = []
    for written in [*FORMATS, *(drawn(r, MARKS, 6) for _ in range(150))]:
        for name in ("strptime", "try_strptime"):
            try:
                exprs.append(resolve(name, [oracle.ref("t"), Literal(TEXT, written)]))
            except InvalidInput:
                assert written not in FORMATS
    assert len(exprs) > 250
    exprs = exprs[part]
    oracle.compare(exprs)
    columns = [oracle.mine(expr) for expr in exprs]
    assert sum(column.valid is None or column.valid.any() for column in columns) > 60 // 4


def test_the_word_epoch_and_infinity() -> None:
    oracle = Oracle({"t": (TEXT, ["epoch", " EPOCH ", "infinity", "-infinity", "epoch1"])})
    column = oracle.mine(resolve("strptime", [oracle.ref("t"), Literal(TEXT, "%Y")]))
    assert [mine_text(column, row) for row in range(5)] == ["0", "0", "error", "error", "error"]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("", "1 to 1,000 characters"),
        ("%Y" * 50_000, "1 to 1,000 characters"),
        ("%Y " * (MOST_PARTS + 1), f"at most {MOST_PARTS} parts"),
        ("%U %Y", "does not know '%U'"),
        ("%", "does not know '%'"),
        ("%j %m", "day of the year"),
        ("%j %j", "day of the year"),
        ("%z%Y", "where %z ends"),
        ("%z:", "where %z ends"),
    ],
)
def test_a_format_is_refused_by_what_is_wrong_with_it(written: str, told: str) -> None:
    text = Oracle({"t": (TEXT, ["a"])}).ref("t")
    for name in ("strptime", "try_strptime"):
        with pytest.raises(InvalidInput, match=told):
            resolve(name, [text, Literal(TEXT, written)])


def test_the_format_is_a_constant_and_the_text_a_text() -> None:
    oracle = Oracle({"t": (TEXT, ["a"]), "b": (BIGINT, [1])})
    assert resolve("strptime", [oracle.ref("t"), Literal(TEXT, None)]) == Literal(TIMESTAMP, None)
    with pytest.raises(InvalidInput, match="must be a constant"):
        resolve("strptime", [oracle.ref("t"), oracle.ref("t")])
    with pytest.raises(InvalidInput, match="needs TEXT, not BIGINT"):
        resolve("strptime", [oracle.ref("b"), Literal(TEXT, "%Y")])

"""Clauses that look for texts match what they matched before, be they found by their patterns or by other factors."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from psoup.admission.rows.pushes import offered
from psoup.answer.tuples.match_rows import match
from psoup.clauses import text_search
from psoup.clauses.query_stem import QuerySteM
from psoup.clauses.text_search import TextSearches
from psoup.config import EngineConfig, TextLimits
from psoup.data.data_stem import Piece
from psoup.expressions import deferral
from psoup.expressions.error_guard import guarded
from psoup.expressions.texts.like import SoughtText, sought_text
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.local import LocalPSoup
from psoup.matching import survivors, texts
from psoup.matching.new_tuples import probe
from psoup.model import BIGINT, BOOLEAN, DEFAULT_TENANT, TEXT, Attribute, Schema
from psoup.plan.factors import Factor, Interval, Term
from psoup.published.snapshot import Snapshot
from psoup.results.failures import is_lone
from psoup.results.open import OpenResults
from psoup.values.columns import Array, Column
from psoup_testing.histories.stems import (
    PATTERNS,
    REFS,
    SCHEMA,
    T_HAS_B,
    WHOLES,
    is_true,
    naive_failures,
    naive_matches,
    random_factors,
    random_piece,
    random_term,
)
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=512, delta_queries=16)


def text_factors(rng: random.Random) -> tuple[Factor, ...]:
    """One to three patterns, and usually others, some of which many tuples pass."""
    own = [is_true(expr) for expr in rng.sample(PATTERNS + WHOLES, rng.choice([1, 1, 2, 3]))]
    if rng.random() < 0.2:
        own.append(Factor((Term(REFS[0], (Interval(-5, None),), True),)))
    return (*(() if rng.random() < 0.3 else random_factors(rng)), *own)


def draw_sizes(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the sizes that decide which way is taken."""
    monkeypatch.setattr(texts, "_HITS", rng.choice([1, 65_536]))
    monkeypatch.setattr(texts, "_ROW_SHARE", rng.choice([1, 8]))
    monkeypatch.setattr(texts, "_SEARCH_COST", rng.choice([0, 64]))
    monkeypatch.setattr(text_search, "_SHARED", rng.choice([2, 1_000]))
    monkeypatch.setattr(deferral, "LEAST_ROWS", rng.choice([1, 10**9]))
    monkeypatch.setattr(deferral, "WORTH", rng.choice([1, 4]))
    monkeypatch.setattr(survivors, "_PAUSE", rng.choice([0, 2]))


@pytest.mark.parametrize("seed", swept(range(10), fast=1))
def test_texts_are_found_whatever_way_is_taken(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clauses come and go, alone and in blocks, parts are merged; a subset covers as the whole."""
    rng = random.Random(seed)
    draw_sizes(rng, monkeypatch)
    stem, results, clauses = QuerySteM(SCHEMA, CONFIG), OpenResults(CONFIG, 512), dict[int, tuple[Factor, ...]]()
    expected, start, pending, failed = dict[int, list[int]](), 0, [], Counter[int]()
    while start < 300:
        new = range(len(expected), len(expected) + rng.choice([1, 5, 30]))
        clauses |= {slot: text_factors(rng) if rng.random() < 0.8 else random_factors(rng) for slot in new}
        expected |= {slot: [] for slot in new}
        stem.add_many([(slot, clauses[slot]) for slot in new])
        for slot in rng.sample(sorted(clauses), min(len(clauses), rng.choice([0, 1, 4]))):
            stem.remove(np.array([slot]))
            del clauses[slot]
        if rng.random() < 0.5:
            pending.append(stem.merge_task(rng.random() < 0.3))
        if pending and rng.random() < 0.7:
            stem.install(pending.pop(rng.randrange(len(pending))).compute())
        piece = random_piece(rng, rng.choice([1, 40, 100]), start)
        probe(stem, piece, results)
        for slot, factors in clauses.items():
            expected[slot] += [start + row for row in naive_matches(factors, piece)]
            failed[slot] += naive_failures(factors, piece)
        start += len(piece)
        stem.check()
        results.check(start)
    assert len(stem) == len(clauses) and sorted(stem.live_slots().tolist()) == sorted(clauses)
    view = results.view(start, np.zeros(0, np.int64))
    assert {slot: view.offsets(slot, 0, start).tolist() for slot in expected} == expected
    several = [slot for slot in clauses if not is_lone(clauses[slot])]
    assert [results.failures.of(slot) for slot in several] == [failed[slot] for slot in several]
    some = rng.sample(sorted(clauses), len(clauses) // 2)
    covered, subset = OpenResults(CONFIG, 512), stem.subset(np.array(some, np.int64))
    piece = random_piece(rng, 200, 0)
    probe(subset, piece, covered)
    assert subset.slots.tolist() == sorted(some) and {slot for slot, _ in subset.clauses()} == set(some)
    view = covered.view(200, np.zeros(0, np.int64))
    assert all(view.offsets(slot, 0, 200).tolist() == naive_matches(clauses[slot], piece) for slot in some)


SCHEMA_N = Schema((Attribute("a", BIGINT), Attribute("n", TEXT)))
A, N = AttributeRef(BIGINT, 0, "a"), AttributeRef(TEXT, 1, "n")


def contains(text: str) -> Factor:
    return is_true(Call(BOOLEAN, "like", (N, Literal(TEXT, f"%{text}%"))))


def piece_of(words: list[str], keys: list[int]) -> Piece:
    data = [word.encode() for word in words]
    column = Column(TEXT, np.cumsum([0, *map(len, data)]), None, np.frombuffer(b"".join(data), np.uint8))
    return Piece((Column(BIGINT, np.array(keys)), column), np.arange(len(words)), np.arange(len(words)), 0)


def test_a_clause_is_looked_for_where_it_is_cheap() -> None:
    """One whose equality leaves few tuples is looked at there; one that most tuples may match by its text."""
    stem, results = QuerySteM(SCHEMA_N, CONFIG), OpenResults(CONFIG, 8)
    stem.add(0, (Factor((Term(A, (Interval(5, 6),)),)), contains("foo")))
    probe(stem, piece_of(["a foo", "foo", "x"] * 100, [*range(300)]), results)
    ((_, plan),) = stem.side(0).searched
    assert (plan.tuples, plan.searched, plan.evaluated.tolist()) == (300, 0, [1])
    stem.add(1, (contains("bar"),))
    probe(stem, piece_of(["a foo", "bar", "x"] * 50, [5] * 150), results)
    ((_, plan),) = stem.side(0).searched
    assert (plan.tuples, plan.searched, plan.evaluated.tolist()) == (150, 150, [0, 0])


def test_what_waits_is_evaluated_where_the_texts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind an equality and a text in few tuples, behind a text alone in those that have it."""
    monkeypatch.setattr(deferral, "LEAST_ROWS", 1)
    length, upper = Call(BIGINT, "length", (N,)), Call(TEXT, "upper", (N,))
    stem, results, rows = QuerySteM(SCHEMA_N, CONFIG), OpenResults(CONFIG, 8), dict[Expr, list[int]]()
    five = Factor((Term(A, (Interval(5, 6),)),))
    stem.add(0, (five, contains("foo"), Factor((Term(length, (Interval(5, 6),)),))))
    stem.add(1, (contains("bar"), Factor((Term(upper, (Interval(b"A", b"B"),)),))))
    words = [["a foo", "foo", "x", "a bar"][number % 4] if number % 3 else "none" for number in range(300)]

    def compute(expr: Expr, columns: Sequence[Column], ids: Array, times: Array, limits: TextLimits) -> Column:
        rows.setdefault(expr, []).extend(ids.tolist())
        return guarded(expr, columns, ids, times, limits)

    keys = [number % 10 for number in range(300)]
    probe(stem, piece_of(words, keys), results, compute=compute)
    foo = [number for number in range(300) if keys[number] == 5 and "foo" in words[number]]
    bar = [number for number in range(300) if "bar" in words[number]]
    assert (rows[length], rows[upper]) == (foo, bar) and len(foo) < 30 and len(bar) < 60
    view = results.view(300, np.zeros(0, np.int64))
    assert view.offsets(0, 0, 300).tolist() == [number for number in foo if words[number] == "a foo"]
    assert view.offsets(1, 0, 300).tolist() == bar


def test_a_long_text_is_searched_once_for_all_that_its_tuple_may_match() -> None:
    """A tuple of 100 KB took half of a second for 20,000 clauses, when it was looked at for one after the other."""
    stem, results = QuerySteM(SCHEMA_N, CONFIG), OpenResults(CONFIG, 512)
    stem.add_many(
        [(slot, (Factor((Term(A, (Interval(None, 10 + slot),)),)), contains(f"x{slot:03}"))) for slot in range(500)]
    )
    word = "y" * 5_000 + "".join(f"x{slot:03}" for slot in range(0, 500, 2))
    probe(stem, piece_of([word], [200]), results)
    ((_, plan),) = stem.side(0).searched
    assert (plan.tuples, plan.searched, plan.evaluated.sum()) == (1, 1, 0)
    view = results.view(1, np.zeros(0, np.int64))
    matched = [slot for slot in range(500) if view.offsets(slot, 0, 1).tolist()]
    assert matched == [slot for slot in range(0, 500, 2) if 10 + slot > 200]
    probe(stem, piece_of(["a short one"], [200]), results)
    assert (plan.tuples, plan.searched) == (2, 1)


@pytest.mark.parametrize("hostile", ["all match", "all equal", "prefixes", "suffixes"])
def test_hostile_patterns_are_found_once_a_tuple(hostile: str) -> None:
    """Thousands that match all tuples, that lie within one another, or are the same."""
    count, stem, results = 2_000, QuerySteM(SCHEMA_N, CONFIG), OpenResults(CONFIG, 2_000)
    every = {
        "all match": [f"{number:04}"[:4] for number in range(count)],
        "all equal": ["same"] * count,
        "prefixes": ["a" * (1 + number % 64) for number in range(count)],
        "suffixes": ["b" * (number % 60) + "a" for number in range(count)],
    }[hostile]
    stem.add_many([(slot, (contains(text),)) for slot, text in enumerate(every)])
    long = {"all match": "".join(every), "all equal": "the same same", "prefixes": "a" * 90, "suffixes": "b" * 60 + "a"}
    probe(stem, piece_of([long[hostile]] * 20 + ["x", ""], [0] * 22), results)
    view = results.view(22, np.zeros(0, np.int64))
    assert all(view.offsets(slot, 0, 22).tolist() == [*range(20)] for slot in range(count))
    if hostile == "all equal":  # the first of them are searched for, the others share an attribute
        assert stem.texts is not None and len(stem.texts) == text_search._SHARED


def periodic(number: int) -> str:
    return "a" * 50 + "".join("bcdefghijk"[int(digit)] for digit in f"{number:04}")


@pytest.mark.parametrize(
    ("factors", "matched"),
    swept(
        [
            (lambda slot: (contains(periodic(slot)),), [7]),
            (lambda slot: (Factor((Term(A, (Interval(None, 10 + slot),)),)), contains(periodic(slot))), [7]),
            (lambda slot: (contains(f"{slot:04}."), contains(periodic(slot))), [7]),
            (lambda slot: (contains("a" * (1 + slot % 64)),), [*range(3_000)]),
            (lambda slot: (is_true(Call(BOOLEAN, "like", (N, Literal(TEXT, "%" + "a" * (1 + slot % 63))))),), []),
        ],
        fast=(0, 4),
    ),
)
def test_texts_in_which_patterns_almost_begin_everywhere_are_read_once(
    factors: Callable[[int], tuple[Factor, ...]], matched: list[int]
) -> None:
    """A text of one letter, and 3,000 patterns of that letter: to compare each of them at each place took a minute."""
    stem, results = QuerySteM(SCHEMA_N, CONFIG), OpenResults(CONFIG, 3_000)
    stem.add_many([(slot, factors(slot)) for slot in range(3_000)])
    word = "".join(f"{slot:04}." for slot in range(3_000)) + periodic(7) + "a" * 500_000 + "b"
    probe(stem, piece_of([word], [5]), results)
    view = results.view(1, np.zeros(0, np.int64))
    assert [slot for slot in range(3_000) if view.offsets(slot, 0, 1).tolist()] == matched


def test_a_pattern_that_takes_long_to_compare_is_evaluated() -> None:
    """A text in which parts of the pattern begin at each place; most texts are compared byte by byte."""
    stem, results = QuerySteM(SCHEMA_N, CONFIG), OpenResults(CONFIG, 64)
    patterns = ["%zz%" + "a_" * (20 + number) + end for number in range(8) for end in ("b%", "ab", "c%")]
    whole = [is_true(Call(BOOLEAN, "like", (N, Literal(TEXT, pattern)))) for pattern in patterns]
    stem.add_many([(slot, (factor,)) for slot, factor in enumerate(whole)])
    words = ["zz" + "a" * 20_000 + "b", "zz" + "a" * 20_000, "zz" + "a" * 60 + "b", "zz", "a" * 60 + "b"]
    probe(stem, piece_of(words, [0] * 5), results)
    view = results.view(5, np.zeros(0, np.int64))
    assert stem.texts is not None and len(stem.texts) == 24
    assert [view.offsets(slot, 0, 5).tolist() for slot in range(24)] == [[0, 2], [0, 2], []] * 8


def test_which_clauses_are_searched_for() -> None:
    either = Factor((Term(A, (Interval(1, 2),)), *contains("x").terms))
    negated = Factor((Term(contains("x").terms[0].attribute, (Interval(0, 1),)),))
    for refused in (
        (),
        (either,),
        (negated,),
        (negated, contains("x")),
        (either, contains("x")),
        (is_true(T_HAS_B),),
    ):
        assert not TextSearches().takes(refused), refused
    assert TextSearches().takes((contains("x" * 65),))
    stem = QuerySteM(SCHEMA, CONFIG)
    assert stem.texts is not None
    for slot in range(20):
        stem.add(slot, (contains("x"), contains("y")))
    assert len(stem.texts) == text_search._SHARED
    stem.remove(np.arange(3))
    assert len(stem.texts) == text_search._SHARED - 3
    for slot in range(5):
        stem.add(20 + slot, (contains("x"),))
    assert len(stem.texts) == text_search._SHARED


@pytest.mark.parametrize(
    ("pattern", "escape", "wanted"),
    [
        ("%foo%", "", SoughtText(1, b"foo", False)),
        ("%é", "", SoughtText(1, "é".encode(), True)),
        ("%%a%%", "", SoughtText(1, b"a", False)),
        ("%5!%%", "!", SoughtText(1, b"5%", False)),
        ("%a_b%", "", None),
        ("%a%b%", "", None),
        ("%ab%c%", "", SoughtText(1, b"ab", False, b"\xffab\xffc\xff")),
        ("a%bcd", "", SoughtText(1, b"bcd", True, b"a\xffbcd")),
        ("%abc%d", "", SoughtText(1, b"abc", False, b"\xffabc\xffd")),
        ("_é%", "", SoughtText(1, "é".encode(), False, b"\xfe\xc3\xa9\xff")),
        ("%a!_b_%", "!", SoughtText(1, b"a_b", False, b"\xffa_b\xfe\xff")),
        ("%ab_" + "x%" * 300, "", None),
        ("%" + "xy" * 300 + "%", "", SoughtText(1, b"xy" * 256, False, b"\xff" + b"xy" * 300 + b"\xff")),
        ("%" + "xy" * 300, "", SoughtText(1, b"xy" * 256, False, b"\xff" + b"xy" * 300)),
        ("_" + "xy" * 40, "", SoughtText(1, b"xy" * 40, True, b"\xfe" + b"xy" * 40)),
        ("a%", "", None),
        ("%_", "", None),
        ("%a!", "!", None),
        ("", "", None),
    ],
)
def test_what_a_pattern_looks_for(pattern: str, escape: str, wanted: SoughtText | None) -> None:
    more = (Literal(TEXT, escape),) if escape else ()
    assert sought_text(Call(BOOLEAN, "like", (N, Literal(TEXT, pattern), *more))) == wanted


@pytest.mark.parametrize("letter", swept(["x", "é", "ab"], fast=(2,)))
def test_long_patterns_are_looked_for_by_their_beginning(letter: str) -> None:
    """Of 512 bytes, and compared whole where that is found."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (id BIGINT NOT NULL, n TEXT)")
    sizes = [2, 64, 100, 250, 255, 256, 257, 300, 512, 513, 600]
    like = ["'%{}%'", "'%{}'"]
    forms = [f"n LIKE {pattern}" for pattern in like] + ["contains(n, '{}')", "ends_with(n, '{}')", "n ILIKE '%{}%'"]
    ids = [soup.register(f"SELECT id FROM s WHERE {f.format(letter * size)}") for size in sizes for f in forms]
    soup.maintain()
    texts = [around + letter * size + end for size in sizes for around in ("", "q", letter[:-1]) for end in ("", "z")]
    texts += ["", letter * 5_000, (letter * 80 + "-") * 50]
    rows = pa.table({"id": range(len(texts)), "n": texts})
    soup.push("s", rows)
    for query, (size, form) in zip(ids, itertools.product(sizes, forms), strict=True):
        sql = f"SELECT id FROM rows WHERE {form.format(letter * size)}"
        assert soup.invoke(query).to_table().column(0).to_pylist() == [i for (i,) in duckdb.sql(sql).fetchall()], sql
    index = soup.engine.snapshot().stream("s", DEFAULT_TENANT).index
    assert index.texts is not None and len(index.texts) == len(index)


def test_what_is_looked_for_in_small_letters() -> None:
    small = Call(TEXT, "lower", (N,))
    assert sought_text(Call(BOOLEAN, "like", (small, Literal(TEXT, "%foo%")))) == SoughtText(~1, b"foo", False)
    assert sought_text(Call(BOOLEAN, "like", (Call(TEXT, "upper", (N,)), Literal(TEXT, "%F%")))) is None


def test_terms_of_other_kinds_are_not_searched_for() -> None:
    """A random term of a pattern may be NULL, FALSE or TRUE."""
    rng = random.Random(4)
    for _ in range(50):
        term = random_term(rng, PATTERNS[0])
        assert TextSearches().takes((Factor((term,)),)) == (term.intervals == (Interval(1, 2),) and not term.nulls)


def test_explain_says_for_how_many_tuples_a_text_was_looked_at() -> None:
    """Beside the tuples that came: of a pattern, of what waits, and of what most tuples need."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT NOT NULL, n TEXT NOT NULL)")
    where = ["a = 5 AND n LIKE '%foo%'", "a = 7 AND length(n) = 3", "n LIKE '%x%y%'", "n LIKE '%bar%'"]
    queries = soup.register_many([f"SELECT * FROM s WHERE {own}" for own in where[:3]])
    rows = pa.table({"a": [number % 100 for number in range(1_000)], "n": ["foo"] * 1_000})
    soup.push("s", rows)

    def lines(query: int) -> list[str]:
        return [line.split(", ")[1] for line in soup.explain(query).lines() if "derived attribute" in line]

    few = "evaluated for 10 of 1,000 new tuples"
    cost = soup.explain(queries[0]).cost
    assert (cost.tuples, cost.candidates, cost.matched_new) == (1_000, 10, 10)
    assert [lines(query) for query in queries] == [[few], [few], ["evaluated for 1,000 of 1,000 new tuples"]]
    queries = [*queries, soup.register(f"SELECT * FROM s WHERE {where[3]}")]
    assert not any("evaluated for" in line for line in soup.explain(queries[3]).lines())
    soup.push("s", rows)
    assert lines(queries[3]) == ["evaluated for 1,000 of 1,000 new tuples"]
    before = [line for query in queries for line in lines(query)]
    soup.maintain()
    assert [line for query in queries for line in lines(query)] == before
    assert [soup.invoke(query).to_table().num_rows for query in queries] == [20, 20, 0, 0]


def test_rows_are_held_against_texts_as_arrival_does_and_old_snapshots_keep_their_clauses() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=64, delta_queries=8))
    soup.execute("CREATE STREAM s (a BIGINT NOT NULL, n TEXT)")
    rng, standing = random.Random(3), list[int]()
    rows = pa.table(
        {"a": [k % 4 for k in range(50)], "n": [rng.choice(["foo bar", "xbar", "", None]) for _ in range(50)]}
    )
    taken = list[tuple[Snapshot, list[list[int]]]]()
    for turn in range(12):
        some = [
            rng.choice(["", f"a = {rng.randrange(4)} AND "]) + f"n LIKE '%{rng.choice('abfox')}%'" for _ in range(6)
        ]
        standing += [soup.register(f"SELECT a FROM s WHERE {own}") for own in some]
        for query in rng.sample(standing, 2):
            soup.unregister(query)
            standing.remove(query)
        if turn % 3 == 0:
            soup.maintain()
        found = soup.match("s", rows)
        taken.append((soup.engine.snapshot(), [found.of(row) for row in range(50)]))
        first = soup.engine.snapshot().stream("s", DEFAULT_TENANT).next_id
        soup.push("s", rows)
        assert [soup.matches("s", first + row) for row in range(50)] == taken[-1][1]
    for snapshot, wanted in taken:
        offer = offered(snapshot.stream("s", DEFAULT_TENANT).spec, rows, None, None, snapshot.config, 0)
        found = match(snapshot, "s", offer.batch, tenant=DEFAULT_TENANT)
        assert [found.of(row) for row in range(50)] == wanted

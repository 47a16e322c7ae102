"""Expressions evaluated only where they decide: the same matches and errors, and fewer evaluations."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from psoup.clauses.query_stem import QuerySteM
from psoup.config import EngineConfig, TextLimits
from psoup.data.data_stem import Piece
from psoup.expressions import deferral
from psoup.expressions.deferral import may_wait
from psoup.expressions.error_guard import guarded
from psoup.expressions.tree import Call, Expr, Literal
from psoup.matching import failures, survivors
from psoup.matching.new_tuples import probe
from psoup.matching.scan import scan
from psoup.model import BIGINT, TEXT
from psoup.plan.factors import Factor, Interval, Term
from psoup.results.failures import is_lone
from psoup.results.open import OpenResults
from psoup.values.columns import Array, Column
from psoup_testing.histories.stems import (
    A_MINUS_B,
    B_HUGE,
    DEAR,
    REFS,
    SCHEMA,
    T_HAS_B,
    T_NUMBER,
    U_LENGTH,
    naive_failures,
    naive_matches,
    random_factors,
    random_piece,
    random_term,
)
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=512, delta_queries=16)


def dear_factors(rng: random.Random) -> tuple[Factor, ...]:
    """Any factors, and one or two that are dear, alone or beside others in an OR."""
    dear = [
        Factor(
            tuple(
                random_term(rng, expr)
                for expr in dict.fromkeys([rng.choice(DEAR), *rng.sample(REFS, rng.choice([0, 0, 1]))])
            )
        )
        for _ in range(rng.choice([1, 1, 2]))
    ]
    return (*random_factors(rng), *dear)


def failures_of(stem: QuerySteM, results: OpenResults, slot: int, factors: tuple[Factor, ...]) -> int:
    """The failures of a clause as readers see them."""
    if not is_lone(factors):
        return results.failures.of(slot)
    return sum(results.errors.get(attribute, 0) for attribute in stem.attributes_of(slot).tolist())


@pytest.mark.parametrize("seed", swept(range(8), fast=1))
def test_waiting_changes_neither_matches_nor_failures(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clauses come and go; each piece is joined with all that may wait waiting, and with nothing waiting."""
    rng = random.Random(seed)
    stems, results = [QuerySteM(SCHEMA, CONFIG) for _ in range(2)], [OpenResults(CONFIG, 256) for _ in range(2)]
    monkeypatch.setattr(deferral, "WORTH", rng.choice([1, 4]))
    monkeypatch.setattr(survivors, "_PAUSE", rng.choice([0, 1]))
    monkeypatch.setattr(failures, "_ROWS", rng.choice([64, 2_048]))
    clauses, expected, start = dict[int, tuple[Factor, ...]](), dict[int, list[int]](), 0
    failed, before = dict[int, int](), dict[int, list[int]]()
    while start < 300:
        new = range(len(expected), len(expected) + rng.choice([1, 5, 30]))
        for slot in new:
            clauses[slot], expected[slot], failed[slot] = dear_factors(rng), [], 0
            for index in stems:
                index.add(slot, clauses[slot])
            both = zip(stems, results, strict=True)
            before[slot] = [failures_of(index, found, slot, clauses[slot]) for index, found in both]
        for slot in rng.sample(sorted(clauses), min(len(clauses), rng.choice([0, 1, 4]))):
            del clauses[slot]
            for index in stems:
                index.remove(np.array([slot]))
        if rng.random() < 0.5:
            for index in stems:
                index.install(index.merge_task().compute())
        piece = random_piece(rng, rng.choice([1, 40, 100]), start)
        for index, found, least in zip(stems, results, (1, 10**9), strict=True):
            monkeypatch.setattr(deferral, "LEAST_ROWS", least)
            probe(index, piece, found)
        for slot, factors in clauses.items():
            expected[slot] += [start + row for row in naive_matches(factors, piece)]
            failed[slot] += naive_failures(factors, piece)
        start += len(piece)
    assert sum(failed.values()) > 100 and any(failed[slot] and not is_lone(clauses[slot]) for slot in clauses)
    for number, (index, found) in enumerate(zip(stems, results, strict=True)):
        found.check(start)
        view = found.view(start, np.zeros(0, np.int64))
        assert {slot: view.offsets(slot, 0, start).tolist() for slot in expected} == expected
        counted = {slot: failures_of(index, found, slot, clauses[slot]) - before[slot][number] for slot in clauses}
        assert counted == {slot: failed[slot] for slot in clauses}


@pytest.mark.parametrize("seed", swept(range(4), fast=1))
def test_the_order_of_factors_changes_no_count(seed: int) -> None:
    """A clause over old tuples, its factors in any order, and many at once: the same matches, the same failures."""
    rng = random.Random(seed)
    piece = random_piece(rng, 300, 0)
    clauses = [(*dear_factors(rng), *dear_factors(rng)) for _ in range(40)]
    failing = 0
    for factors in clauses:
        wanted = naive_matches(factors, piece), naive_failures(factors, piece)
        failing += wanted[1] > 0 and len(factors) > 1
        for _ in range(3):
            some = rng.sample(factors, len(factors))
            found = scan(some, piece.columns, piece.ids, piece.times)
            assert (np.flatnonzero(found.mask).tolist(), found.errors) == wanted
    assert failing > 3
    stem, covered = QuerySteM(SCHEMA, CONFIG), OpenResults(CONFIG, 64)
    stem.add_many([(slot, factors) for slot, factors in enumerate(clauses)])
    probe(stem.subset(np.arange(40)), piece, covered)
    assert [failures_of(stem, covered, slot, own) for slot, own in enumerate(clauses)] == [
        naive_failures(own, piece) for own in clauses
    ]


def counting(rows: dict[Expr, list[int]]) -> object:
    def compute(expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits) -> Column:
        rows.setdefault(expr, []).extend(ids.tolist())
        return guarded(expr, columns, ids, times, texts)

    return compute


def equal(expr: Expr, value: int) -> Factor:
    return Factor((Term(expr, (Interval(value, value + 1),)),))


def test_an_expression_is_evaluated_for_all_clauses_that_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tuples that one clause leaves, or the other; none for what no tuple reaches."""
    monkeypatch.setattr(deferral, "LEAST_ROWS", 1)
    stem, results = QuerySteM(SCHEMA, CONFIG), OpenResults(CONFIG, 8)
    stem.add(0, (equal(REFS[0], 5), equal(T_HAS_B, 1)))
    stem.add(1, (equal(REFS[0], 7), equal(REFS[1], 0), equal(T_HAS_B, 1)))
    stem.add(2, (equal(REFS[0], 8), equal(U_LENGTH, 3)))
    a = np.arange(400) % 100
    a[a == 8] = 9
    whole = random_piece(random.Random(1), 400, 0)
    piece = Piece((Column(BIGINT, a), Column(BIGINT, a * 0), *whole.columns[2:]), whole.ids, whole.times, 0)
    rows = dict[Expr, list[int]]()
    probe(stem, piece, results, compute=counting(rows))  # type: ignore[arg-type]
    assert rows[T_HAS_B] == [row for row in range(400) if a[row] in (5, 7)]
    assert U_LENGTH not in rows
    (attribute,) = (own for own in stem.attributes_of(0).tolist() if stem.attributes[own] == T_HAS_B)
    assert (stem.waits.seen[attribute].tuples, stem.waits.seen[attribute].evaluated) == (400, 8)


def test_what_most_tuples_need_is_evaluated_for_all_and_not_asked_again_for_a_while() -> None:
    stem, results, rows = QuerySteM(SCHEMA, CONFIG), OpenResults(CONFIG, 8), dict[Expr, list[int]]()
    stem.add(0, (Factor((Term(REFS[0], (Interval(0, None),)),)), equal(U_LENGTH, 3)))
    piece = random_piece(random.Random(1), 300, 0)
    probe(stem, piece, results, compute=counting(rows))  # type: ignore[arg-type]
    assert rows[U_LENGTH] == list(range(300))
    (attribute,) = stem.waits.seen
    assert stem.waits.seen[attribute].pause > 1 and not stem.waits.due(attribute)


def test_what_is_heavier_waits_for_what_is_lighter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two expressions and nothing else: the lighter one for all tuples, from the second piece on the other for few."""
    monkeypatch.setattr(deferral, "LEAST_ROWS", 1)
    stem, results, rows = QuerySteM(SCHEMA, CONFIG), OpenResults(CONFIG, 8), dict[Expr, list[int]]()
    heavy = Call(TEXT, "upper", (Call(TEXT, "lower", (REFS[4],)),))
    stem.add(0, (Factor((Term(heavy, (Interval(b"A", b"B"),)),)), equal(U_LENGTH, 8)))
    whole = random_piece(random.Random(3), 200, 0)
    expected = naive_matches(((equal(U_LENGTH, 8)), Factor((Term(heavy, (Interval(b"A", b"B"),)),))), whole)
    for number in range(2):
        rows.clear()
        piece = Piece(whole.columns, whole.ids + 200 * number, whole.times, 200 * number)
        probe(stem, piece, results, compute=counting(rows))  # type: ignore[arg-type]
        assert len(rows[U_LENGTH]) == 200
        assert (len(rows[heavy]) == 200) == (number == 0) and len(rows[heavy]) >= len(expected) > 0
    view = results.view(400, np.zeros(0, np.int64))
    assert view.offsets(0, 0, 400).tolist() == [*expected, *(200 + row for row in expected)]


def test_what_reads_or_makes_a_text_waits() -> None:
    number, text = Call(BIGINT, "cast", (REFS[2],)), Call(TEXT, "cast", (REFS[0],))
    sum_of_length = Call(BIGINT, "add", (REFS[0], U_LENGTH))
    assert all(map(may_wait, (T_HAS_B, U_LENGTH, T_NUMBER, number, text, sum_of_length)))
    assert not any(map(may_wait, (REFS[2], Literal(TEXT, "a"), Call(BIGINT, "add", (REFS[0], REFS[1])))))


def test_what_fails_is_evaluated_only_where_it_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeded: a factor skipped because another clause's index said no, an error counted where the clause was false."""
    monkeypatch.setattr(deferral, "LEAST_ROWS", 1)
    stem, results, rows = QuerySteM(SCHEMA, CONFIG), OpenResults(CONFIG, 8), dict[Expr, list[int]]()
    stem.add(0, (equal(REFS[0], 5), equal(T_NUMBER, 1)))
    stem.add(1, (equal(REFS[0], 7), equal(T_NUMBER, 1), equal(U_LENGTH, 1)))
    stem.add(2, (equal(REFS[0], 7), equal(A_MINUS_B, 7), equal(B_HUGE, 0)))
    whole = random_piece(random.Random(1), 400, 0)
    a = np.arange(400) % 100
    texts = [[b"1", b"x", b""][row % 3] for row in range(400)]
    text = Column(TEXT, np.cumsum([0, *map(len, texts)]), None, np.frombuffer(b"".join(texts), np.uint8))
    columns = (Column(BIGINT, a), Column(BIGINT, a * 0), text, whole.columns[3], text)
    probe(stem, Piece(columns, whole.ids, whole.times, 0), results, compute=counting(rows))  # type: ignore[arg-type]
    assert rows[T_NUMBER] == [row for row in range(400) if a[row] in (5, 7)]
    five, seven = ([row for row in range(400) if a[row] == own and texts[row] != b"1"] for own in (5, 7))
    short = [row for row in seven if len(texts[row]) == 1]
    assert [results.failures.of(slot) for slot in range(3)] == [len(five), len(short), 0]
    assert 0 < len(short) < len(seven) and not results.errors
    stem.add(3, (equal(T_NUMBER, 1),))
    probe(stem, Piece(columns, whole.ids, whole.times, 0), results)
    (attribute,) = stem.attributes_of(3).tolist()
    assert results.errors == {attribute: sum(own != b"1" for own in texts)}
    assert [results.failures.of(slot) for slot in range(4)] == [2 * len(five), 2 * len(short), 0, 0]

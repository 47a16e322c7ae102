"""What is evaluated only where it decides: the same matches and errors, and fewer evaluations."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from psoup.clauses.query_stem import QuerySteM
from psoup.columns import Array, Column
from psoup.config import EngineConfig, TextLimits
from psoup.data.data_stem import Piece
from psoup.expressions import waiting
from psoup.expressions.guarded import guarded
from psoup.expressions.tree import Call, Expr, Literal
from psoup.expressions.waiting import may_wait, short
from psoup.matching import survivors
from psoup.matching.new_tuples import probe
from psoup.model import BIGINT, BOOLEAN, TEXT
from psoup.plan.factors import Factor, Interval, Term
from psoup.results.open import OpenResults
from psoup_testing.stems import (
    DEAR,
    REFS,
    SCHEMA,
    T_HAS_B,
    T_NUMBER,
    U_LENGTH,
    naive_matches,
    random_factors,
    random_piece,
    random_term,
)

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


def errors_of(results: OpenResults, names: dict[int, Expr]) -> Counter[Expr]:
    """The errors of each expression, which may have had several numbers: a merge forgets those that no clause needs."""
    errors = Counter[Expr]()
    for attribute, count in results.errors.items():
        errors[names[attribute]] += count
    return errors


@pytest.mark.parametrize("seed", range(8))
def test_waiting_changes_neither_matches_nor_errors(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clauses come and go; each piece is joined with all that may wait waiting, and with nothing waiting."""
    rng = random.Random(seed)
    stem, plain, clauses = QuerySteM(SCHEMA, CONFIG), QuerySteM(SCHEMA, CONFIG), dict[int, tuple[Factor, ...]]()
    monkeypatch.setattr(waiting, "WORTH", rng.choice([1, 4]))
    monkeypatch.setattr(survivors, "_PAUSE", rng.choice([0, 1]))
    results, others = OpenResults(CONFIG, 256), OpenResults(CONFIG, 256)
    expected, names, start = dict[int, list[int]](), [dict[int, Expr](), dict[int, Expr]()], 0
    while start < 300:
        for slot in range(len(expected), len(expected) + rng.choice([1, 5, 30])):
            clauses[slot], expected[slot] = dear_factors(rng), []
            for index in (stem, plain):
                index.add(slot, clauses[slot])
        for slot in rng.sample(sorted(clauses), min(len(clauses), rng.choice([0, 1, 4]))):
            del clauses[slot]
            stem.remove(slot)
            plain.remove(slot)
        for index, known in zip((stem, plain), names, strict=True):
            known.update(index.attributes)
        if rng.random() < 0.5:
            for index in (stem, plain):  # a merge also forgets expressions, whose errors count no more
                index.install(index.merge_task().compute())
        piece = random_piece(rng, rng.choice([1, 40, 100]), start)
        monkeypatch.setattr(waiting, "LEAST_ROWS", 1)
        probe(stem, piece, results)
        monkeypatch.setattr(waiting, "LEAST_ROWS", 10**9)
        probe(plain, piece, others)
        for slot, factors in clauses.items():
            expected[slot] += [start + row for row in naive_matches(factors, piece)]
        start += len(piece)
    assert errors_of(results, names[0]) == errors_of(others, names[1])
    for view in (results.view(start, np.zeros(0, np.int64)), others.view(start, np.zeros(0, np.int64))):
        assert {slot: view.offsets(slot, 0, start).tolist() for slot in expected} == expected


def counting(rows: dict[Expr, list[int]]) -> object:
    def compute(expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits) -> Column:
        rows.setdefault(expr, []).extend(ids.tolist())
        return guarded(expr, columns, ids, times, texts)

    return compute


def equal(expr: Expr, value: int) -> Factor:
    return Factor((Term(expr, (Interval(value, value + 1),)),))


def test_an_expression_is_evaluated_for_all_clauses_that_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tuples that one clause leaves, or the other; none for what no tuple reaches."""
    monkeypatch.setattr(waiting, "LEAST_ROWS", 1)
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


def test_what_may_have_errors_does_not_wait() -> None:
    contains = Call(BOOLEAN, "contains", (REFS[2], Literal(TEXT, "x")))
    assert all(map(may_wait, (T_HAS_B, U_LENGTH, contains)))
    unsound = Call(BOOLEAN, "like", (REFS[2], Literal(TEXT, "%a\\"), Literal(TEXT, "\\")))
    replaced = Call(TEXT, "replace", (REFS[2], REFS[2], REFS[4]))
    huge = Call(BOOLEAN, "and", (T_HAS_B,) * 20)
    assert not any(map(may_wait, (T_NUMBER, unsound, replaced, huge, REFS[2], Literal(TEXT, "a"))))
    columns = random_piece(random.Random(2), 100, 0).columns
    assert short(U_LENGTH, columns, TextLimits())
    assert not short(U_LENGTH, columns, TextLimits(value=100)) and not short(U_LENGTH, columns, TextLimits(together=99))

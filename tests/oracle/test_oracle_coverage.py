"""The coverage counter of the suite: every factor kind, type, path, form and window meets its partners, or this fails.

A directed sweep: each factor kind about each type it is for, alone and under AND, OR and NOT, registered before the
data and after it, with sizes that force dense and sparse emission, lists and bitmaps. All answers are compared with
DuckDB, as everywhere. What T10 and T8 met in the same process counts too, but is not needed.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import strategies as st

from psoup.config import EngineConfig
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Attribute, DataType, Schema, decimal
from psoup_testing.histories.expressions import Maker, Scope, column
from psoup_testing.histories.histories import BASE, EAGER, MAX_AHEAD, SPAN, Invoke, draw_pools, make_rows
from psoup_testing.histories.predicates import FACTORS, Junction, Negation, Predicate, leaf_of
from psoup_testing.histories.queries import Query, draw_outputs
from psoup_testing.histories.values import Value
from psoup_testing.histories.windows import WINDOW_KINDS, draw_window
from psoup_testing.oracles.duel import Duel
from psoup_testing.oracles.model import Declaration
from psoup_testing.suite.budget import SEED, run_round
from psoup_testing.suite.coverage import COVERAGE, FORMS, JUNCTIONS, PATHS

TYPES = (BOOLEAN, BIGINT, DOUBLE, decimal(9, 2), TEXT, TIMESTAMP, DATE)
ATTRIBUTES = tuple(Attribute(f"{t.kind.value.lower()}{n}", t) for t in TYPES for n in (1, 2))
DECLARATION = Declaration("s", Schema((Attribute("ts", TIMESTAMP), *ATTRIBUTES)), 0)
NUMBERS: dict[DataType, tuple[Value, ...]] = {BIGINT: (12, 7), DOUBLE: (12.0, 7.0), TEXT: ("12", "7", "7")}
"""Added to what is drawn, so that CAST of a text meets its constants."""
CONFIGS = (
    EngineConfig(chunk_rows=64, dense_share=1 << 40, sparse_floor=0, list_limit=0, ahead=MAX_AHEAD, shape=EAGER),
    EngineConfig(
        chunk_rows=64,
        dense_share=1,
        generous_rows=0,
        list_limit=1024,
        delta_queries=16,
        ahead=MAX_AHEAD,
        shape=EAGER,
    ),
)
MOST_ROUNDS = 6
"""Rounds over all types and sizes in which every pair must have been met; one or two are needed."""


@pytest.mark.long
def test_every_kind_meets_every_other() -> None:
    for number in range(SEED, SEED + MOST_ROUNDS):
        for data_type, config in product(wanting(), CONFIGS):
            run_round(number, partial(sweep, data_type=data_type, config=config), examples=2)
        if not COVERAGE.missing():
            break
    assert COVERAGE.missing() == []


def wanting() -> list[DataType]:
    """The types about which a pair that is missing can be drawn."""
    words = {word for cell in COVERAGE.missing() for word in cell[1:]}
    kinds = {kind for factor in words & set(FACTORS) for kind in FACTORS[factor][0]}
    return [t for t in TYPES if t.kind in kinds or not words <= {*FACTORS, *FORMS, *PATHS, *WINDOW_KINDS}]


def sweep(draw: Any, data_type: DataType, config: EngineConfig) -> int:
    """All factor kinds about one type, registered before the data, and again after it; kept open, then sealed."""
    if draw(st.integers(0, 1 << 32)) == 0:
        return 0  # the simplest example, with which Hypothesis begins, has the same value everywhere
    drawn = draw_pools(Maker(draw, Scope(Schema(()), ())), DECLARATION)
    pools = tuple(
        (*pool, *NUMBERS.get(a.type, ())) for a, pool in zip(DECLARATION.schema.attributes, drawn, strict=True)
    )
    make = Maker(draw, Scope(DECLARATION.schema, pools), 1)
    duel = Duel(DECLARATION, config)
    first = predicates(make, data_type)
    numbers = register(duel, make, first, 0)
    for count in (1, 90, 60):
        duel.push(make_rows(duel.declaration, pools, count, 100 + count, make.number(0, 1 << 16)))
    ask(duel, make, numbers, 1)
    duel.psoup.maintain()
    ask(duel, make, numbers, 2)
    ask(duel, make, register(duel, make, predicates(make, data_type), 3), 0)
    duel.psoup.check()
    duel.close()
    return duel.compared


def register(duel: Duel, make: Maker, wheres: list[Predicate], turn: int) -> range:
    """Register all; returns their numbers. Kinds of windows go round, `turn` ahead."""
    numbers = range(duel.registrations, duel.registrations + len(wheres))
    for at, where in enumerate(wheres, turn):
        window = draw_window(make, WINDOW_KINDS[at % 4], BASE, SPAN)
        duel.register(Query("s", tuple(make.scope.columns()), draw_outputs(make), where, window=window))
    return numbers


def ask(duel: Duel, make: Maker, numbers: range, turn: int) -> None:
    """Invoke all in their own window, and in one of another kind."""
    for at, number in enumerate(numbers, turn):
        duel.invoke(Invoke(number))
        duel.invoke(Invoke(number, None, draw_window(make, WINDOW_KINDS[at % 4], BASE, SPAN)))


def predicates(make: Maker, data_type: DataType) -> list[Predicate]:
    """Each factor kind about a type, and each junction over two leaves about it."""
    name = data_type.kind.value.lower()
    subject, other = column(name + "1", data_type), column(name + "2", data_type)
    allowed = [factor for factor, (kinds, _) in FACTORS.items() if data_type.kind in kinds]
    found: list[Predicate] = [leaf_of(make, factor, subject) for factor in allowed]
    for word in JUNCTIONS:
        leaf = leaf_of(make, make.pick(allowed), subject)
        second = leaf_of(make, make.pick(allowed), other)
        found.append(Negation(leaf) if word == "not" else Junction(word.upper(), (leaf, second)))
    return found

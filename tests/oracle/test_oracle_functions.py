"""Every function and operator of the generator meets new tuples, old ones, and an answer; DuckDB says what is right.

Each is drawn in conditions that are registered before the data (arrival), after it (asked while uncovered: invocation)
and kept by maintenance then (cover), evaluated anew by a start that reads the log (restart), and in SELECT lists. The
counter of coverage says what was met.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import strategies as st

from psoup.config import EngineConfig
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Attribute, DataType, Schema, decimal
from psoup_testing.engines.restarts import Made, making
from psoup_testing.histories.expressions import COMPARISONS, FORMS, Expression, Maker, Scope
from psoup_testing.histories.histories import BASE, EAGER, MAX_AHEAD, SPAN, Invoke, draw_pools, make_rows
from psoup_testing.histories.predicates import Leaf, condition
from psoup_testing.histories.queries import Query
from psoup_testing.histories.windows import draw_window
from psoup_testing.oracles.duel import Duel
from psoup_testing.oracles.model import Declaration
from psoup_testing.suite.budget import SEED, run_round
from psoup_testing.suite.coverage import COVERAGE, Cell, every_function

TYPES = (BOOLEAN, BIGINT, DOUBLE, decimal(9, 2), TEXT, TIMESTAMP, DATE)
ATTRIBUTES = tuple(Attribute(f"{t.kind.value.lower()}{n}", t) for t in TYPES for n in (1, 2))
DECLARATION = Declaration("s", Schema((Attribute("ts", TIMESTAMP), *ATTRIBUTES)), 0)
CONFIG = EngineConfig(chunk_rows=64, ahead=MAX_AHEAD, shape=EAGER)
MEMORY = next((folder for folder in ("/dev/shm",) if Path(folder).is_dir()), None)
"""Where a log is synced in no time: what a disk keeps is for other tests to say."""
Forms = Sequence[tuple[Any, str]]
"""Forms of expressions, each with one of its spellings."""
ROUNDS = 12
"""Rounds in which each function must have been met in each way: constants may make a clause empty. From the second on
those are drawn that were not."""


@pytest.mark.long
@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_every_function_is_met_in_every_way(data_type: DataType) -> None:
    forms = [(form, text) for form in FORMS[data_type.kind] for text in form.spelled()]
    for number in range(SEED, SEED + ROUNDS):
        run_round(number, partial(sweep, data_type=data_type, forms=forms), examples=2)
        names = {cell[1] for cell in unseen(data_type)}
        forms = [(form, text) for form, text in forms if not names.isdisjoint(words(text))]
        if not forms:
            break
    assert unseen(data_type) == []


def words(text: str) -> Iterable[str]:
    """The functions and operators of a form."""
    return Expression(BOOLEAN, text).functions()


def unseen(data_type: DataType) -> list[Cell]:
    own = {word for form in FORMS[data_type.kind] for text in form.spelled() for word in words(text)}
    assert own <= every_function()
    return [cell for cell in COVERAGE.unseen() if cell[1] in own]


def sweep(draw: Any, data_type: DataType, forms: Forms) -> int:
    """Forms of one type in conditions, each drawn twice; a start reads the log of the first."""
    if draw(st.integers(0, 1 << 32)) == 0:
        return 0  # the simplest example has the same value everywhere
    with TemporaryDirectory(dir=MEMORY) as folder, making(Path(folder)) as made:
        return _swept(draw, data_type, forms, made)


def _swept(draw: Any, data_type: DataType, forms: Forms, made: Made) -> int:
    pools = draw_pools(Maker(draw, Scope(Schema(()), ())), DECLARATION)
    make = Maker(draw, Scope(DECLARATION.schema, pools), 0)
    duel = Duel(DECLARATION, CONFIG, make=made)
    first = register(duel, make, data_type, forms)
    for count in (1, 80, 60):
        duel.push(make_rows(DECLARATION, pools, count, 100 + count, make.number(0, 1 << 16)))
    made.soup.restart()
    for number in first:
        if number in duel.standing:
            duel.invoke(Invoke(number))
            COVERAGE.restarted(duel.standing[number].query)
    later = register(duel, make, data_type, forms)
    for number in later:
        duel.invoke(Invoke(number))
    duel.psoup.maintain()
    duel.psoup.check()
    for number in (*first, *later):
        duel.invoke(Invoke(number))
    duel.close()
    return duel.compared


def register(duel: Duel, make: Maker, data_type: DataType, forms: Forms) -> range:
    """A query for each form of the type and each of its words."""
    numbers = duel.registrations
    for form, text in forms:
        value = Maker.fill(make, data_type, type(form)(text, form.args, (), form.duck))
        where = (
            value
            if data_type == BOOLEAN
            else condition(f"{{0}} {make.pick(COMPARISONS)} {{1}}", value, make.constant(data_type))
        )
        window = draw_window(make, "landmark", BASE, SPAN)
        duel.register(
            Query("s", tuple(make.scope.columns()), (value,), Leaf("function", data_type.kind, where), window=window)
        )
    return range(numbers, duel.registrations)

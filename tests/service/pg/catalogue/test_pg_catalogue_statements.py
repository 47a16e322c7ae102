"""The catalogue answers each statement that clients of PostgreSQL were seen to send, with PostgreSQL's columns."""

from __future__ import annotations

import pytest

from psoup_service.pg.catalogue.long_lists import FIRST, shortened
from psoup_service.pg.catalogue.store import Store
from psoup_testing.pg.catalogue import answer, described, recorded, store
from psoup_testing.suite.sweeps import in_parts


@pytest.fixture(scope="module")
def filled() -> Store:
    """A store with streams and views."""
    return store()


@in_parts(3)
def test_recorded_statements_have_the_columns_and_types_of_postgresql(part: slice) -> None:
    wrong = [(entry.client, entry.text) for entry in recorded()[part] if described(entry) != entry.columns]
    assert not wrong


@pytest.mark.long
def test_some_recorded_statements_are_answered(filled: Store) -> None:
    for entry in recorded()[::12]:
        table = answer(filled, entry.text, entry.arguments)
        assert table.column_names == [name for name, _ in entry.columns], entry.text


@pytest.mark.long
def test_each_recorded_statement_is_answered(filled: Store) -> None:
    for entry in recorded():
        table = answer(filled, entry.text, entry.arguments)
        assert table.column_names == [name for name, _ in entry.columns], entry.text


def test_long_lists_of_numbered_parameters_become_arrays() -> None:
    items = ", ".join(f"${number}" for number in range(1, 3_001))
    text = f"SELECT oid FROM pg_class WHERE oid IN ({items}) OR relnamespace IN ({items})"
    short, lists = shortened(text)
    assert short == f"SELECT oid FROM pg_class WHERE oid IN (${FIRST}) OR relnamespace IN (${FIRST + 1})"
    assert [len(numbers) for numbers in lists] == [3_000, 3_000]
    assert shortened(f"{text} AND oid = ${FIRST}")[1] == []  # a parameter that could be taken for a list

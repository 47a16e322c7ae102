"""Keys of groups as numbers: by the values, whatever the parts, and refused when they are too many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.aggregates import numbers
from psoup.aggregates.keys import Keys
from psoup.errors import ResourceExhausted
from psoup.model import BIGINT, DOUBLE, TEXT, DataType
from psoup.values.columns import Column, concat_columns
from psoup.values.from_arrow import column_from_arrow
from psoup_testing.histories.values import arrow_array
from psoup_testing.oracles.aggregates import TYPES, random_column, values_of
from psoup_testing.suite.sweeps import swept


def _shown(value: Any) -> Any:
    """A key as it is shown, and told from others."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _place(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Where a key stands among others: NULL last, NaN before it; texts by bytes."""
    kinds = [
        (2, 0) if v is None else (1, 0) if v == "NaN" else (0, v.encode() if isinstance(v, str) else v) for v in key
    ]
    return tuple(kinds)


@pytest.mark.seeded("NULL is grouped with 0 or an empty text")
@pytest.mark.parametrize("seed", swept(range(30), fast=8))
def test_numbers_name_the_values_in_any_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    types = [TYPES[int(k)] for k in rng.integers(0, len(TYPES), int(rng.integers(1, 4)))]
    types = [DOUBLE if kind is types[0] and seed % 5 == 0 and kind is not TEXT else kind for kind in types]
    sizes = rng.choice([0, 1, 40, 3_000], 3).tolist()
    parts = [[random_column(rng, kind, size) for kind in types] for size in sizes]
    keys = Keys(types, 100_000, lambda size: None)
    numbers = np.concatenate([keys.number(part).copy() for part in parts])
    rows = [
        tuple(map(_shown, row))
        for row in zip(*[values_of(concat_columns(c)) for c in zip(*parts, strict=True)], strict=True)
    ]
    names: dict[tuple[Any, ...], int] = {}
    assert numbers.tolist() == [names.setdefault(row, len(names)) for row in rows]
    order = keys.order()
    shown = list(zip(*[map(_shown, values_of(column)) for column in keys.columns(order)], strict=True))
    assert shown == sorted(names, key=_place)


def test_keys_far_apart_and_many_of_them() -> None:
    rng = np.random.default_rng(3)
    for values in (
        rng.integers(-(2**63), 2**63 - 1, 50_000),
        rng.permutation(50_000) + 2**62,
        np.array([2**63 - 1, -(2**63)]),
    ):
        keys = Keys([BIGINT], 100_000, lambda size: None)
        parts = np.array_split(values, 3)
        numbers = np.concatenate([keys.number([Column(BIGINT, part)]).copy() for part in parts])
        assert (keys.columns(numbers.astype(np.int64))[0].values == values).all()
        assert (keys.columns(keys.order())[0].values == np.unique(values)).all()


@pytest.mark.parametrize("values", [np.arange(3_000), np.arange(3_000) << 40])
def test_more_keys_than_may_be_are_refused_before_memory_is_taken(values: Any) -> None:
    taken: list[int] = []
    keys = Keys([BIGINT], 2_000, taken.append)
    with pytest.raises(ResourceExhausted, match="group_keys") as refused:
        keys.number([Column(BIGINT, values)])
    assert refused.value.reason == "GROUP_BUDGET"
    assert sum(taken) < 200_000
    with pytest.raises(ResourceExhausted, match="2,000"):
        Keys([TEXT], 2_000, taken.append).number([_texts(values)])


def _texts(values: Any) -> Column:
    texts = [str(value).encode() for value in values.tolist()]
    return Column(
        TEXT, np.cumsum([0, *map(len, texts)]).astype(np.int64), None, np.frombuffer(b"".join(texts), np.uint8)
    )


@pytest.mark.seeded("a reader numbers keys where others read")
@pytest.mark.parametrize("kinds", [("near",), ("far",), ("text",), ("double", "text"), ("near", "far")])
def test_readers_of_the_same_groups_do_not_see_what_others_number(kinds: tuple[str, ...]) -> None:
    """One table of keys for all readers, or arrays that they share and write to, would show one the keys of another."""

    makers: dict[str, tuple[DataType, Callable[[int], Any]]] = {
        "near": (BIGINT, lambda n: n),
        "far": (BIGINT, lambda n: (n - 500) << 48),
        "text": (TEXT, lambda n: f"t{n:04}"),
        "double": (DOUBLE, lambda n: n / 2),
    }

    def columns(numbers: Iterable[int]) -> list[Column]:
        made = [(kind, arrow_array(kind, [*map(value, numbers)])) for kind, value in map(makers.__getitem__, kinds)]
        return [column_from_arrow("k", kind, values) for kind, values in made]

    def shown(keys: Keys) -> list[list[Any]]:
        return [values_of(column) for column in keys.columns(np.arange(keys.count))]

    base = Keys.of(columns(range(0, 900, 3)))
    before = shown(base)
    all_of_them = [values_of(column) for column in columns([*range(0, 900, 3), *(k for k in range(898) if k % 3)])]
    readers = [base.fork(100_000, lambda size: None) for _ in range(2)]
    for start in range(0, 900, 300):  # in turns, between the keys that are there and beyond them
        for number, reader in enumerate(readers, 1):
            reader.number(columns(range(start + number, 2 * start + 300 + number, 3)))
            assert shown(base) == before
            later = base.fork(100_000, lambda size: None)
            later.number(columns(range(898)))
            assert shown(later) == all_of_them
    for number, reader in enumerate(readers, 1):
        more = dict.fromkeys(k for s in range(0, 900, 300) for k in range(s + number, 2 * s + 300 + number, 3))
        assert shown(reader) == [values_of(column) for column in columns([*range(0, 900, 3), *more])]
        assert reader.number(columns(range(0, 900, 3))).tolist() == list(range(300))


@pytest.mark.seeded("a fork of a table of keys has no bound, or that of who made the table")
def test_a_fork_holds_the_bounds_of_its_reader() -> None:
    def column(values: list[int]) -> Column:
        return Column(BIGINT, np.array(values))

    table = Keys.of([column(list(range(100)))])
    held = list[int]()
    fork = table.fork(100, held.append)
    assert fork.number([column([7, 3])]).tolist() == [7, 3]
    assert not held, "as long as nothing comes to it it takes no memory"
    with pytest.raises(ResourceExhausted, match="more than 100 keys"):
        fork.number([column([100])])
    table.fork(101, held.append).number([column([100])])
    assert sum(held) > 800


def test_very_many_texts_are_in_the_order_of_their_bytes_and_a_reader_is_asked_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Zeros, texts that begin others, NULL, bytes above 127, lengths about eight and sixteen."""
    monkeypatch.setattr(numbers, "_SORTED_BY_WORDS", 1)
    rng, held = np.random.default_rng(3), list[int]()
    lengths = rng.choice([0, 1, 7, 8, 9, 15, 16, 17, 63, 64], 400)
    texts = ["".join(rng.choice(list("\0ab\x7fé"), length // 2)) for length in lengths]
    texts += ["b" * k for k in range(64)] + ["a\0", "a", "a\0\0"]
    column = column_from_arrow("s", TEXT, pa.array([*texts, None], pa.string()))
    found = Keys([TEXT], 1 << 20, held.append)
    found.number([column])
    assert held.count(0) == 0
    (ordered,) = found.columns(found.order())
    distinct = sorted({text.encode() for text in texts})
    assert [None if v is None else v.encode() for v in ordered.to_arrow().to_pylist()] == [*distinct, None]
    assert held.count(0) == 8, "a look before each word of the longest"
    longer = Keys([TEXT], 1 << 20, held.append)
    longer.number([column_from_arrow("s", TEXT, pa.array(["b" * 65, "a" * 70], pa.string()))])
    assert longer.order().tolist() == [1, 0]

"""The copy-on-write map: what was published stays, whatever the writer does next."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from psoup.published.paged_map import PagedMap
from psoup.published.record_block import RecordBlock

CHANGES = st.lists(st.tuples(st.sampled_from(["set", "remove", "freeze"]), st.integers(0, 1_500)), max_size=60)


@given(CHANGES)
def test_behaves_as_a_dictionary_and_old_maps_stay(changes: list[tuple[str, int]]) -> None:
    model: dict[int, int] = {}
    editor = PagedMap[int]().edit()
    published: list[tuple[PagedMap[int], dict[int, int]]] = []
    for step, (kind, key) in enumerate(changes):
        if kind == "set":
            editor.set(key, step)
            model[key] = step
        elif kind == "remove" and key in model:
            editor.remove(key)
            del model[key]
        elif kind == "freeze":
            published.append((editor.freeze(), dict(model)))
        assert editor.get(key) == model.get(key)
        assert len(editor) == len(model)
    published.append((editor.freeze(), dict(model)))
    for frozen, expected in published:
        assert dict(frozen.items()) == expected
        assert list(frozen.items()) == sorted(expected.items())
        assert len(frozen) == len(expected)


@given(st.sets(st.integers(0, 3_000)), st.integers(0, 3_000))
def test_items_from_a_key(keys: set[int], start: int) -> None:
    editor = PagedMap[int]().edit()
    for key in keys:
        editor.set(key, -key)
    assert [key for key, _ in editor.freeze().items(start)] == sorted(key for key in keys if key >= start)


@given(st.sets(st.integers(0, 3_000)), st.integers(0, 3_000), st.booleans())
def test_the_last_key_before_a_bound(keys: set[int], bound: int, blocks: bool) -> None:
    editor = PagedMap[int]().edit()
    keys -= {*range(3, 8), *range(bound, bound + 5)} if blocks else set()
    for key in keys:
        editor.set(key, -key)
    below = {key for key in keys if key < bound}
    if blocks and bound > 10:
        editor.add_block(RecordBlock[int](range(3, 8)))
        editor.add_block(RecordBlock[int](range(bound, bound + 5)))
        below.add(7)
    assert editor.freeze().last_before(bound) == max(below, default=-1)


def test_the_last_key_is_found_without_a_step_for_each_key() -> None:
    class Page(dict[int, int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal steps
            for key in super().__iter__():
                steps += 1
                yield key

    steps = 0
    pages: dict[int, dict[int, int]] = {n: Page({n * 8 + place: 0 for place in range(8)}) for n in range(1_000)}
    assert PagedMap(pages, 8_000, page=8).last_before(7_999) == 7_998
    assert steps <= 16

"""The differences between two versions of a copy-on-write map, found without a look at what both share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from psoup.published.map_changes import changes
from psoup.published.paged_map import Editor, PagedMap
from psoup.published.record_block import RecordBlock
from psoup.values.columns import Array

_STEPS = st.lists(st.tuples(st.sampled_from(["set", "remove", "remove", "block"]), st.integers(0, 60)), max_size=25)


class _Block(RecordBlock[str]):
    def make(self, at: int) -> str:
        return f"of a block: {self.ids[at]}"

    def taken(self, rows: Array | None) -> _Block:
        return _Block(self.ids if rows is None else np.asarray(self.ids)[rows])


def _edited(before: PagedMap[str], steps: list[tuple[str, int]], generation: str) -> PagedMap[str]:
    editor = before.edit()
    for kind, key in steps:
        if kind == "remove" and editor.get(key) is not None:
            editor.remove(key)
        elif kind == "set" and not editor.in_block(key):
            editor.set(key, f"{generation}: {key}")
        elif kind == "block" and _has_place(editor, key):
            editor.add_block(_Block(range(key, key + 5)))
    return editor.freeze()


def _has_place(editor: Editor[str], key: int) -> bool:
    across = any(block.first <= key + 4 and key <= block.last for block in editor.freeze().blocks)
    return not across and not any(editor.get(near) for near in range(key, key + 5))


@given(_STEPS, _STEPS)
def test_the_differences_are_those_of_dictionaries(first: list[tuple[str, int]], then: list[tuple[str, int]]) -> None:
    before = _edited(PagedMap[str](page=8), first, "first")
    after = _edited(before, then, "then")
    old, new = dict(before.items()), dict(after.items())
    changed = changes(before, after)
    assert changed.gone == {key: record for key, record in old.items() if new.get(key) != record}
    assert changed.come == {key: record for key, record in new.items() if old.get(key) != record}


def test_shared_pages_are_not_read() -> None:
    class Page(dict[int, str]):
        def items(self) -> Iterator[tuple[int, str]]:  # type: ignore[override]
            raise AssertionError("a shared page is read")

    before = PagedMap[str]({number: Page({number * 8: "shared"}) for number in range(3)}, 3, page=8)
    editor = before.edit()
    editor.set(30, "new")
    assert changes(before, editor.freeze()) == ({}, {30: "new"})

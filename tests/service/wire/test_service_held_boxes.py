"""Boxes of copies of joins as bytes of a token: small, exact, and nothing else is read as one."""

from __future__ import annotations

from contextlib import suppress

import pytest

from psoup.answer.copies.join_since import HeldBox, StepPlace
from psoup_service.sync.held_boxes import MOST_BOX_BYTES, from_bytes, to_bytes
from psoup_service.sync.tokens import ClientRows, Tokens
from psoup_storage import MemoryStore

DAY = 10_000 * 86_400
"""Tuples of a day, ten thousand a second."""
YEAR = 365 * DAY
WIDE = (-(2**63), 2**63 - 1)


def on_the_way(sources: int, low: int, window: int) -> HeldBox:
    """A box of which some rows have come: nearly as wide as its windows."""
    target = tuple((low + place, low + place + window) for place in range(sources))
    kept = tuple((first + window // 3, end - window // 3) for first, end in target)
    return HeldBox(target, kept, StepPlace(2 * sources - 1, tuple(end - 1 for _, end in target)))


@pytest.mark.parametrize(
    "held",
    [
        HeldBox(((0, 0), (5, 5))),
        HeldBox(((-9, 3), (5, 2**40))),
        HeldBox((WIDE,) * 8),
        HeldBox((WIDE,) * 8, (WIDE,) * 8, StepPlace(15, (-5,) * 8)),
        HeldBox(((0, 9), (0, 9)), ((9, 9), (0, 0)), StepPlace(0, (12, -4))),
        on_the_way(4, 10 * YEAR, YEAR),
    ],
)
def test_a_box_is_read_as_it_was_written(held: HeldBox) -> None:
    data = to_bytes(held)
    assert from_bytes(data) == held and len(data) <= MOST_BOX_BYTES
    for wrong in (data[:-1], data + b"\0", data[:1], b"", b"\0" + data[1:], b"\x09" + data[1:], data[:1] + b"\xff"):
        with pytest.raises(ValueError, match=r"box|number|unpack"):
            from_bytes(wrong)


def test_a_box_that_holds_more_than_its_target_is_refused() -> None:
    for kept in (((0, 10), (0, 9)), ((-1, 9), (0, 9)), ((5, 4), (0, 9))):
        with pytest.raises(ValueError, match="outside"):
            from_bytes(to_bytes(HeldBox(((0, 9), (0, 9)), kept, StepPlace(0, (1, 1)))))
    with pytest.raises(ValueError, match="outside"):
        from_bytes(to_bytes(HeldBox(((5, 4),))))


def test_no_byte_makes_reading_fail_in_another_way() -> None:
    data = to_bytes(on_the_way(2, 1_000, 300))
    for place in range(len(data)):
        for byte in range(256):
            with suppress(ValueError):
                from_bytes(data[:place] + bytes([byte]) + data[place + 1 :])


@pytest.mark.parametrize("sources", range(2, 9))
def test_tokens_are_small(sources: int) -> None:
    """Also after ten years of ten thousand tuples a second, with windows of a year."""
    tokens = Tokens(MemoryStore(), "0badcafe")
    held = ClientRows(2**40, bytes(4), box=on_the_way(sources, 10 * YEAR, YEAR))
    token = tokens.write(held, "t", 10)
    assert tokens.read(token, "t", 10) == held
    assert len(token) <= 80 + 32 * sources

"""Twins of `psoup.kernels.delta.key_presence`."""

from __future__ import annotations

from collections.abc import Iterator

from psoup.kernels.delta.key_presence import ABSENT, LINKS
from psoup.kernels.plain import Array

Arrays = tuple[Array, ...]


def _links_of(key: int, keys: Arrays, rows: Arrays) -> Iterator[int]:
    link = int(keys[1][key])
    while link >= 0:
        yield link
        link = int(rows[2][link])


def _change(key: int, by: int, instant: int, keys: Arrays, rows: Arrays, negated: bool, out: Arrays, at: Array) -> None:
    ends, (row_ends, row_keys, _, counted) = keys[0], rows
    for link in _links_of(key, keys, rows):
        if row_ends[link // LINKS] < instant:
            continue
        other = int(row_keys[link ^ 1])
        if other >= 0 and counted[link ^ 1] and ABSENT < ends[other] < instant:
            _count_link(link ^ 1, False, int(ends[other]) + 1, counted, negated, out, at)
        if bool(counted[link]) != (by > 0):
            _count_link(link, by > 0, instant, counted, negated, out, at)


def _count_link(link: int, counts: bool, instant: int, counted: Array, negated: bool, out: Arrays, at: Array) -> None:
    counted[link] = counts
    if not counted[link ^ 1]:
        _note(out, at, link // LINKS, 1 if counts != negated else -1, instant)


def _note(out: Arrays, at: Array, row: int, sign: int, instant: int) -> None:
    for array, value in zip(out, (row, sign, instant), strict=True):
        array[at[2]] = value
    at[2] += 1


def meet_keys(
    rights: Arrays, lefts: tuple[int, Array], keys: Arrays, rows: Arrays, negated: bool, out: Arrays, entered: Array,
    at: Array,
) -> bool:  # fmt: skip
    """See the kernel."""
    arrivals = [(start, 0, place) for place, start in enumerate(rights[1].tolist()) if place >= at[0]]
    arrivals += [(start, 1, place) for place, start in enumerate(lefts[1].tolist()) if place >= at[1]]
    for start, side, place in sorted(arrivals):
        state = keys, rows, negated, out, entered, at
        if not (_left_comes(lefts[0] + place, start, *state) if side else _right_comes(place, rights, *state)):
            return False
        at[side] += 1
    return True


def _right_comes(
    place: int, rights: Arrays, keys: Arrays, rows: Arrays, negated: bool, out: Arrays, entered: Array,
    at: Array,
) -> bool:  # fmt: skip
    key, start, end = (int(part[place]) for part in rights)
    ends = keys[0]
    before = int(ends[key])
    if before >= start:
        ends[key] = max(before, end)
        return True
    if at[2] + 4 * keys[2][key] > len(out[0]):
        return False
    if before != ABSENT and before + 1 < start:
        _change(key, -1, before + 1, keys, rows, negated, out, at)
    if not keys[3][key]:
        keys[3][key] = 1
        entered[at[3]] = key
        at[3] += 1
    ends[key] = end
    _change(key, 1, start, keys, rows, negated, out, at)
    return True


def _left_comes(
    row: int, start: int, keys: Arrays, rows: Arrays, negated: bool, out: Arrays,
    entered: Array, at: Array,
) -> bool:  # fmt: skip
    links = [link for link in range(LINKS * row, LINKS * row + LINKS) if rows[1][link] >= 0]
    if at[2] + 1 + 2 * sum(int(keys[2][rows[1][link]]) for link in links) > len(out[0]):
        return False
    for link in links:
        key = int(rows[1][link])
        before = int(keys[0][key])
        if before != ABSENT and before < start:
            _change(key, -1, before + 1, keys, rows, negated, out, at)
            keys[0][key] = ABSENT
        rows[2][link], keys[1][key] = keys[1][key], link
        keys[2][key] += 1
        rows[3][link] = keys[0][key] != ABSENT
    if (not rows[3][LINKS * row : LINKS * row + LINKS].any()) == negated:
        _note(out, at, row, 1, start)
    return True


def expire_keys(expired: Array, first: int, keys: Arrays, rows: Arrays, negated: bool, out: Arrays, at: Array) -> int:
    """See the kernel."""
    for place, key in list(enumerate(expired.tolist()))[first:]:
        if keys[0][key] != ABSENT:
            if at[2] + 2 * keys[2][key] > len(out[0]):
                return place
            _change(key, -1, int(keys[0][key]) + 1, keys, rows, negated, out, at)
            keys[0][key] = ABSENT
        keys[3][key] = 0
    return max(first, len(expired))


def link_rows(row_keys: Array, following: Array, head: Array, links: Array) -> None:
    """See the kernel."""
    for link, key in enumerate(row_keys.tolist()):
        if key >= 0:
            following[link], head[key] = head[key], link
            links[key] += 1

"""Twins of `psoup.kernels.names.clause_names`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array

_MASK = 2**64 - 1


def _mixed(state: int, word: int) -> int:
    state = (state ^ word) * 0xFF51AFD7ED558CCD & _MASK
    state = (state ^ (state >> 32)) * 0xC4CEB9FE1A85EC53 & _MASK
    return state ^ (state >> 29)


def mix_words(words: Array, seeds: Array, out: Array) -> None:
    """See the kernel."""
    for lane in range(2):
        for i, row in enumerate(words.tolist()):
            state = int(seeds[lane])
            for word in row:
                state = _mixed(state, word)
            out[i, lane] = (int(out[i, lane]) + state) & _MASK


def mix_texts(offsets: Array, data: Array, seeds: Array, out: Array) -> None:
    """See the kernel."""
    for i in range(len(out)):
        text = data[offsets[i] : offsets[i + 1]].tobytes()
        words = [int.from_bytes(text[at : at + 8], "little") for at in range(0, len(text), 8)]
        for lane in range(2):
            state = _mixed(int(seeds[lane]), len(text))
            for word in words:
                state = _mixed(state, word)
            out[i, lane] = state


def look_up(wanted: Array, table: Array, slot_names: Array, slots_found: Array, places: Array) -> None:
    """See the kernel."""
    slots = {tuple(slot_names[slot].tolist()): slot for slot in table[table >= 0].tolist()}
    for i, name in enumerate(map(tuple, wanted.tolist())):
        if name in slots:
            slots_found[i] = slots[name]
            continue
        at = name[0] % len(table)
        while table[at] != -1:
            at = (at + 1) % len(table)
        table[at] = slots_found[i] = slots[name] = -2 - i
        places[i] = at


def fill_table(slots: Array, slot_names: Array, table: Array) -> None:
    """See the kernel."""
    table[:] = -1
    for slot in slots.tolist():
        at = int(slot_names[slot, 0]) % len(table)
        while table[at] >= 0:
            at = (at + 1) % len(table)
        table[at] = slot


def take_out(slots: Array, slot_names: Array, table: Array) -> int:
    """See the kernel."""
    return sum(_take_out(slot, slot_names, table) for slot in slots.tolist())


def _take_out(slot: int, slot_names: Array, table: Array) -> bool:
    size = len(table)
    if slot not in table[table >= 0]:
        return False
    gap = int(np.flatnonzero(table == slot)[0])
    table[gap] = -1
    at = (gap + 1) % size
    while table[at] >= 0:  # each of the run is put in again
        mover, table[at] = int(table[at]), -1
        home = int(slot_names[mover, 0]) % size
        while table[home] != -1:
            home = (home + 1) % size
        table[home] = mover
        at = (at + 1) % size
    return True

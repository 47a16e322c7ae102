"""Every kernel agrees with its plain twin: the walk over both packages, and a case for each kernel.

A case is a function `rng -> arguments` in CASES; arrays are compared after the call, so what a kernel writes in
place counts as much as what it returns. A kernel without a twin, or without a case, fails.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import psoup.kernels
from psoup.kernels import arrive, plain, postings
from psoup_testing.kernel_cases.all_cases import CASES, Arguments
from psoup_testing.suite.budget import scaled


def _functions(package: Any) -> dict[str, Callable[..., Any]]:
    """Public functions by "module.name", for every module of the package."""
    found = {}
    for info in pkgutil.iter_modules(package.__path__):
        if info.ispkg:
            continue
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name, value in vars(module).items():
            source = getattr(value, "py_func", value)
            if not name.startswith("_") and inspect.isfunction(source) and source.__module__ == module.__name__:
                found[f"{info.name}.{name}"] = value
    return found


KERNELS, TWINS = _functions(psoup.kernels), _functions(plain)


SCRATCH = {
    "columns.bits_to_offsets": (3,),
    "gather.text_bytes": (1,),  # addresses, which differ
    "gather.has_nulls": (1,),
    "gather.gather_bits": (2,),
    "gather.gather": (2,),
    "keyed.find_keys": (0,),
    "keyed.take_found": (0,),
    "codes.sort_tuples": (4,),
    "arrive.emit": (20, 21),
    "arrive.prepare_and_emit": (4, 25, 26),
    "postings.reach": (12, 13, 14),
    "postings.match_lists": (19,),
    "automaton.search_texts": (10, 11),
    "order.order_keys": (2,),
    "buckets.keep_marked": (5,),
    "located.locate": (0, 5),
    "located.write_rows": (0, 1),
    "paired.pair_keys": (1, 3, 7, 8),
    "paired.pair_small": (2, 6, 11, 12),
    "answered.answer_located": (0, 6, 7, 9, 15, 16, 26, 27, 28),
    "halved.read_side": (0, 1, 3, 7, 8, 9, 10),
    "paired.meet_chained": (6, 7),
    "halved.gather_pairs": (2, 6),
    "paired_sets.pairs_of_sets": (8,),
    "coded.may_be_null": (0, 1),
    "coded.gather_coded": (0, 1),
    "joined.gather_keys": (2, 7),
    "joined.probe_buckets": (11, 12),
    "joined.probe_ranges": (11, 12),
    "banded.probe_banded": (17, 18),
    "nested.keep_partnered": (1, 7),
    "nested.nest": (0, 4, 6, 7),
    "joined.gather_whole": (2,),
    "joined.gather_at": (3,),
    "pairs.emit_pairs": (8, 9),
    "pairs.keep_pairs": (3, 4),
    "kept.meet_kept": (10, 11),
    "kept.marked_rows": (7,),
    "named.count_offsets": (1,),
    "named.place_by_offset": (8,),
    "named.place_bits": (4,),
    "runs.find_pairs": (6,),
    "runs.group_keys": (5,),
    "runs.name_slots": (0,),
    "runs.busy_slots": (4,),
    "runs.keys_to_rows": (0,),
    "group.merge_runs": (0, 1),
    "segments.cut_within": (3,),
    "segments.group_within": (3, 4),
    "deltas.unpack_deltas": (4,),
    "joined_texts.text_bytes_at": (1,),
    "joined_texts.gather_texts_at": (2,),
    "confirmed.gather_texts": (1, 6, 8),
    "confirmed.keep_texts": (0, 2, 4, 5),
    "confirmed.keep_near": (6, 7),
    "rising.longest_rising": (1, 2),
}
"""Arguments whose content after the call means nothing, or only in the part that `_written` returns."""


KEPT = {
    "columns.bits_to_offsets": 3,
    "buckets.keep_marked": 5,
    "kept.marked_rows": 7,
    "nested.keep_partnered": 7,
    "runs.find_pairs": 6,
    "runs.keys_to_rows": 0,
    "runs.name_slots": 0,
    "named.count_offsets": 1,
    "confirmed.gather_texts": 8,
    "segments.cut_within": 3,
    "rising.longest_rising": 3,
}
"""The argument whose front is written."""
KEPT_PAIRS = {
    "pairs.keep_pairs": slice(3, 5),
    "confirmed.keep_texts": slice(4, 6),
    "confirmed.keep_near": slice(6, 8),
    "group.merge_runs": slice(2),
    "segments.group_within": slice(3, 5),
    "paired.pair_keys": slice(7, 9),
    "paired.pair_small": slice(11, 13),
    "answered.answer_located": slice(26, 28),
    "paired.meet_chained": slice(6, 8),
}
"""The arguments whose front has as many numbers as are returned."""


def _written(name: str, arguments: Arguments, returned: Any) -> Any:
    if name == "arrive.prepare_and_emit":
        return _written("arrive.emit", arguments[5:], returned)
    if name == "arrive.emit":
        place = arguments[4][arguments[0]]
        return [own[place : place + returned[0]] for own in arguments[20:22]]
    if name == "postings.reach":
        chosen, found, _ = returned
        return [np.sort(arguments[12][:chosen]), *(own[:found] for own in arguments[13:])]
    if name == "postings.match_lists":
        return arguments[19][:returned]
    if name == "automaton.search_texts":
        return sorted(zip(*(own[: returned[1]].tolist() for own in arguments[10:]), strict=True))
    if name == "pairs.emit_pairs":
        return [own[: returned[2]] for own in arguments[8:]]
    if name == "joined.gather_keys":
        return arguments[7][: returned[0]] if returned[0] < len(arguments[7]) else None
    if name in ("joined.probe_buckets", "joined.probe_ranges"):
        return [own[: returned[2]] for own in arguments[11:]]
    if name == "banded.probe_banded":
        return [own[: returned[2]] for own in arguments[17:]]
    if name == "halved.read_side":
        return arguments[7:] if returned[0] else None
    if name == "nested.nest":
        return arguments[7][:, : returned[0]]
    if name == "located.locate":
        return arguments[5][:, [0, 2, 3, 4]] if returned >= 0 else None
    if name == "paired_sets.pairs_of_sets":
        return arguments[8][:, : max(returned, 0)]
    if name == "kept.meet_kept":
        return [own[arguments[12] : returned] for own in arguments[10:12]]
    if name in KEPT_PAIRS:
        pairs = returned[0] if isinstance(returned, tuple) else returned
        return [own[: max(pairs, 0)] for own in arguments[KEPT_PAIRS[name]]]
    if name in ("named.place_by_offset", "named.place_bits"):
        return np.sort(arguments[-1][:returned])
    if name == "deltas.unpack_deltas":
        return arguments[4] if returned else None
    if name == "runs.busy_slots":
        return np.sort(arguments[4][:returned])
    return arguments[KEPT[name]][:returned] if name in KEPT else None


def test_every_kernel_has_a_twin_and_a_case() -> None:
    assert KERNELS.keys() == TWINS.keys() == CASES.keys()


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_twins_have_one_signature(name: str) -> None:
    kernel = getattr(KERNELS[name], "py_func", KERNELS[name])
    assert list(inspect.signature(kernel).parameters) == list(inspect.signature(TWINS[name]).parameters)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernel_agrees_with_its_twin(name: str) -> None:
    for seed in range(scaled(40)):
        fast, slow = CASES[name](np.random.default_rng(seed)), CASES[name](np.random.default_rng(seed))
        returned, wanted = KERNELS[name](*fast), TWINS[name](*slow)
        np.testing.assert_equal(returned, wanted, err_msg=f"{name}, seed {seed}: returned")
        own, other = _written(name, fast, returned), _written(name, slow, wanted)
        np.testing.assert_equal(own, other, err_msg=f"{name}, seed {seed}: written")
        for position, (own, other) in enumerate(zip(fast, slow, strict=True)):
            if position in SCRATCH.get(name, ()):
                continue
            np.testing.assert_array_equal(own, other, err_msg=f"{name}, seed {seed}: argument {position} afterwards")


def test_kernels_release_the_lock_and_are_cached() -> None:
    for name, kernel in KERNELS.items():
        options = getattr(kernel, "targetoptions", None)
        assert options is None or options.get("nogil"), name
        assert options is None or not options.get("parallel"), name


def test_what_kernels_call_in_loops_counts_no_references() -> None:
    """Two locked instructions for each array of each call: they took longer than a clause's work."""
    for module in (arrive, postings):
        for name, helper in vars(module).items():
            options = getattr(helper, "targetoptions", None)
            if options is not None and name.startswith("_") and options.get("inline") != "always":
                assert options.get("_nrt") is False, f"{module.__name__}.{name} is for @inner"

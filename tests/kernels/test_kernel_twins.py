"""Every kernel agrees with its plain twin: the walk over both packages, and a case for each kernel.

A case is a function `rng -> arguments` in CASES; arrays are compared after the call, so what a kernel writes in
place counts as much as what it returns. A kernel without a twin, or without a case, fails.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import psoup.kernels
from psoup.kernels import plain
from psoup.kernels.arrive import index_probe, posting_lists
from psoup_testing.kernel_cases import postgres
from psoup_testing.kernel_cases.all_cases import CASES, Arguments
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept


def _functions(package: Any) -> dict[str, Callable[..., Any]]:
    """Public functions by "room.module.name", for every module of every room of the package."""
    found = {}
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if info.ispkg or (package is not plain and info.name.startswith(f"{plain.__name__}.")):
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            source = getattr(value, "py_func", value)
            if not name.startswith("_") and inspect.isfunction(source) and source.__module__ == module.__name__:
                found[f"{info.name.removeprefix(package.__name__ + '.')}.{name}"] = value
    return found


KERNELS, TWINS = _functions(psoup.kernels), _functions(plain)


SCRATCH: dict[str, tuple[int | tuple[int, int], ...]] = {
    "rows.bitmaps.bits_to_offsets": (3,),
    "rows.batch_body.text_bytes": (1,),  # addresses, which differ
    "rows.batch_body.has_nulls": (1,),
    "rows.batch_body.gather_bits": (2,),
    "rows.batch_body.gather": (2,),
    "search.key_index.find_keys": (0,),
    "search.key_index.take_found": (0,),
    "arrive.codes.sort_tuples": (4,),
    "arrive.index_probe.emit": ((10, 0), (10, 1)),
    "arrive.index_probe.prepare_and_emit": (2, (13, 0), (13, 1)),
    "arrive.posting_lists.reach": (6, 7, 8),
    "arrive.posting_lists.match_lists": (8,),
    "texts.automaton.search_texts": (10, 11),
    "rows.radix_sort.order_keys": (2,),
    "join.hash_buckets.keep_marked": (5,),
    "search.result_rows.locate": (0, 5),
    "search.result_rows.write_rows": (0, 1),
    "join.small_pairs.pair_keys": (1, 3, 7, 8),
    "join.small_pairs.pair_small": (2, 6, 11, 12),
    "join.small_join.answer_located": ((0, 0), (0, 6), (0, 7), (1, 0), (1, 6), (1, 7), 7, 8, 9),
    "join.small_outer.answer_outer": ((0, 0), (0, 6), (0, 7), (1, 0), (1, 6), (1, 7), 7, 8, 9),
    "join.parallel_pairs.read_side": (0, 1, 3, 7, 8, 9, 10),
    "join.small_pairs.meet_chained": (6, 7),
    "join.parallel_pairs.gather_pairs": ((2, 0), (3, 0)),
    "join.set_pairs.pairs_of_sets": (8,),
    "join.code_columns.may_be_null": (0, 1),
    "join.code_columns.gather_coded": (0, 1),
    "join.pair_columns.gather_keys": (2, 7),
    "join.pair_columns.probe_buckets": (11, 12),
    "join.pair_columns.probe_ranges": (11, 12),
    "join.band_probe.probe_banded": (9, 10),
    "join.multiway.keep_partnered": (1, 7),
    "join.multiway.nest": (0, 4, 6, 7),
    "join.pair_columns.gather_whole": (2,),
    "join.pair_columns.gather_at": (3,),
    "join.range_pairs.emit_pairs": (8, 9),
    "join.range_pairs.keep_pairs": (3, 4),
    "join.stored_pairs.meet_kept": (10, 11),
    "join.stored_pairs.marked_rows": (7,),
    "names.tuple_queries.count_offsets": (1,),
    "names.tuple_queries.place_by_offset": (8,),
    "names.tuple_queries.place_bits": (4,),
    "arrive.slot_runs.find_pairs": (6,),
    "arrive.slot_runs.group_keys": (5,),
    "arrive.slot_runs.name_slots": (0,),
    "arrive.slot_runs.busy_slots": (4,),
    "arrive.slot_runs.keys_to_rows": (0,),
    "fold.frame_extremes.frame_extremes": (5,),
    "fold.group_numbers.merge_runs": (0, 1),
    "fold.segments.cut_within": (3,),
    "fold.segments.group_within": (3, 4),
    "rows.parquet_deltas.unpack_deltas": (4,),
    "join.text_columns.text_bytes_at": (1,),
    "join.text_columns.gather_texts_at": (2,),
    "join.pair_filter.gather_texts": (1, 6, 8),
    "join.pair_filter.keep_texts": (0, 2, 4, 5),
    "join.pair_filter.keep_near": (6, 7),
    "join.outer_pairs.merge_missing": (4, 5),
    "rows.increasing_subsequence.longest_rising": (1, 2),
    **{name: (*postgres.ADDRESSED.get(name, ()), at) for name, at in postgres.WRITTEN.items()},
}
"""Arguments, or (argument, field), whose content after the call means nothing, or only in the part that `_written`
returns."""


KEPT = {
    "rows.bitmaps.bits_to_offsets": 3,
    "join.hash_buckets.keep_marked": 5,
    "join.stored_pairs.marked_rows": 7,
    "join.multiway.keep_partnered": 7,
    "arrive.slot_runs.find_pairs": 6,
    "arrive.slot_runs.keys_to_rows": 0,
    "arrive.slot_runs.name_slots": 0,
    "names.tuple_queries.count_offsets": 1,
    "join.pair_filter.gather_texts": 8,
    "fold.segments.cut_within": 3,
    "rows.increasing_subsequence.longest_rising": 3,
    **postgres.WRITTEN,
}
"""The argument whose front is written."""
KEPT_PAIRS = {
    "join.range_pairs.keep_pairs": slice(3, 5),
    "join.pair_filter.keep_texts": slice(4, 6),
    "join.pair_filter.keep_near": slice(6, 8),
    "fold.group_numbers.merge_runs": slice(2),
    "fold.segments.group_within": slice(3, 5),
    "join.small_pairs.pair_keys": slice(7, 9),
    "join.small_pairs.pair_small": slice(11, 13),
    "join.small_join.answer_located": slice(7, 9),
    "join.small_outer.answer_outer": slice(7, 9),
    "join.small_pairs.meet_chained": slice(6, 8),
    "join.outer_pairs.merge_missing": slice(4, 6),
}
"""The arguments whose front has as many numbers as are returned."""


def _written(name: str, arguments: Arguments, returned: Any) -> Any:
    if name == "arrive.index_probe.prepare_and_emit":
        return _written("arrive.index_probe.emit", arguments[3:], returned)
    if name == "arrive.index_probe.emit":
        place = arguments[2][2][arguments[0]]
        return [own[place : place + returned[0]] for own in arguments[10][:2]]
    if name == "arrive.posting_lists.reach":
        chosen, found, _ = returned
        return [np.sort(arguments[6][:chosen]), *(own[:found] for own in arguments[7:])]
    if name == "arrive.posting_lists.match_lists":
        return arguments[8][:returned]
    if name == "texts.automaton.search_texts":
        return sorted(zip(*(own[: returned[1]].tolist() for own in arguments[10:]), strict=True))
    if name == "join.range_pairs.emit_pairs":
        return [own[: returned[2]] for own in arguments[8:]]
    if name == "join.pair_columns.gather_keys":
        return arguments[7][: returned[0]] if returned[0] < len(arguments[7]) else None
    if name in ("join.pair_columns.probe_buckets", "join.pair_columns.probe_ranges"):
        return [own[: returned[2]] for own in arguments[11:]]
    if name == "join.band_probe.probe_banded":
        return [own[: returned[2]] for own in arguments[9:]]
    if name == "join.parallel_pairs.read_side":
        return arguments[7:] if returned[0] else None
    if name == "join.multiway.nest":
        return arguments[7][:, : returned[0]]
    if name == "search.result_rows.locate":
        return arguments[5][:, [0, 2, 3, 4]] if returned >= 0 else None
    if name == "join.set_pairs.pairs_of_sets":
        return arguments[8][:, : max(returned, 0)]
    if name == "join.stored_pairs.meet_kept":
        return [own[arguments[12] : returned] for own in arguments[10:12]]
    if name in KEPT_PAIRS:
        pairs = returned[0] if isinstance(returned, tuple) else returned
        return [own[: max(pairs, 0)] for own in arguments[KEPT_PAIRS[name]]]
    if name in ("names.tuple_queries.place_by_offset", "names.tuple_queries.place_bits"):
        return np.sort(arguments[-1][:returned])
    if name == "rows.parquet_deltas.unpack_deltas":
        return arguments[4] if returned else None
    if name == "arrive.slot_runs.busy_slots":
        return np.sort(arguments[4][:returned])
    return arguments[KEPT[name]][:returned] if name in KEPT else None


def _fields(arguments: Arguments) -> Iterator[tuple[tuple[int, int], Any]]:
    """Arguments by position and field; one that is no tuple is its own field 0."""
    for position, argument in enumerate(arguments):
        for field, value in enumerate(argument if isinstance(argument, tuple) else (argument,)):
            yield (position, field), value


def test_every_kernel_has_a_twin_and_a_case() -> None:
    assert KERNELS.keys() == TWINS.keys() == CASES.keys()


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_twins_have_one_signature(name: str) -> None:
    kernel = getattr(KERNELS[name], "py_func", KERNELS[name])
    assert list(inspect.signature(kernel).parameters) == list(inspect.signature(TWINS[name]).parameters)


@pytest.mark.parametrize("seeds", swept([12, 40], fast=1))
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernel_agrees_with_its_twin(name: str, seeds: int) -> None:
    for seed in range(scaled(seeds)):
        fast, slow = CASES[name](np.random.default_rng(seed)), CASES[name](np.random.default_rng(seed))
        returned, wanted = KERNELS[name](*fast), TWINS[name](*slow)
        np.testing.assert_equal(returned, wanted, err_msg=f"{name}, seed {seed}: returned")
        own, other = _written(name, fast, returned), _written(name, slow, wanted)
        np.testing.assert_equal(own, other, err_msg=f"{name}, seed {seed}: written")
        for (position, own), (_, other) in zip(_fields(fast), _fields(slow), strict=True):
            if {position, position[0]} & {*SCRATCH.get(name, ())}:
                continue
            np.testing.assert_array_equal(own, other, err_msg=f"{name}, seed {seed}: argument {position} afterwards")


def test_kernels_release_the_lock_and_are_cached() -> None:
    for name, kernel in KERNELS.items():
        options = getattr(kernel, "targetoptions", None)
        assert options is None or options.get("nogil"), name
        assert options is None or not options.get("parallel"), name


def test_what_kernels_call_in_loops_counts_no_references() -> None:
    """Two locked instructions for each array of each call: they took longer than a clause's work."""
    for module in (index_probe, posting_lists):
        for name, helper in vars(module).items():
            options = getattr(helper, "targetoptions", None)
            if options is not None and name.startswith("_") and options.get("inline") != "always":
                assert options.get("_nrt") is False, f"{module.__name__}.{name} is for @inner"

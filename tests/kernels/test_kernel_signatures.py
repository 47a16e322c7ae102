"""The list of kernels compiled before a client comes: read as written; an unlisted kernel is reported."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numba import njit, types
from numba.core.dispatcher import Dispatcher
from numba.core.sigutils import normalize_signature

from psoup.kernel_signatures import POSTGRES, SIGNATURES, compile_listed, line_of
from psoup.kernels.rows.bit_blocks import count_rows
from psoup_service.process import late_kernels
from psoup_testing.suite.log_records import own_records

LINES = SIGNATURES.read_text().splitlines()
LATER = POSTGRES.read_text().splitlines()
compiled = pytest.mark.skipif(not isinstance(count_rows, Dispatcher), reason="kernels are not compiled in this run")


@compiled
def test_every_line_is_a_kernel_with_types_that_it_takes() -> None:
    assert sorted(set(LINES)) == LINES and sorted(set(LATER)) == LATER
    assert all(line.startswith("postgres.") for line in LATER)
    for line in LINES + LATER:
        name, _, arguments = line.partition("(")
        module, _, kernel = name.rpartition(".")
        found = getattr(import_module(f"psoup.kernels.{module}"), kernel)
        assert line_of(found, normalize_signature(f"({arguments}")[0]) == line


@compiled
def test_what_is_listed_is_compiled_by_then() -> None:
    assert compile_listed() == compile_listed(backwards=True) == len(LINES)
    assert compile_listed(listed=POSTGRES) == len(LATER)
    listed = [line for line in LINES if line.startswith("rows.bit_blocks.count_rows(")]
    assert listed and set(listed) <= {line_of(count_rows, signature) for signature in count_rows.signatures}


@pytest.mark.seeded("a late kernel is not counted, or one that another calls is counted twice")
@pytest.mark.seeded("a call of the product with types that are not listed passes")
@compiled
def test_a_call_of_the_product_with_other_types_fails_in_tests() -> None:
    product = dict[str, Any](count_rows=count_rows)
    exec(compile("def call(*given):\n    return count_rows(*given)\n", "/product/made.py", "exec"), product)
    with pytest.raises(
        AssertionError, match=r"(?s)made\.py calls a kernel .*signatures\.txt:\nrows\.bit_blocks\.count_rows\("
    ):
        product["call"](np.zeros((2, 2), np.float32), 1)


@pytest.fixture
def made() -> Any:
    """A kernel that nothing has called, and that calls another one."""

    def inner(number: int) -> int:
        return number + 1

    def outer(number: int) -> int:
        return helper(number) + 1

    for function in (inner, outer):
        function.__module__ = "psoup.kernels.made"
    helper = njit(inner)
    return njit(outer)


@pytest.mark.seeded("a late kernel is not counted, or one that another calls is counted twice")
@pytest.mark.seeded("a call of the product with types that are not listed passes")
@compiled
def test_a_late_kernel_is_counted_and_told(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    late = late_kernels.watched()
    before = late.count
    with caplog.at_level(logging.WARNING):
        assert made(1) == made(2) - 1 == 3
        assert late.count == before + 1, "the helper is a part of it"
        njit(lambda number: number)(1)
        assert late.count == before + 1, "no kernel of ours"
    (record,) = own_records(caplog)
    assert record.kernel == "made.outer(int64)"  # type: ignore[attr-defined]
    assert 0 < record.seconds < 60  # type: ignore[attr-defined]
    assert late_kernels.watched() is late and made(3.5) == 5.5 and late.count == before + 2
    late.expected = True
    try:
        assert made(np.float32(3.5)) == 5.5 and late.count == before + 2, "no client waits for it"
    finally:
        late.expected = False


def test_types_are_written_as_signatures_write_them() -> None:
    kinds = (types.boolean, types.Array(types.uint8, 3, "C"), types.Array(types.float64, 1, "A", readonly=True))
    line = "rows.bit_blocks.count_rows(boolean, uint8[:, :, ::1], Array(float64, 1, 'A', True)"
    assert line_of(count_rows, kinds) == f"{line})"
    groups = types.Tuple(kinds[:2]), types.UniTuple(kinds[0], 2)
    assert line_of(count_rows, (*kinds, *groups)) == (
        f"{line}, Tuple((boolean, uint8[:, :, ::1])), UniTuple(boolean, 2))"
    )

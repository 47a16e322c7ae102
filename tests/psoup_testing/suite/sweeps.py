"""Sweeps over many cases: some cases run in `make test`, and the rest in `make test-long`.

@pytest.mark.parametrize("seed", swept(range(6), fast=2))     seeds 0 and 1 in `make test`
@in_parts(3)                                                  a loop over cases[part]: its first third in `make test`
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest

Cases = list[Any]
"""The argument of `pytest.mark.parametrize`; the class of its items has no public name."""


def swept(cases: Iterable[Any], fast: int | Container[int]) -> Cases:
    """The cases of a sweep; those at the places `fast`, or the first so many, run in `make test` too."""
    places = range(fast) if isinstance(fast, int) else fast
    return [_case(case, place in places) for place, case in enumerate(cases)]


def in_parts(count: int) -> pytest.MarkDecorator:
    """Run a test for each part of its cases. The argument `part` is a slice; the first part runs in `make test`."""
    slices = [slice(start, None, count) for start in range(count)]
    names = [f"part {start + 1} of {count}" for start in range(count)]
    params = [_case(part, start == 0) for start, part in enumerate(slices)]
    return pytest.mark.parametrize("part", params, ids=names)


def _case(case: Any, fast: bool) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=() if fast else pytest.mark.long)

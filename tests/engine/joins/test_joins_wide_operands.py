"""Factors with numbers of 128 bits: their keys compare as the numbers do, for each operator and each other type."""

from __future__ import annotations

import math
import operator
import random
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from psoup.joins.wide_operands import wide_keys
from psoup.model import BIGINT, DOUBLE, DataType, Kind, decimal, wide
from psoup.values.columns import Column
from psoup.values.limbs import limbs
from psoup_testing.suite.sweeps import swept

SMALL = (0, 1, -1, 7, 2**53 + 1, -(2**63), 2**63 - 1, 10**17, -(10**17))
HUGE = (*SMALL, 2**63, -(2**63) - 1, 2**64, 2**64 + 1, 10**37, -(10**37))
DOUBLES = (0.0, -0.0, 0.5, -0.5, 7.0, 7.25, 2.0**53, 2.0**64, -(2.0**70), 1e37, 1e300, math.inf, -math.inf, math.nan)


def _column(kind: DataType, numbers: list[Any]) -> Column:
    if kind.kind is Kind.WIDE:
        return Column(kind, limbs(np.array(numbers, object)))
    return Column(kind, np.array(numbers, np.float64 if kind == DOUBLE else np.int64))


def _compares(name: str, left: Any, right: Any) -> bool:
    if isinstance(right, float) and math.isnan(right):
        return name in ("lt", "le")
    if isinstance(right, float) and not math.isinf(right):
        right = Fraction(right)
    return bool(getattr(operator, name)(left, right))


@pytest.mark.parametrize("seed", swept(range(12), fast=3))
def test_keys_of_wide_numbers_compare_as_the_numbers_do(seed: int) -> None:
    draw = random.Random(seed)
    for name, other in product(("eq", "lt", "le", "gt", "ge"), (BIGINT, decimal(18, 2), wide(0), wide(3), DOUBLE)):
        pool = DOUBLES if other == DOUBLE else HUGE if other.kind is Kind.WIDE else SMALL
        types = [wide(draw.choice((0, 2))), other]
        numbers = [[draw.choice(draw.choice((SMALL, HUGE))) for _ in range(30)], [draw.choice(pool) for _ in range(30)]]
        if other != DOUBLE and draw.random() < 0.5:
            types, numbers = types[::-1], numbers[::-1]
        columns = [_column(kind, values) for kind, values in zip(types, numbers, strict=True)]
        left, right, can, key_operator = wide_keys(columns[0], columns[1], name)
        assert left.dtype == right.dtype == np.int64
        for (i, number), (j, other_number) in product(enumerate(numbers[0]), enumerate(numbers[1])):
            values = [Fraction(number, 10 ** types[0].scale), other_number]
            if not isinstance(other_number, float):
                values[1] = Fraction(other_number, 10 ** types[1].scale)
            result = bool(can[j]) and bool(getattr(operator, key_operator)(left[i], right[j]))
            assert result == _compares(name, *values), (name, types, number, other_number)

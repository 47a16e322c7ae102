"""Rounding of float64 to whole numbers, at the numbers next to halves, where a sum would be rounded itself."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.expressions.numbers.rounding import round_half_away

HALVES = [0.5, 1.5, 2.5, 2.0**20 + 0.5, 2.0**51 + 0.5, 2.0**52 - 0.5]


@pytest.mark.parametrize("sign", [1, -1])
def test_halves_go_away_from_zero_and_what_is_next_to_them_to_the_nearest(sign: int) -> None:
    halves = np.array(HALVES)
    below, above = np.nextafter(halves, 0), np.nextafter(halves, np.inf)
    assert round_half_away(sign * halves).tolist() == (sign * np.ceil(halves)).tolist()
    assert round_half_away(sign * below).tolist() == (sign * np.floor(halves)).tolist()
    assert round_half_away(sign * above).tolist() == (sign * np.ceil(halves)).tolist()


def test_what_is_whole_or_not_a_number_stays_and_zero_keeps_its_sign() -> None:
    values = np.array([0.0, -0.0, -0.3, 2.0**52 + 1, 2.0**53 - 1, -(2.0**53) + 1, 1e300, np.inf, -np.inf, np.nan])
    rounded = round_half_away(values)
    assert np.array_equal(rounded, np.where(np.abs(values) < 1, np.copysign(0.0, values), values), equal_nan=True)
    assert np.signbit(rounded[:3]).tolist() == [False, True, True]

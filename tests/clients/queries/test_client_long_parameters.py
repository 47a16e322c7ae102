"""Parameters with too many digits to be sent: refused with their row and a way out that works."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from psoup_client import InvalidData
from psoup_client.bulk import _unfit


@pytest.mark.parametrize(
    ("value", "way"),
    [
        (2**63, "give it as a Decimal"),
        (10**76, "no column has such a number"),
        (-(10**4000), "no column has such a number"),
        (Decimal("1E+999999999"), "at most 76 digits"),
        (Decimal("1E-999999999"), "at most 76 digits"),
        (Decimal("NaN"), "a Decimal is finite"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_the_refusal_names_the_row_and_a_way_out(value: Any, way: str) -> None:
    problem = _unfit("1", [5, value])
    assert isinstance(problem, InvalidData)
    assert problem.message.startswith("parameter 1 in row 2 is ") and way in problem.message
    assert len(problem.message) < 250

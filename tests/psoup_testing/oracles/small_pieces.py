"""Pieces of a few rows in the evaluation of composed statements, so that small answers have many edges."""

from __future__ import annotations

import pytest

from psoup.execution.join import join_case, sides
from psoup.execution.over import over_rows
from psoup.execution.partners import composition, filtered_rows, join_inputs, partner_rows
from psoup.execution.relations import table_rows

PIECES = (
    (composition, "_ROWS", 7),
    (partner_rows, "_ROWS", 7),
    (filtered_rows, "_MAX_ROWS", 5),
    (join_inputs, "_GROUP_ROWS", 6),
    (over_rows, "_MAX_ROWS", 9),
    (table_rows, "_LEAST_ROWS", 4),
    (table_rows, "_FEWEST", 4),
    (table_rows, "_MOST_BYTES", 64),
    (join_case, "FIRST", 8),
    (sides, "_GROUP_ROWS", 64),
)
"""Modules, and the most rows or bytes of their pieces."""


def small_pieces(patch: pytest.MonkeyPatch) -> None:
    """Make all pieces small, as long as the patch holds."""
    for module, name, value in PIECES:
        patch.setattr(module, name, value)

"""Tables whose power goes, or whose process is killed: a start finds all acknowledged upserts and deletions."""

from __future__ import annotations

from pathlib import Path

import pytest

from psoup_testing.crash.table_lives import TableLives
from psoup_testing.suite.budget import SCALE, SEED

LIVES = max(6, round(12 * SCALE))


@pytest.mark.long
def test_a_table_is_what_was_acknowledged_after_each_power_cut(tmp_path: Path) -> None:
    lives = TableLives(tmp_path, SEED)
    assert lives.run(LIVES) == []
    assert min(lives.stored, lives.acknowledged) > LIVES

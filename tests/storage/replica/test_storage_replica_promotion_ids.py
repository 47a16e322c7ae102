"""Promotions give IDs of a new range, also of restored data, and if two standbys are promoted at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from psoup_storage.replica import standby_store
from psoup_storage.replica.fences import read_fences
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import begin, copied, wait_for_copy
from psoup_testing.engines.format_fixture import Soup
from psoup_testing.engines.standby_soup import begin_promotion, standby, take_up


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[DirectoryTarget]:
    """The copy of a service with a stream and a query."""
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
        wait_for_copy(soup)
        yield target


@contextmanager
def standby_later(writer: Soup, path: Path, target: DirectoryTarget) -> Iterator[Soup]:
    """A standby whose fence is written before the writer's next event."""
    wait_for_copy(writer)
    with standby(path, target) as soup:
        begin_promotion(soup)
        yield soup


@pytest.mark.seeded("an ID of the lost tail of a restored service given again")
def test_a_promotion_of_restored_data_gives_ids_of_a_new_range(copy: DirectoryTarget, tmp_path: Path) -> None:
    """The data was promoted before, so the restored service gives IDs of the first range. Its last ones are lost."""
    with standby(tmp_path / "standby", copy) as soup:
        begin_promotion(soup)
        take_up(soup)
        promoted = soup.register("SELECT x FROM s")
        wait_for_copy(soup)
    restore_copy(copy, tmp_path / "restored")
    target = DirectoryTarget(tmp_path / "second")
    with copied(tmp_path / "restored", target) as writer, standby_later(writer, tmp_path / "third", target) as soup:
        lost = writer.register("SELECT x FROM s")
        assert lost == promoted + 1 > 2**32
        assert take_up(soup) == 2
        assert soup.register("SELECT x FROM s") == 2 * 2**32


@pytest.mark.seeded("two standbys that are promoted at once give IDs of one range")
def test_two_standbys_that_are_promoted_at_once_give_ids_of_two_ranges(copy: DirectoryTarget, tmp_path: Path) -> None:
    """The second one has looked for fences before the first one wrote its fence, and is slow."""
    with standby(tmp_path / "a", copy) as first, standby(tmp_path / "b", copy) as second:
        earlier = read_fences(copy)
        begin_promotion(first)
        assert take_up(first) == 1
        with patch.object(standby_store, "read_fences", lambda target: earlier):
            begin_promotion(second)
        assert take_up(second) == 2

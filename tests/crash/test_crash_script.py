"""T2 and T3 at every place of a fixed script: power cuts and errors of the disk, of the database as of chunks.

    n = 0, 1, 2 …     the n-th write, sync or rename of the script (`psoup_testing.crash.lives`)
    a cut at n        what may survive it is opened, checked, and lived on with
    an error at n     once; the disk is well again right after it, which must help nobody to be told too much

`make test` visits some of the places, `make soak` all.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from psoup.errors import Internal, ResourceExhausted
from psoup_storage import DurableStore
from psoup_storage.durable.sqlite import database
from psoup_testing.crash import lives
from psoup_testing.crash.faults import EIO, ENOSPC, Fault, failing
from psoup_testing.crash.lives import Lives
from psoup_testing.suite.budget import SEED, places

CUT_STEPS, ERROR_STEPS, LATER_STEPS = 200, 60, 5


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many writes, and checkpoints within the script."""
    monkeypatch.setattr(database, "PAGE_BYTES", 4_096)
    monkeypatch.setattr(database, "CHECKPOINT_BYTES", 256 * 1024)


@pytest.mark.long
def test_a_power_cut_at_any_sync_of_a_script_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """T2."""
    script = Lives(tmp_path / "script", SEED, CUT_STEPS)
    images = script.live()
    assert script.said == []
    assert script.stored > 10, "hardly a chunk was stored"
    for at in places(len(images), bounded=20):
        after = Lives(tmp_path / "after", SEED + at, LATER_STEPS)
        after.go_on(images[at])
        assert after.run(1) == [], f"a cut at sync {at}"
        shutil.rmtree(after.folder)


@pytest.mark.long
def test_an_error_at_any_place_of_a_script_stops_the_store_or_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3. Without room for a write nothing stops: the service tries again, as here."""
    monkeypatch.setattr(lives, "log", log_with_patience)
    outcomes: Counter[str] = Counter()
    for fault in (EIO, ENOSPC):
        for at in places(length(tmp_path / "whole", fault), bounded=10):
            outcomes[hit(tmp_path / "hit", fault, at)] += 1
            shutil.rmtree(tmp_path / "hit")
    assert min(outcomes["stopped"], outcomes["waited"]) > 0, outcomes


def length(folder: Path, fault: Fault) -> int:
    """How many places the script has."""
    history = Lives(folder, SEED, ERROR_STEPS)
    with failing(-1, fault) as disk:
        assert history.live_on(disk) is None
    shutil.rmtree(folder)
    assert history.stored > 3, "hardly a chunk was stored"
    return disk.count


def hit(folder: Path, fault: Fault, at: int) -> str:
    """What became of a life with an error at this place; the next one finds all that was acknowledged."""
    history = Lives(folder, SEED, ERROR_STEPS)
    with failing(at, fault, once=True) as disk:
        problem = history.live_on(disk)
    where, started = f"{fault} at {disk.failed} {at}: {problem!r}", history.starts
    assert disk.failed, where
    history.steps = LATER_STEPS
    assert history.run(1) == [], where
    if not started:
        return "no start"
    if fault is ENOSPC and disk.failed != "sync" and disk.failed != "sync of the folder":
        assert problem is None, f"{where}: want of room is no failure"
    return "waited" if problem is None else "stopped"


def log_with_patience(store: DurableStore, events: list[Any], acknowledge: Any) -> None:
    """As the committer does it; after any other error the store takes nothing more."""
    try:
        store.append(events)
    except ResourceExhausted:
        store.append(events)
    except Internal:
        with pytest.raises(Internal, match="takes no events"):
            store.append(events)
        raise
    acknowledge()

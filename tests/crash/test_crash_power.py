"""T2, T6 and T7 together: power cuts at any sync, between any steps of a chunk's way to the disk, and producers that
send again; and T34: with a known bug switched on, the checker finds it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psoup.admission.rows.producers import Producers
from psoup.events.acknowledgements import PushAcknowledgement
from psoup_storage import DurableStore
from psoup_storage.durable.chunks import folder as chunks
from psoup_storage.durable.log import codec, tuples
from psoup_storage.durable.sqlite import database
from psoup_testing.crash import acknowledgements, lives
from psoup_testing.crash.lives import Lives
from psoup_testing.suite.budget import SCALE, SEED, Budget, replayable
from psoup_testing.suite.sweeps import swept

LIVES = 6
"""Power cuts of one history."""


@pytest.mark.long
@pytest.mark.parametrize("first", swept([0, 1_000], fast=1))
def test_power_cuts_lose_and_double_nothing(first: int, tmp_path: Path) -> None:
    budget, stored = Budget("power cuts", cases=24, first=first), 0
    for seed in budget.rounds():
        history = Lives(tmp_path / str(seed), seed)
        with replayable(seed):
            assert history.run(LIVES) == []
        budget.count(LIVES)
        stored += history.stored
    assert stored > 3 * min(1.0, SCALE), "hardly a chunk was stored"


def test_the_checker_is_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts, rows = tmp_path / "acknowledged.json", tmp_path / "rows.csv"
    counts.write_text("[[0, 1, 2], [1, 1, 1]]")
    good = [
        *acknowledgements.batch_rows(0, 1, 0),
        *acknowledgements.batch_rows(1, 1, 0),
        *acknowledgements.batch_rows(0, 1, 1),
    ]
    rows.write_text("".join(f"{k},{e},{n},{part}\n" for k, e, n, part in good))
    assert acknowledgements.main(str(counts), str(rows)) == 0
    rows.write_text("".join(f"{k},{e},{n},{part}\n" for k, e, n, part in good[:-1]))
    assert acknowledgements.main(str(counts), str(rows)) == 1
    assert capsys.readouterr().out.splitlines() == [
        "8 rows, all as acknowledged",
        "producer 0: 1 rows are lost, the first is (0, 1, 1, 5)",
    ]


# T34: known bugs ---------------------------------------------------------------------------------------------

BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {}


def bug(function: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    BUGS[function.__name__] = function
    return function


@bug
def acknowledged_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    def log(into: DurableStore, events: Any, acknowledge: Callable[[], None]) -> None:
        acknowledge()
        into.append(events)

    patch.setattr(lives, "log", log)


@bug
def repeats_are_not_recognised(patch: pytest.MonkeyPatch) -> None:
    admit = Producers.admit

    def careless(self: Producers, command: Any, digest: bytes, now: int) -> PushAcknowledgement | None:
        found = admit(self, command, digest, now)
        return None if found is not None else found

    patch.setattr(Producers, "admit", careless)


@bug
def an_older_epoch_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    admit = Producers.admit

    def careless(self: Producers, command: Any, digest: bytes, now: int) -> PushAcknowledgement | None:
        known = self._known.get(command.producer)
        return None if known is not None and command.epoch < known.epoch else admit(self, command, digest, now)

    patch.setattr(Producers, "admit", careless)


@bug
def gaps_in_numbers_are_taken(patch: pytest.MonkeyPatch) -> None:
    admit = Producers.admit

    def careless(self: Producers, command: Any, digest: bytes, now: int) -> PushAcknowledgement | None:
        known = self._known.get(command.producer)
        ahead = known is not None and known.epoch == command.epoch and command.number > known.expected
        return None if ahead else admit(self, command, digest, now)

    patch.setattr(Producers, "admit", careless)


@bug
def commits_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    prepare = database.Database._prepare

    def careless(self: database.Database) -> None:
        prepare(self)
        self._connection.pragma("synchronous", "OFF")

    patch.setattr(database.Database, "_prepare", careless)


@bug
def chunks_are_renamed_and_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lives.ChunkDisk, "fsync", lambda self, handle: None)


@bug
def the_folder_of_chunks_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lives.ChunkDisk, "sync_directory", lambda self, path: None)


@bug
def the_manifest_ends_a_tuple_late(patch: pytest.MonkeyPatch) -> None:
    ties = chunks._ties
    patch.setattr(chunks, "_ties", lambda times, before: ties(times, before) + 1)


@bug
def the_manifest_ends_a_tuple_early(patch: pytest.MonkeyPatch) -> None:
    ties = chunks._ties
    patch.setattr(chunks, "_ties", lambda times, before: ties(times, before) - 1)


@bug
def the_tuple_at_the_edge_is_dropped(patch: pytest.MonkeyPatch) -> None:
    split = codec.StoredEnd.split

    def careless(self: codec.StoredEnd, times: Any) -> Any:
        behind = split(self, times)
        return behind[1:] if 0 < len(behind) < len(times) else behind

    patch.setattr(codec.StoredEnd, "split", careless)


@bug
def the_log_is_cut_before_the_chunk_is_in_the_manifest(patch: pytest.MonkeyPatch) -> None:
    keep = DurableStore.keep

    def careless(self: DurableStore, stream: int, spec: Any, chunk: Any, oldest: int) -> Any:
        with self._database.transaction() as connection:
            found = "SELECT sequence FROM log WHERE stream = ? AND tuples IS NOT NULL ORDER BY sequence LIMIT 9"
            rows = list(connection.execute(found, (stream,)))
            connection.executemany("DELETE FROM log WHERE sequence = ?", rows)
        return keep(self, stream, spec, chunk, oldest)

    patch.setattr(DurableStore, "keep", careless)


@bug
def a_replay_leaves_out_the_last_event(patch: pytest.MonkeyPatch) -> None:
    read = DurableStore.read

    def careless(self: DurableStore, after: int = 0) -> Any:
        events = list(read(self, after))
        return iter(events[:-1] if len(events) > 9 else events)

    patch.setattr(DurableStore, "read", careless)


@bug
def the_last_event_of_a_group_is_not_written(patch: pytest.MonkeyPatch) -> None:
    append = DurableStore.append
    patch.setattr(DurableStore, "append", lambda self, events: append(self, events[:-1] if len(events) > 2 else events))


@bug
def replayed_tuples_lose_their_order(patch: pytest.MonkeyPatch) -> None:
    decode = tuples.decode_tuples

    def careless(spec: Any, content: bytes, times: Any, *more: Any) -> Any:
        batch = decode(spec, content, times, *more)
        turned = batch.take(np.arange(len(batch))[::-1])
        return replace(turned, times=batch.times)

    patch.setattr(codec, "decode_tuples", careless)


@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_the_checker_finds_known_bugs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name](monkeypatch)
    for seed in itertools.count(SEED):
        if Lives(tmp_path / str(seed), seed).run(LIVES):
            return
        assert seed < SEED + 12, f"{name} was not found in {12 * LIVES} lives"

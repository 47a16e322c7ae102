"""Lives of a store that end by a power cut, with producers that send again: for the checker in `acknowledged`.

    life 0 ──power cut──> files that survive ──> life 1 ──power cut──> …

A life opens the directory, replays, checks, and plays a random script: pushes of two producers in groups, repeats
whose reply was lost, new epochs and what a fenced instance still sends, chunks that are stored. At every sync, of the
database and of chunks, it notes what a cut at this moment would leave: unsynced writes of the database lost, kept or
torn; files never synced cut short; renames undone unless the folder was synced. One of those moments is where the life
ended. A life may also be played on a disk that fails. Everything follows from the seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup.admission import Admission
from psoup.admission.together import prepare_shared
from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.errors import AlreadyExists, FailedPrecondition, Internal, ResourceExhausted
from psoup.events.acknowledgements import (
    Acknowledgement,
    PushAcknowledgement,
    QueryAcknowledgement,
    SharedAcknowledgement,
)
from psoup.events.commands import CreateStream, Push, Register, SharedBatch
from psoup.events.events import Event
from psoup.values.digests import digest_of
from psoup_storage import DurableStore
from psoup_storage.durable.chunks import folder as chunks
from psoup_testing.crash.acknowledgements import Row, batch_rows, problems
from psoup_testing.crash.faults import FailingDisk, power, restore
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again

CONFIG = EngineConfig(chunk_rows=64, kept_acknowledgements=16, shape=EAGER)
PRODUCERS = 2
STEPS = 30
_NOW = 1_700_000_000_000_000


class ChunkDisk:
    """A stand-in for `os` in `chunks` that notes its file operations. `step` is called before each."""

    def __init__(self, step: Callable[[str], None]) -> None:
        self.step = step
        self.synced: set[str] = set()
        self.named: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int) -> int:
        """Note that a file is made."""
        self.step("open")
        return os.open(path, flags, mode)

    def write(self, handle: int, content: memoryview) -> int:
        """Write a part of the data, as a disk may."""
        self.step("write")
        return os.write(handle, content[:1_024])

    def rename(self, old: Path, new: Path) -> None:
        """Note the new name, which a power cut may take away."""
        self.step("rename")
        os.rename(old, new)

    def fsync(self, handle: int) -> None:
        """Note that the content is safe, under any name."""
        self.step("sync")
        self.synced.add(Path(os.readlink(f"/proc/self/fd/{handle}")).name.removesuffix(".new"))

    def sync_directory(self, path: Path) -> None:
        """Note that the names are safe."""
        self.step("sync of the folder")
        self.named.update(os.listdir(path))

    def survives(self, folder: Path, chance: random.Random) -> dict[str, bytes]:
        """The files of the folder after a cut now."""
        contents = {}
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if path.name not in self.named and chance.random() < 0.5:
                continue
            content = path.read_bytes()
            whole = path.name.removesuffix(".new") in self.synced
            contents[path.name] = content if whole else content[: chance.randrange(len(content) + 1)]
        return contents


class Lives:
    """A history. `said`: findings of the checker. `steps`: number of steps of each life."""

    def __init__(self, folder: Path, seed: int, steps: int = STEPS) -> None:
        self.folder, self.seed, self.steps = folder, seed, steps
        self.chance = random.Random(seed)
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.said: list[str] = []
        self.events = self.stored = self.starts = self.lives = 0
        self._epochs = dict.fromkeys(range(PRODUCERS), 1)
        self._query = 0
        self._directory = folder / "0"

    def run(self, lives: int) -> list[str]:
        """Live until the checker finds a fault, at most so often; returns the faults."""
        for number in range(lives):
            images = self.live()
            if self.said:
                return [f"life {number}: {line}" for line in self.said]
            self.go_on(self.chance.choice(images[-40:]))
        return []

    def live(self) -> list[Any]:
        """Live once; returns the files that a power cut at each sync would leave, for `go_on`."""
        with chunk_disk() as disk:
            disk.synced.update(files := {p.name for p in (self._directory / "chunks").glob("*")})
            disk.named.update(files)

            def note() -> Any:
                survivors = disk.survives(self._directory / "chunks", self.chance)
                return dict(self.acknowledged), dict(self._epochs), self._query, survivors

            with power(self.chance.randrange(2**32), note) as database:
                disk.step = lambda operation: database.cut()
                try:
                    with closing(
                        DurableStore(self._directory, vfs=database.name, remembered=CONFIG.remembered)
                    ) as store:
                        self._play(store)
                        database.cut()
                except Exception as problem:  # a start or a command that fails is a finding, too
                    self.said.append(f"{type(problem).__name__}: {problem}")
                return database.images

    def live_on(self, disk: FailingDisk) -> Exception | None:
        """Live once on a disk that fails, up to its failure; the files stay where they are."""
        with chunk_disk(disk.beside):
            try:
                with closing(DurableStore(self._directory, vfs=disk.name, remembered=CONFIG.remembered)) as store:
                    self._play(store)
            except (Internal, ResourceExhausted, OSError) as problem:
                return problem
        return None

    def go_on(self, image: Any) -> None:
        """Begin the next life with the files of one of `live`."""
        files, (self.acknowledged, self._epochs, self._query, stored) = image
        self.lives += 1
        self._directory = restore(files, self.folder / str(self.lives))
        self._directory.chmod(0o700)
        (self._directory / "chunks").mkdir(mode=0o700)
        for name, content in stored.items():
            (self._directory / "chunks" / name).write_bytes(content)

    def _play(self, store: DurableStore) -> None:
        life = _Life(store)
        self.starts += 1
        if not self._query:
            with suppress(AlreadyExists):  # the power went before anybody was told
                life.send(CreateStream("CREATE STREAM s (k BIGINT, e BIGINT, n BIGINT, part BIGINT)"))
            life.flush()
            self._query = life.register()
        self.said += problems(self.acknowledged, life.rows(self._query))
        for _ in range(self.steps if not self.said else 0):
            self._step(life)
        self.events += life.events
        self.stored += life.stored

    def _step(self, life: _Life) -> None:
        producer = self.chance.randrange(PRODUCERS)
        if self.chance.random() < 0.05:
            self._epochs[producer] += 1
        key = producer, self._epochs[producer]
        count = self.chance.randrange(1, 4)
        back = self.chance.randrange(3) if self.chance.random() < 0.3 else 0  # replies of an earlier group were lost
        numbers = [*range(max(0, self.acknowledged.get(key, 0) - back), self.acknowledged.get(key, 0) + count)]
        while numbers:
            size = self.chance.randrange(1, len(numbers) + 1)
            life.push(*key, *numbers[:size])
            if self.chance.random() < 0.3:  # the reply is lost, and batches are sent again
                life.push(*key, *numbers[self.chance.randrange(size) : size])
            numbers = numbers[size:]
        life.flush(lambda: self.acknowledged.update({key: self.acknowledged.get(key, 0) + count}))
        if key[1] > 1 and self.chance.random() < 0.3:  # a fenced instance does not know that it is
            life.zombie(producer, key[1] - 1, self.acknowledged.get((producer, key[1] - 1), 0))
        if self.chance.random() < 0.2:
            life.skip(*key, self.acknowledged[key] + 1)
        if self.chance.random() < 0.3:
            life.maintain()


class _Life:
    """Admission, store and engine of one life, in one thread."""

    def __init__(self, store: DurableStore) -> None:
        self.store = store
        self.admission, self.engine = Admission(CONFIG), Engine(CONFIG, keep=store.keep)
        self.events = self.stored = 0
        self._group: list[Event] = []
        for event in store.read():
            self.admission.replay(event)
            self.engine.apply([event])

    def send(self, command: Any) -> Acknowledgement:
        """Prepare a command; the event waits for `flush`."""
        prepared = prepare_shared(command, lambda each: self.admission.prepare(each, _NOW))
        self._group += prepared.events
        return prepared.acknowledgement

    def flush(self, acknowledge: Any = lambda: None) -> None:
        """Store, acknowledge and apply the waiting events."""
        log(self.store, self._group, acknowledge)
        if self._group:
            self.engine.apply(self._group)
        self.events += len(self._group)
        self._group = []

    def register(self) -> int:
        """The ID of a query for all rows."""
        done = self.send(Register("SELECT k, e, n, part FROM s BEGIN (START)"))
        self.flush()
        assert isinstance(done, QueryAcknowledgement)
        return done.query_id

    def push(self, producer: int, epoch: int, *numbers: int) -> None:
        """Send a batch, or several that share a push; they are acknowledged with `flush`."""
        batches = [batch_rows(producer, epoch, number) for number in numbers]
        columns = zip(*chain.from_iterable(batches), strict=True)
        table = pa.table(dict(zip(("k", "e", "n", "part"), map(list, columns), strict=True)))
        shared = tuple(SharedBatch(digest_of([repr(rows).encode()]), len(rows)) for rows in batches)
        command = Push("s", table, f"p{producer}", epoch, numbers[0], shared[0].digest)
        done = self.send(replace(command, shared=shared, whole=True) if len(shared) > 1 else command)
        answers = done.batches if isinstance(done, SharedAcknowledgement) else (done,)
        for answer, rows in zip(answers, batches, strict=True):
            assert isinstance(answer, PushAcknowledgement)
            assert answer.accepted == len(rows), f"{answer.accepted} of {len(rows)} rows were taken"

    def zombie(self, producer: int, epoch: int, number: int) -> None:
        """Send a batch of an older epoch; it ought to be refused."""
        self._tolerate(producer, epoch, number)

    def skip(self, producer: int, epoch: int, number: int) -> None:
        """Send a number that leaves a gap; it ought to be refused."""
        self._tolerate(producer, epoch, number)

    def _tolerate(self, producer: int, epoch: int, number: int) -> None:
        try:
            self.push(producer, epoch, number)
        except FailedPrecondition:
            return
        self.flush()

    def maintain(self) -> None:
        """Store chunks, and do all other maintenance that is due."""
        while (task := self.engine.maintenance()) is not None:
            self.engine.install(task.compute())
            self.stored += task.name == "store"

    def rows(self, query: int) -> list[Row]:
        """The answer of the query for all rows."""
        table = again(invoke, self.engine.snapshot(), query, tenant="default", now=_NOW).to_table()
        return list(zip(*(table[name].to_pylist() for name in ("k", "e", "n", "part")), strict=True))


def log(store: DurableStore, events: list[Event], acknowledge: Any) -> None:
    """A group is on the disk before it is acknowledged."""
    store.append(events)
    acknowledge()


@contextmanager
def chunk_disk(step: Callable[[str], None] = lambda operation: None) -> Iterator[ChunkDisk]:
    """A `ChunkDisk` under the chunks, inside the block."""
    disk, sync = ChunkDisk(step), chunks.sync_directory
    chunks.os, chunks.sync_directory = disk, disk.sync_directory  # type: ignore[assignment, attr-defined]
    try:
        yield disk
    finally:
        chunks.os, chunks.sync_directory = os, sync  # type: ignore[attr-defined]

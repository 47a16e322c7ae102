"""Tables whose power goes, or whose process is killed: a start finds all acknowledged upserts and deletions."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from psoup_client import Client
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.crash.table_lives import CREATE, TableLives, batch_rows, open_rows, whole_batches
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import SCALE, SEED, replayable

LIVES = max(6, round(12 * SCALE))
KILLS = max(5, round(10 * SCALE))


@pytest.mark.long
def test_a_table_is_what_was_acknowledged_after_each_power_cut(tmp_path: Path) -> None:
    lives = TableLives(tmp_path, SEED)
    assert lives.run(LIVES) == []
    assert min(lives.stored, lives.acknowledged, lives.thinned) > LIVES


class Upserts:
    """A producer of a table in a thread. It goes on over every restart until it is stopped."""

    def __init__(self, address: str, stop: threading.Event) -> None:
        self.problem: BaseException | None = None
        self._stop = stop
        self._client = Client(address, timeout=60)
        self._producer = self._client.producer("t", name="p", epoch=1, window_batches=8, retry_seconds=90)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged batches."""
        return self._producer.acknowledged

    def wait_for(self, batches: int) -> None:
        """Wait until so many batches are acknowledged, or the thread has ended."""
        while self.acknowledged < batches and self._thread.is_alive():
            self._thread.join(0.01)

    def finish(self) -> int:
        """Wait until every batch is acknowledged, and return their number."""
        self._thread.join()
        if self.problem is not None:
            raise self.problem
        self._client.close()
        return self.acknowledged

    def _run(self) -> None:
        try:
            number = 0
            with self._producer:
                while not self._stop.is_set():
                    rows = batch_rows(number)
                    columns = {"k": [key for key, _ in rows], "x": pa.array([value for _, value in rows], pa.int64())}
                    columns["_deleted"] = [value is None for _, value in rows]
                    more = {"_patch": [True] * len(rows)} if is_patch(number) else {"y": [str(number)] * len(rows)}
                    number = self._producer.push(pa.table({**columns, **more}))
        except BaseException as problem:
            self.problem = problem


def is_patch(number: int) -> bool:
    """Whether a batch has patches, which lack the column y."""
    return number % 3 == 2


def texts_after(batches: int) -> dict[int, str | None]:
    """The values of y of each key after so many batches: the number of its last row that is not a patch."""
    texts = dict[int, str | None]()
    for number in range(batches):
        for key, value in batch_rows(number):
            text = texts.get(key) if is_patch(number) else str(number)
            texts[key] = None if value is None else text
    return texts


def check_texts(table: pa.Table, batches: int) -> None:
    """Check the values that patches have kept, after so many batches."""
    texts = texts_after(batches)
    keys = table["k"].to_pylist()
    assert dict(zip(keys, table["y"].to_pylist(), strict=True)) == {key: texts[key] for key in keys}


@pytest.mark.long
def test_kill_9_while_rows_are_upserted_patched_and_deleted(tmp_path: Path) -> None:
    chance, data, stop = random.Random(SEED), str(tmp_path / "data"), threading.Event()
    with replayable(SEED), Zygote(PSOUP_TEST_CHUNK_ROWS="64") as zygote:
        zygote.start(data)
        address = zygote.ready()
        with Client(address, timeout=60) as client:
            client.create_table(f"{CREATE.replace('x BIGINT', 'x BIGINT, y TEXT')} HISTORY 1 SECOND")
            query = client.register("SELECT k, x, y FROM t").id
        sender = Upserts(address, stop)
        try:
            for _ in range(KILLS):
                sender.wait_for(sender.acknowledged + chance.randrange(1, 150))
                acknowledged = sender.acknowledged
                assert zygote.kill() == 9
                zygote.start(data, int(address.rpartition(":")[2]))
                assert zygote.ready() == address
                with Client(address, timeout=60) as client:
                    table = client.query(query).invoke().to_arrow()
                    values = dict(zip(table["k"].to_pylist(), table["x"].to_pylist(), strict=True))
                    assert len(values) == table.num_rows, "a key has two rows"
                    batches = whole_batches(values, acknowledged, acknowledged + 1_000)
                    assert batches is not None, values
                    check_texts(table, batches)
        finally:
            stop.set()
        total = sender.finish()
        assert total > 10 * KILLS, "the producer hardly got anywhere"
        with Client(address, timeout=60) as client:
            table = client.query(query).invoke(wait_for=client.last_sequence).to_arrow()
            assert dict(zip(table["k"].to_pylist(), table["x"].to_pylist(), strict=True)) == open_rows(total)
            check_texts(table, total)
        assert zygote.stop() == 0
    names = [path.name for path in Path(data, "chunks").iterdir()]
    assert len(names) > KILLS, "hardly a chunk was stored"
    assert any("-t" in name for name in names), "no version has left"
    assert examine(data).well

"""A query with an expression that cannot be evaluated: the service goes on, starts again, and names the query.

raises             in a running service: pushes are acknowledged, others' answers come, the log and `explain` tell
ends the process   at a push, then at two starts: the third start does not evaluate it, nor do later ones
by hand            psoup doctor --replay names the query, psoup serve --quarantine starts without it
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.clauses.quarantine import EvaluationPlace
from psoup.errors import NotFound, PSoupError
from psoup_client import Client
from psoup_client.errors import PSoupError as ClientError
from psoup_service.host.precautions import EVALUATING, Guard, Mark, read_mark
from psoup_service.main import serve
from psoup_service.process.rehearsal import rehearse
from psoup_service.process.settings import Settings
from psoup_service.service import Service
from psoup_storage import DurableStore, MemoryStore
from psoup_testing.engines.error_expressions import poison, raising
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote(PSOUP_TEST_CHUNK_ROWS="64", PSOUP_TEST_DEADLY="13", PSOUP_TEST_MEMORY_MIB="1024") as made:
        yield made


def batch(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def answer(client: Client, query_id: str) -> list[int]:
    return [row[0] for row in client.query(query_id).invoke().rows()]


def explained(client: Client, query_id: str) -> str:
    return str(client.query(query_id).explain())


def test_a_service_goes_on_and_says_what_it_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(port=0, metrics_port=0, data_dir=str(tmp_path))
    with raising({"abs": poison(13)}), caplog.at_level(logging.WARNING):
        for life in range(2):
            with serving(settings, store=DurableStore(tmp_path)) as running, Client(running.address) as client:
                if not life:
                    client.create_stream("CREATE STREAM s (a BIGINT)")
                    client.register("SELECT a FROM s WHERE abs(a) > 2")
                    client.register("SELECT a FROM s WHERE a > 2")
                bad, good = [query.id for query in client.queries()]
                for value in range(4):
                    client.push("s", batch(13, value))
                    assert answer(client, good)[-1] in (13, 3), "it is applied: not two pushes at once"
                assert answer(client, bad) == [3] * (life + 1)
                assert answer(client, good) == [13, 13, 13, 13, 3] * (life + 1)
                assert client.query(bad).invoke().completeness.errors == 4 * (life + 1)
                assert list(client.matches("s", 7)) == [bad, good] and list(client.matches("s", 6)) == [good]
                assert "outside  abs(a): " in explained(client, bad) and "outside" not in explained(client, good)
                with urllib.request.urlopen(f"http://{running.service.metrics_address}/metrics") as page:
                    assert b"psoup_clauses_left_index 1.0" in page.read()
            (told,) = [record for record in caplog.records if hasattr(record, "expression")]
            assert (told.expression, told.queries) == ("abs(a)", [bad])  # type: ignore[attr-defined]
            caplog.clear()


@pytest.mark.seeded("F1: a clause whose text grows without end ends the process, and each start after it")
@pytest.mark.long
def test_what_ends_the_process_is_not_evaluated_by_the_third_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zygote: Zygote
) -> None:
    folder = str(tmp_path / "data")
    zygote.start(folder)
    with Client(zygote.ready()) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        bad = client.register("SELECT a FROM s WHERE abs(a) > 2").id
        good = client.register("SELECT a FROM s WHERE a > 2").id
        assert client.push("s", batch(1, 5)).accepted == 2
        with suppress(ClientError):  # it may be gone before it has answered; the tuple is on the disk
            client.push("s", batch(13))
    assert zygote.died() == signal.SIGKILL
    for _ in range(2):
        zygote.start(folder)
        assert zygote.died() == signal.SIGKILL
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    (finding,) = rehearse(Path(folder), 1024, "psoup_testing.crash.deadly")
    assert (finding.severity, finding.place) == ("replay", "stream s")
    assert "SIGKILL" in finding.what and "abs(a) over tuples 0 to 2, in events 1 to 5" in finding.what
    assert f"--quarantine {bad}" in finding.repair
    for why in ("ended twice while it was evaluated", "kept out since an earlier start"):  # the next one has a note
        zygote.start(folder)
        with Client(zygote.ready()) as client:
            client.push("s", batch(7))
            assert answer(client, good)[:3] == [5, 13, 7]
            assert why in explained(client, bad)
        assert zygote.stop() == 0
    assert not (tmp_path / "data" / "note-evaluating").exists()


@pytest.mark.long
def test_by_hand_and_until_it_is_gone(tmp_path: Path, zygote: Zygote) -> None:
    folder = str(tmp_path / "data")
    zygote.start(folder)
    with Client(zygote.ready()) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        bad = client.register("SELECT a FROM s WHERE abs(a) > 2").id
        with suppress(ClientError):
            client.push("s", batch(13))
    assert zygote.died() == signal.SIGKILL
    zygote.start(folder, quarantine=bad)
    with Client(zygote.ready()) as client:
        assert "taken out by the operator" in explained(client, bad)
        client.query(bad).unregister()
    assert zygote.stop() == 0
    zygote.start(folder)
    with Client(zygote.ready()) as client:
        client.push("s", batch(7))
    assert zygote.stop() == 0


@pytest.mark.long
def test_what_does_not_stand_is_not_taken_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said before anybody is served: else the query that was meant would be evaluated again."""
    settings = Settings(port=0, metrics_port=-1, data_dir=str(tmp_path))
    with serving(settings, store=DurableStore(tmp_path)) as running, Client(running.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        gone, stands = [client.register(f"SELECT a FROM s WHERE abs(a) > {n}") for n in (1, 2)]
        gone.unregister()
    for unknown in (gone.id, stands.id + "9"):
        assert serve(settings, quarantine=[stands.id, unknown], ready=lambda address: pytest.fail(address)) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert said == f"error: there is no query '{unknown}' in this data directory: it cannot be quarantined"


@pytest.mark.long
def test_a_clause_that_multiplies_is_an_error_of_its_row(tmp_path: Path, zygote: Zygote) -> None:
    """9 kB of statement that would make 27 GB of text of a row 'x', in a service that has no such memory."""
    inner = "a"
    for _ in range(3):
        inner = f"replace({inner}, 'x', '{'x' * 3_000}')"
    folder = str(tmp_path / "data")
    for life in range(2):
        zygote.start(folder)
        with Client(zygote.ready()) as client:
            if not life:
                client.create_stream("CREATE STREAM p (a TEXT, n BIGINT)")
                client.register(f"SELECT n FROM p WHERE length({inner}) = 7")
            assert client.push("p", [{"a": "x", "n": 1}, {"a": "1234567", "n": 2}]).accepted == 2
            found = client.queries()[0].invoke()
            assert found.rows() == [(2,)] * (life + 1) and found.completeness.errors == life + 1
        assert zygote.stop() == 0


def test_a_query_that_is_put_out_must_be_one_of_this_directory() -> None:
    with pytest.raises(NotFound, match="another incarnation"):
        Guard(MemoryStore(), ["q-00000000-1"])


@pytest.mark.parametrize(("first_id", "ended", "evaluated"), [(0, 1, True), (0, 2, False), (8, 2, True)])
def test_a_mark_is_of_a_place(first_id: int, ended: int, evaluated: bool) -> None:
    store = MemoryStore()
    store.note(EVALUATING, Mark(EvaluationPlace(3, "arrival", first_id, 8), ended).to_text())
    guard = Guard(store)
    assert guard.watch(EvaluationPlace(3, "arrival", 0, 8)) == evaluated
    mark = read_mark(store.noted(EVALUATING))
    assert mark is not None and mark.times == (1 if first_id else 2)
    guard.over()
    assert read_mark(store.noted(EVALUATING)) is None
    assert guard.watch(EvaluationPlace(3, "cover", 0, 8)) and Guard(store).watch(EvaluationPlace(4, "cover", 0, 8))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"stream_id": 1}', "null", '{"stream_id":"x","what":1}'])
def test_a_mark_that_cannot_be_read_is_none(text: str) -> None:
    assert read_mark(text) is None


def test_a_service_that_cannot_be_made_leaves_no_threads_and_closes_its_store(tmp_path: Path) -> None:
    store, before = DurableStore(tmp_path), set(threading.enumerate())
    with pytest.raises(PSoupError, match="nonsense"):
        Service(Settings(port=0, threads=4), store=store, quarantine=["nonsense"])
    assert set(threading.enumerate()) <= before
    DurableStore(tmp_path).close()  # nobody has the folder

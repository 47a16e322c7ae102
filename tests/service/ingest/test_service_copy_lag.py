"""A service whose copy is behind for too long acknowledges nothing and says why, until the copy has caught up."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import current_thread
from unittest.mock import patch

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.errors import InvalidInput
from psoup.errors import Unavailable as Refused
from psoup_cli.app import app
from psoup_client import Unavailable
from psoup_service import main
from psoup_service.figures import copy_figures
from psoup_service.figures.copy_figures import CopyWatch
from psoup_service.host import committer
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load
from psoup_storage.replica.gate import ReplicaGate
from psoup_storage.replica.restore import restore_copy
from psoup_testing.services.copied_service import copied_service


def test_nothing_is_acknowledged_while_the_copy_is_too_far_behind(tmp_path: Path) -> None:
    with copied_service(tmp_path) as copied:
        client, store = copied.client, copied.store
        client.create_stream("CREATE STREAM s (x BIGINT)")
        query = client.register("SELECT x FROM s BEGIN (START)")
        copied.wait_for_copy()
        info = client.info().copy
        assert info is not None and (info.place, info.lag_events, info.problem) == (copied.target.place, 0, "")
        copied.away = True
        done = client.push("s", pa.table({"x": [1]}))  # acknowledged: the copy is behind for less than the limit
        copied.running.wait_until(lambda: bool(store.uploader.trouble))
        store.copy_gate.most_s = 0.0
        with pytest.raises(Unavailable, match=r"because the copy at .* has lacked 1 event for \d+ s") as e:
            client.push("s", pa.table({"x": [2]}))
        assert (e.value.reason, e.value.retry_after) == ("COPY_BEHIND", 1.0)
        assert "cannot be reached" in e.value.message and "set replicate_lag_most to off" in e.value.message
        create = "CREATE STREAM t (x BIGINT)"
        for call in (query.unregister, lambda: client.drop("s"), lambda: client.create_stream(create)):
            with pytest.raises(Unavailable, match="nothing is acknowledged"):
                call()
        client.wait_for(done.sequence)
        assert query.invoke().to_arrow()["x"].to_pylist() == [1], "reads go on"
        info = client.info()
        assert info.refusing.startswith("nothing is acknowledged") and info.state == "serving"
        assert info.copy is not None and info.copy.lag_events == 1 and "cannot be reached" in info.copy.problem
        said = CliRunner().invoke(app, ["status", "--address", client.address]).output
        assert f"{copied.target.place}: lacks 1 event, for " in said and "refused: nothing is acknowledged" in said
        assert copied.running.service._notices().count("nothing is acknowledged") == 1
        copied.away = False
        copied.wait_for_copy()
        client.push("s", pa.table({"x": [3]}))
        copied.wait_for_copy()
        assert client.info().refusing == ""
        assert "has all events" in CliRunner().invoke(app, ["status", "--address", client.address]).output
    assert restore_copy(copied.target, tmp_path / "again").sequence == store.sequence


class ClosedForTheCommitter(ReplicaGate):
    """A gate that closes between the preparation of a command and its append."""

    closed = False

    def check(self) -> None:
        if self.closed and current_thread().name == "psoup-committer":
            raise Refused("the gate is closed", reason="COPY_BEHIND")


def test_prepared_commands_wait_until_the_copy_has_caught_up(tmp_path: Path) -> None:
    with (
        patch.object(committer, "RETRY_SECONDS", 0.01),
        copied_service(tmp_path) as copied,
        ThreadPoolExecutor(1) as pool,
    ):
        copied.store.copy_gate = gate = ClosedForTheCommitter(copied.store.uploader, math.inf)
        copied.client.create_stream("CREATE STREAM s (x BIGINT)")
        before, gate.closed = copied.store.sequence, True
        pushing = pool.submit(copied.client.push, "s", pa.table({"x": [1]}))
        copied.running.wait_until(lambda: copied.running.service.host.shortage() == "the gate is closed")
        assert copied.running.service.host.counters()["short_of_disk"] == 0
        with pytest.raises(Unavailable, match="the gate is closed"):
            copied.client.create_stream("CREATE STREAM t (x BIGINT)")  # a push would wait for the first one
        assert copied.store.sequence == before and not pushing.done()
        gate.closed = False
        assert pushing.result(300).sequence == before + 1


def test_the_log_says_when_the_copy_falls_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def said() -> list[str]:
        return [record.getMessage()[:30] for record in caplog.records if record.name == copy_figures.__name__]

    with (
        patch.multiple(copy_figures, BEHIND_S=0.0, EVERY_S=3_600.0),  # only the test looks
        copied_service(tmp_path) as copied,
    ):
        watch = CopyWatch(copied.store)
        copied.client.create_stream("CREATE STREAM s (x BIGINT)")
        copied.wait_for_copy()
        caplog.clear()
        watch.look()
        assert said() == []
        copied.away = True
        copied.client.create_stream("CREATE STREAM t (x BIGINT)")
        copied.running.wait_until(lambda: bool(copied.store.uploader.trouble))
        caplog.clear()
        watch.look()
        watch.look()
        copied.store.copy_gate.most_s = 0.0
        watch.look()
        expected = ["the copy of the events is behi", "nothing is acknowledged, becau"]
        assert said() == expected
        copied.away = False
        copied.wait_for_copy()
        caplog.clear()
        watch.look()
        assert said() == ["the copy of the events has cau", "events are acknowledged again"]


def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    assert Settings().replicate_lag_most == 60
    for text, seconds in (("5", 5), ("off", math.inf)):
        settings = load(environ={"PSOUP_REPLICATE": "s3://b/p", "PSOUP_REPLICATE_LAG_MOST": text}).settings
        replication = main._replication(settings)
        assert replication is not None and replication.lag_most_s == seconds
    for text in ("0", "on"):
        with pytest.raises(InvalidInput, match="it takes a whole number, 1 or more, or off"):
            load(environ={"PSOUP_REPLICATE_LAG_MOST": text})


def test_the_days_of_the_copy_are_a_setting() -> None:
    assert Settings().replicate_keep == 7
    for text, seconds in (("2", 172_800), ("off", math.inf)):
        settings = load(environ={"PSOUP_REPLICATE": "s3://b/p", "PSOUP_REPLICATE_KEEP": text}).settings
        replication = main._replication(settings)
        assert replication is not None and replication.keep_s == seconds
    with pytest.raises(InvalidInput, match="it takes a whole number, 1 or more, or off"):
        load(environ={"PSOUP_REPLICATE_KEEP": "0"})

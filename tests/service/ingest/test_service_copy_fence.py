"""A service whose copy another one has taken over ends, and answers nothing any more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from psoup.errors import Internal
from psoup_client import Unavailable
from psoup_storage.replica import uploader
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.services.copied_service import copied_service


def taken_over(path: Path) -> None:
    """Let another directory take over the copy of a service that runs."""
    with copied_service(path) as copied:
        client, host = copied.client, copied.running.service.host
        client.create_stream("CREATE STREAM s (x BIGINT)")
        query = client.register("SELECT x FROM s BEGIN (START)")
        client.wait_for(client.push("s", pa.table({"x": [1]})).sequence)
        copied.wait_for_copy()
        assert query.invoke().to_arrow()["x"].to_pylist() == [1]
        restore_copy(DirectoryTarget(copied.target.place), path / "heir", takes_over=True)
        copied.running.wait_until(lambda: host.state == "failed")
        for call in (query.invoke, lambda: client.push("s", pa.table({"x": [2]})), client.info):
            with pytest.raises(Unavailable, match="another service took over the copy") as problem:
                call()
            assert problem.value.reason == "COPY_FENCED"
        assert copied.running.service._notices().startswith("another service took over")


def test_a_fenced_service_answers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(uploader, "FENCE_LOOK_S", 0.001)
    with pytest.raises(Internal, match="the host failed: another service took over the copy"):
        taken_over(tmp_path)
    (stopped,) = [record for record in caplog.records if record.message == "events are not copied any more"]
    assert stopped.why.startswith("another service took over") and stopped.exc_info is None  # type: ignore[attr-defined]

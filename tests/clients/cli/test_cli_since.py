"""Names of possibly forgotten producers: files, dumps and feeds go on once the caller says that they are new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from psoup_client import Client, FailedPrecondition, PushResult
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import FEW_PRODUCERS, serving

ROW = pa.table({"x": [1]})


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch, psoup: Psoup) -> Iterator[Client]:
    """A service whose stream has forgotten producers, for the command too."""
    with serving(FEW_PRODUCERS) as service, Client(service.address) as client:
        monkeypatch.setenv("PSOUP_ADDRESS", service.address)
        client.create_stream("CREATE STREAM s (x BIGINT)")
        for _ in range(4):
            with Client(service.address) as other:
                other.wait_for(other.push("s", ROW).sequence)
        client.describe("s")  # tells the last event
        yield client


def test_a_file_of_a_name(crowded: Client, psoup: Psoup, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x\n1\n2\n")
    named = ["push", "s", "rows.csv", "--whole", "--id", "monday"]
    ran = psoup(*named)
    assert ran.code == 5
    assert "may be one that was forgotten" in ran.err
    assert "2 rows taken" in psoup(*named, "--since", str(crowded.known_sequence)).err
    assert "Nothing was sent" in psoup(*named).err
    assert psoup(*named[:-1], "tuesday", "--since", "1000000").code == 5  # an event that has not happened


def test_a_dump(crowded: Client, psoup: Psoup, tmp_path: Path) -> None:
    crowded.dump("s", tmp_path / "d")
    rows = crowded.describe("s").tuples
    with pytest.raises(FailedPrecondition) as caught:
        crowded.load(tmp_path / "d", append=True)
    assert caught.value.reason == "PRODUCER_FORGOTTEN"
    ran = psoup("load", str(tmp_path / "d"), "--append", "--since", caught.value.facts["sequence"])
    assert ran.code == 0
    assert crowded.load(tmp_path / "d").duplicates == 1
    assert crowded.describe("s").tuples == 2 * rows


def test_a_feed_and_a_batch_of_spark(crowded: Client) -> None:
    """The stages that they begin; Spark itself is not needed for that."""
    pytest.importorskip("pyspark")
    from psoup_spark.row_sender import BatchId, RowTarget, begin

    target = RowTarget(crowded.address, "s", 5.0)
    with pytest.raises(FailedPrecondition, match="forgotten"):
        begin(crowded, target, BatchId("spark-1"))
    stage = begin(crowded, target, BatchId("spark-1", since=crowded.known_sequence))
    stage.add(ROW)
    assert isinstance(stage.commit(), PushResult)

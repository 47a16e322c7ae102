"""A copy in object storage: a server of S3 that honours conditional writes, reached as a service reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.errors import FailedPrecondition, InvalidInput, Unavailable
from psoup_storage.replica.chain import first_number
from psoup_storage.replica.objects import object_name
from psoup_storage.replica.old_objects import OldObjects, ReaderMark
from psoup_storage.replica.report import verify
from psoup_storage.replica.restore import base_images, last_object, restore_copy
from psoup_storage.replica.targets import Target, open_target
from psoup_testing.engines.copy_target import copied, store_of, wait_for_copy
from psoup_testing.services.object_storage import StorageProxy, object_storage

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def storage() -> Iterator[StorageProxy]:
    with object_storage() as proxy:
        yield proxy


@pytest.fixture
def target(storage: StorageProxy, tmp_path: Path) -> Target:
    return open_target(f"s3://bucket/{tmp_path.name}")


def test_an_object_is_created_once(target: Target, tmp_path: Path) -> None:
    assert target.read("log/1") is None and not target.has("log/1")
    assert target.create("log/1", b"first")
    assert not target.create("log/1", b"second")
    assert target.read("log/1") == b"first"
    assert target.create("log/2", b"") and target.create("log/3", b"") and target.create("other/9", b"")
    assert list(target.names_after("log/1")) == ["log/2", "log/3"]
    large = bytes(range(256)) * 40_000
    (tmp_path / "large").write_bytes(large)
    target.add_file("files/1", tmp_path / "large")
    assert b"".join(target.pieces("files/1")) == large
    with pytest.raises(FileNotFoundError):
        next(target.pieces("files/2"))


def test_a_copy_in_object_storage_is_restored(target: Target, tmp_path: Path) -> None:
    with copied(tmp_path / "data", target) as soup:
        soup.execute("CREATE STREAM s (x BIGINT)")
        soup.register("SELECT x FROM s BEGIN (START)")
        for value in range(5):
            soup.push("s", pa.table({"x": [value]}))
            wait_for_copy(soup)
        answer, sequence = soup.invoke(1).to_table(), soup.store.sequence
    assert store_of(soup).uploader.failure == ""
    assert restore_copy(target.place, tmp_path / "again").sequence == sequence
    with copied(tmp_path / "again", open_target(f"{target.place}-2")) as soup:
        assert soup.invoke(1).to_table().equals(answer)


def test_a_copy_in_object_storage_is_taken_over(target: Target, tmp_path: Path) -> None:
    with copied(tmp_path / "data", target) as soup:
        soup.execute("CREATE STREAM s (x BIGINT)")
        wait_for_copy(soup)
    assert restore_copy(target.place, tmp_path / "heir", takes_over=True).sequence == 1
    with copied(tmp_path / "heir", target) as soup:
        soup.execute("CREATE STREAM t (x BIGINT)")
    assert store_of(soup).uploader.failure == "" and verify(target).problems == []
    assert restore_copy(target.place, tmp_path / "again").sequence == 2
    with pytest.raises(FailedPrecondition, match="another service took over"), copied(tmp_path / "data", target):
        pass


def test_storage_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with pytest.raises(Unavailable, match="the copy at s3://bucket/x/log/1 cannot be reached"):
        open_target("s3://bucket/x").has("log/1")
    with pytest.raises(InvalidInput, match="at s3://, gs://, az://"):
        open_target("hdfs://bucket/x")


def test_an_address_without_tls_needs_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ENDPOINT_URL", "http://127.0.0.1:1"), ("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(Unavailable, match="for an address without TLS set AWS_ALLOW_HTTP=true"):
        open_target("s3://bucket/x").has("log/1")


def test_old_objects_are_removed_from_object_storage(target: Target, tmp_path: Path) -> None:
    with copied(tmp_path / "data", target, base_s=0) as soup:
        soup.execute("CREATE STREAM s (x BIGINT)")
        wait_for_copy(soup)
        for value in range(3):
            soup.push("s", pa.table({"x": [value]}))
            wait_for_copy(soup)
    before = last_object(target)
    newest = next(base_images(target, before))
    assert target.time_of("nothing") is None and target.time_of(object_name(newest.number)) is not None
    ReaderMark(target).renew(1)
    assert OldObjects(target, 0.0, lambda: False).remove(newest) == 0
    target.delete([*target.names_after("marks/")])
    assert OldObjects(target, 0.0, lambda: False).remove(newest) > 0
    assert first_number(target) == newest.facts["after"] + 1
    target.delete([object_name(1), object_name(1), "log/nothing"])
    assert last_object(target).number == before.number
    assert verify(target).problems == []
    assert restore_copy(target, tmp_path / "again").sequence == 4

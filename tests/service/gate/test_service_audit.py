"""The audit log: what it tells and what not, and that a chain which was changed is found."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from psoup_client import AccessDenied, Client, ClientOptions
from psoup_service.gate.audit import FIRST, NAME, Audit, hash_of, tell_offline
from psoup_service.gate.audit_chain import lines_of, verify
from psoup_service.gate.principal import EVERYBODY, Principal
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.services.threaded_service import serving
from psoup_testing.suite.log_records import own_records

ME = Principal("me", ("owner",), token_id="abc")
SECOND = 1_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A log of five lines."""
    path = tmp_path / "audit.jsonl"
    audit = Audit(path)
    for number in range(5):
        audit.note(number * SECOND, "StreamService/DropStream", "OK", ME, object=f"stream {number}", peer="unix:")
    audit.close()
    return path


def test_changes_and_refusals_are_told_and_reads_and_secrets_are_not(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with serving(Settings(port=0), store=DurableStore(path)) as service:
        with Client(service.address) as client:
            client.create_stream("CREATE STREAM before (x BIGINT)")
            owner = client.issue_token("ann", ["owner", "operator"], first=True).secret
        with Client(service.address, options=ClientOptions(token=owner)) as client:
            reader = client.issue_token("bob", ["reader"])
            client.create_stream("CREATE STREAM of_ann (secret_of_ann BIGINT)")
            client.push("before", [{"x": 987654321}])
            client.register("SELECT x FROM before WHERE x = 123456789", key="mine").invoke()
        for token in (reader.secret, "psoup_wrong"):
            with Client(service.address, options=ClientOptions(token=token)) as client, pytest.raises(AccessDenied):
                client.drop("before")
    log = path / "audit.jsonl"
    assert log.stat().st_mode & 0o777 == 0o600
    told = [
        (line["principal"], line["call"].partition("/")[2], line["outcome"], line.get("object", "").split(" ")[0])
        for line in lines_of(log)
    ]
    assert told == [
        ("", "IssueToken", "OK", "ann"),
        ("ann", "IssueToken", "OK", "bob"),
        ("ann", "CreateStream", "OK", "of_ann"),
        ("ann", "Register", "OK", "mine"),
        ("bob", "DropStream", "PERMISSION_DENIED", ""),
        ("", "GetStream", "UNAUTHENTICATED", ""),
    ]
    text = log.read_text()
    for hidden in ("secret_of_ann", "987654321", "123456789", owner[16:], reader.secret[16:]):
        assert hidden not in text
    assert verify(log).broken == 0
    assert examine(path).well, "the doctor knows the file"


@pytest.mark.seeded("the chain of the audit log is not followed")
@pytest.mark.parametrize("place", range(1, 5))
def test_a_line_that_is_changed_taken_out_or_put_in_is_found(file: Path, place: int) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    whole = verify(file)
    assert (whole.lines, whole.broken, whole.torn, whole.last) == (5, 0, 0, hash_of(lines[-1].strip()))
    changed = lines[place - 1].replace(b"stream", b"Stream")
    for forged in (
        [*lines[: place - 1], changed, *lines[place:]],
        [*lines[:place], lines[place - 1], *lines[place:]],
        [*lines[: place - 1], *lines[place:]] if place > 1 else [lines[1], lines[0], *lines[2:]],
    ):
        file.write_bytes(b"".join(forged))
        assert verify(file).broken in (place, place + 1)


def test_lines_cut_off_at_the_end_are_told_by_a_hash_of_before(file: Path) -> None:
    noted = verify(file).last
    assert verify(file, noted).there
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:4]))
    cut = verify(file, noted)
    assert (cut.broken, cut.there) == (0, False)


def test_the_chain_goes_on_after_a_restart_a_torn_line_and_in_a_new_file(file: Path, tmp_path: Path) -> None:
    file.write_bytes(file.read_bytes() + b'{"time":"19')
    audit = Audit(file)
    audit.note(6 * SECOND, "AdminService/RevokeToken", "OK", ME)
    found = verify(file)
    assert (found.lines, found.broken, found.torn) == (7, 0, 1)
    file.rename(tmp_path / "older.jsonl")
    audit.note(8 * SECOND, "AdminService/RevokeToken", "OK", ME)
    audit.close()
    (line,) = lines_of(file)
    assert line["before"] == found.last != FIRST


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to others")
def test_a_log_that_root_begins_is_of_the_owner_of_the_directory(tmp_path: Path) -> None:
    os.chown(tmp_path, 12_345, 23_456)
    tell_offline(tmp_path, "AdminService/IssueToken", "ann")
    made = (tmp_path / NAME).stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (12_345, 23_456, 0o600)


@pytest.mark.parametrize(
    "content", [b"x\0y\nz\n", b"a,b\n1,2\n", b'{"time":"2026","call":"x"}\n', b"[]\n", b"[" * 100_000 + b"\n"]
)
def test_what_no_service_wrote_is_no_line_that_was_cut_off(file: Path, content: bytes) -> None:
    lines = file.read_bytes()
    file.write_bytes(content + lines)
    assert verify(file).foreign == 1
    file.write_bytes(lines + content)
    assert verify(file).foreign == 6
    file.write_bytes(content)
    assert verify(file).foreign == 1


def test_what_the_first_line_follows_is_told(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    assert verify(file).after == ""
    file.write_bytes(b"".join(lines[2:]))
    assert (verify(file).broken, verify(file).after) == (0, hash_of(lines[1].strip()))
    file.write_bytes(b"")
    assert verify(file).lines == 0


def test_a_flood_of_refusals_is_counted_and_changes_are_told_all_the_same(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    for _ in range(1_000):
        audit.note(SECOND, "StreamService/ListStreams", "UNAUTHENTICATED", EVERYBODY)
    for number in range(2):
        audit.note(SECOND + number, "StreamService/DropStream", "OK", ME)
    audit.note(2 * SECOND, "StreamService/ListStreams", "UNAUTHENTICATED", EVERYBODY)
    lines: list[dict[str, Any]] = list(lines_of(tmp_path / "audit.jsonl"))
    assert len(lines) == 203
    assert [line.get("unwritten") for line in lines[199:]] == [None, 800, None, None]
    audit.close()


def test_changes_that_fail_are_counted_apart_from_refusals_and_fill_no_disk(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    for outcome in ("UNAUTHENTICATED", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "OK"):
        for _ in range(300):
            audit.note(SECOND, "QueryService/Register", outcome, ME)
    audit.close()
    lines: list[dict[str, Any]] = list(lines_of(tmp_path / "audit.jsonl"))
    assert Counter(line["outcome"] for line in lines) == {"UNAUTHENTICATED": 200, "INVALID_ARGUMENT": 200, "OK": 300}
    assert [line["unwritten"] for line in lines if "unwritten" in line] == [100, 400]


def test_a_disk_that_takes_no_line_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit(tmp_path / "nowhere" / "audit.jsonl")
    for number in range(3):
        audit.note(number * SECOND, "StreamService/DropStream", "OK", ME)
    assert [record.getMessage() for record in own_records(caplog)] == ["the audit log cannot be written"]
    (tmp_path / "nowhere").mkdir()
    audit.note(9 * SECOND, "StreamService/DropStream", "OK", ME)
    audit.close()
    assert json.loads((tmp_path / "nowhere" / "audit.jsonl").read_text())["principal"] == "me"

"""A copy that someone else has written to: objects with right checksums and wrong contents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.errors import Internal
from psoup_cli.app import app
from psoup_storage import StandbyStore
from psoup_storage.replica import segments
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.objects import EVENTS, object_name, pack
from psoup_storage.replica.report import spans, verify
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import begin, copied, copy_at, push, wait_for_copy

MIB = 1024 * 1024


def make_copy(folder: Path) -> Path:
    """A copy of some events, whose last object is a segment."""
    target = DirectoryTarget(folder / "copy")
    with copied(folder / "data", target) as soup:
        begin(soup)
    with copied(folder / "data", target) as soup:  # the copy has all events, so this start makes no base image
        push(soup, 1, 2)
        wait_for_copy(soup)
        push(soup, 3)
    assert read_object(target, last_number(target)).kind == EVENTS
    return folder / "copy"


def last_of(copy: Path, kind: str) -> int:
    """The number of the last object of a kind. The objects after it are removed."""
    target = DirectoryTarget(copy)
    number = last_number(target)
    while read_object(target, number).kind != kind:
        (copy / object_name(number)).unlink()
        number -= 1
    return number


def rewrite(copy: Path, place: int, payload: bytes | None = None, **facts: Any) -> None:
    """Write an object anew, with other facts or another payload, and with the right checksum."""
    part = read_object(DirectoryTarget(copy), place)
    content = pack(part.facts | facts, bytes(part.payload) if payload is None else payload)
    (copy / object_name(place)).write_bytes(content)


def refuse_in(copy: Path, tmp_path: Path, text: str) -> None:
    """A restore, a standby and `verify` name the fault, and leave nothing behind."""
    target = DirectoryTarget(copy)
    with pytest.raises(Internal, match=text):
        restore_copy(target, tmp_path / "restored")
    with pytest.raises(Internal, match=text):
        StandbyStore(tmp_path / "standby", copy_at(copy))
    assert not (tmp_path / "restored").exists() and not (tmp_path / "standby").exists()
    problems = verify(target).problems
    assert any(re.search(text, problem) for problem in problems), problems


def refuse(copy: Path, tmp_path: Path, number: int, why: str) -> None:
    """Each reader names an object, also `list` does."""
    text = f"{object_name(number)} is damaged: .*{why}"
    refuse_in(copy, tmp_path, text)
    with pytest.raises(Internal, match=text):
        spans(DirectoryTarget(copy))
    shown = CliRunner().invoke(app, ["replica", "list", str(copy)])
    assert shown.exit_code == 2 and object_name(number) in shown.output


def payload_of(rows: list[segments.CommittedRow], *, compressed: bool = True) -> bytes:
    """The payload of rows, perhaps without compression."""
    payload = segments.encode_rows(rows)
    if compressed:
        return payload
    table = pa.ipc.open_stream(payload).read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def declared_length(payload: bytes, length: int, other: int) -> bytes:
    """A payload that declares `other` wherever it declares `length`."""
    declared = length.to_bytes(8, "little")
    assert declared in payload
    return payload.replace(declared, other.to_bytes(8, "little"))


def rows_of(copy: Path, number: int) -> list[segments.CommittedRow]:
    return segments.rows_of(read_object(DirectoryTarget(copy), number), str(copy))

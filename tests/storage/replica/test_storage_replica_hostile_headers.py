"""Names and headers that no writer of a copy makes: each reader names the object that it refuses, and reads no more."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from psoup.errors import Internal, InvalidInput
from psoup_storage.replica import headers, objects, targets
from psoup_storage.replica.chain import OWNER, last_number
from psoup_storage.replica.objects import BASE, EVENTS, FENCE, object_name, pack
from psoup_storage.replica.report import spans, verify
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import restored_values
from psoup_testing.engines.hostile_copy import last_of, make_copy, refuse, refuse_in, rewrite


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_copy(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """The copy, to be changed."""
    return Path(shutil.copytree(sound, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("kind", "facts", "why"),
    [
        (EVENTS, {"first": 10**30}, f"{10**30} as first"),
        (EVENTS, {"last": "many"}, "'many' as last"),
        (EVENTS, {"after": -1}, "-1 as after"),
        (EVENTS, {"reach": True}, "True as reach"),
        (EVENTS, {"time": 2**62}, f"{2**62} as time"),
        (EVENTS, {"base": 10**14}, f"{10**14} as base"),
        (EVENTS, {"epoch": 10**9}, f"{10**9} as epoch"),
        (EVENTS, {"previous": "../.."}, "'../..' as previous"),
        (EVENTS, {"incarnation": "\x1b[2J"}, "as incarnation"),
        (EVENTS, {"kind": ["events"]}, "its kind is"),
        (EVENTS, {"number": 7_000}, "written as number 7000"),
        (BASE, {"after": 10**12}, f"{10**12} as after"),
        (BASE, {"sequence": None}, "None as sequence"),
        (BASE, {"files": "all"}, "no list of at most"),
        (BASE, {"files": [["psoup.db"]]}, "a list as a file"),
        (BASE, {"files": [["psoup.db", "0" * 64, -1, "zstd", 5]]}, "a list as a file"),
        (BASE, {"files": [["psoup.db", "0" * 64, 5, "zstd", 2**70]]}, "a list as a file"),
        (BASE, {"files": [["psoup.db", "0" * 64, 5, "gzip", 5]]}, "a list as a file"),
        (BASE, {"files": [["psoup.db", "0" * 63 + "/", 5, "", 5]]}, "a list as a file"),
    ],
)
def test_facts_that_no_header_has_are_refused(
    copy: Path, tmp_path: Path, kind: str, facts: dict[str, Any], why: str
) -> None:
    number = last_of(copy, kind)
    rewrite(copy, number, **facts)
    refuse(copy, tmp_path, number, re.escape(why))


def test_a_manifest_that_names_itself_as_the_one_before_is_refused(copy: Path, tmp_path: Path) -> None:
    number = last_of(copy, BASE)
    rewrite(copy, number, base=number)
    refuse(copy, tmp_path, number, "as base")


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
        (b'{"number": 1' + b"0" * 5_000 + b"}", "not JSON"),
        (b"{" + b"," * 200 + b"}", "has more than 100 elements"),
        (b" " * 20_000, "does not end within 10,000 bytes"),
    ],
)
def test_a_header_that_is_none_is_refused(copy: Path, tmp_path: Path, header: bytes, why: str) -> None:
    number = last_of(copy, EVENTS)
    rest = header + b"\n"
    first = f"psoup-copy 1 {hashlib.sha256(rest).hexdigest()}\n".encode()
    (copy / object_name(number)).write_bytes(first + rest)
    with (
        patch.object(headers, "_MOST_ELEMENTS", 100),
        patch.object(objects, "HEADER_BYTES", 10_000 if header[:1] == b" " else headers.HEADER_BYTES),
    ):
        refuse(copy, tmp_path, number, why)


def test_an_object_that_is_too_large_is_not_read(copy: Path, tmp_path: Path) -> None:
    number = last_of(copy, EVENTS)
    with open(copy / object_name(number), "ab") as file:
        file.truncate(targets.MOST_BYTES + 1)  # a hole: it takes no room
    refuse(copy, tmp_path, number, "bytes, and 671,088,640 are the most")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_what_is_no_plain_file_is_not_read(copy: Path, tmp_path: Path, make: Callable[[Path], None]) -> None:
    number = last_of(copy, EVENTS)
    (copy / object_name(number)).unlink()
    make(copy / object_name(number))
    refuse(copy, tmp_path, number, "it is not a plain file")
    (copy / object_name(number)).rename(tmp_path / "away")
    for file in list((copy / "files").iterdir()):
        file.unlink()
        make(file)
    refuse_in(copy, tmp_path, "files/[0-9a-f]{64}.* is (not a plain file|missing)")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[" * 4_000,
        '{"form": 1, "incarnation": "\\u001b[2J"}',
        '{"form": 1, "incarnation": "' + "a" * 9_999 + '"}',
    ],
)
def test_an_owner_that_is_none_is_refused(copy: Path, tmp_path: Path, text: str) -> None:
    (copy / OWNER).write_text(text)
    for reader in (lambda: restore_copy(str(copy), tmp_path / "x"), lambda: verify(DirectoryTarget(copy))):
        with pytest.raises(InvalidInput, match="is not of a copy of PSoup"):
            reader()


def test_names_of_other_files_are_passed_over_and_reported(copy: Path, tmp_path: Path) -> None:
    for name in ("log/zzz", "log/000000000000001x", "fences/zzz", "fences/0", "files/letter"):
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("dear")
    assert restored_values(DirectoryTarget(copy), tmp_path / "restored") == [1, 2, 3]
    expected = [f"log/{name} is not an object of a copy" for name in ("000000000000001x", "zzz")]
    assert sorted(verify(DirectoryTarget(copy)).problems) == expected


def test_a_number_far_away_does_not_keep_verify_busy(copy: Path, tmp_path: Path) -> None:
    last = last_number(DirectoryTarget(copy))
    shutil.copyfile(copy / object_name(last), copy / object_name(10**15 - 1))
    refuse_in(copy, tmp_path, f"{object_name(last + 1)} is damaged: it is missing")
    assert len(verify(DirectoryTarget(copy)).problems) == 2


def test_a_fence_with_nothing_before_it_is_refused(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    target.create(OWNER, b'{"form": 1, "incarnation": "a"}')
    facts = {"number": 1, "kind": FENCE, "incarnation": "b", "epoch": 1, "previous": "", "time": 1}
    target.create(object_name(1), pack(facts))
    for reader in (lambda: restore_copy(target, tmp_path / "x"), lambda: spans(target)):
        with pytest.raises(Internal, match=f"{object_name(1)} is damaged: it is a fence, and no object before it"):
            reader()

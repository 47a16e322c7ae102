"""`make reproduce` refuses a file for its results that cannot be written, before it runs an experiment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.reproduce import __main__ as command


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a_file/r.md", "a_file is not a folder"),
        ("a_folder.md", "a_folder.md is a folder"),
        ("taken.md", "taken.json is a folder"),
        ("r.json", "the name ends in .json"),
        ("results", "the name has no ending"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    (tmp_path / "a_file").touch()
    (tmp_path / "a_folder.md").mkdir()
    (tmp_path / "taken.json").mkdir()
    monkeypatch.setattr(sys, "argv", ["reproduce", "--tiny", "--only", "R22", "--out", str(tmp_path / name)])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    written = capsys.readouterr()
    assert said in written.err
    assert "name a file such as build/r.md" in written.err
    assert not written.out


def test_a_new_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "one" / "two" / "r.txt"
    monkeypatch.setattr(sys, "argv", ["reproduce", "--tiny", "--only", "R22", "--out", str(out)])
    assert command.main() == 0
    assert "R22" in out.read_text()
    assert out.with_suffix(".json").stat().st_size > 100

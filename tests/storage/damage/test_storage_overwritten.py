"""Bytes that are overwritten anywhere in a data directory: the doctor names it, or all rows and answers are as before.

where     any file; of the database mostly bytes that are not zero, as most of its pages are free space
how much  a byte, 160 random ones, a sector of zeros, a page of zeros, a sector in the place of another
"""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from psoup.errors import PSoupError
from psoup_storage.durable.sqlite.structure import open_to_look
from psoup_storage.durable.tools.doctor import examine
from psoup_storage.durable.tools.findings import Severity
from psoup_testing.engines.format_fixture import END, START, Soup, ask, leave, tell
from psoup_testing.suite.budget import SCALE, SEED

CASES, STARTS = max(50, round(60 * SCALE)), max(20, round(60 * SCALE))
SECTOR, PAGE = 512, 4_096
State = tuple[dict[str, list[Any]], Any]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, State]:
    """A service that was ended, and the same one killed before; with all rows and answers."""
    folder = tmp_path_factory.mktemp("overwritten")
    soup = Soup(folder / "ended", START)
    tell(soup)
    leave(folder / "ended", folder / "killed")
    soup.store.close()
    known = {}
    for path in (folder / "ended", folder / "killed"):
        copy = shutil.copytree(path, folder / "asked")
        known[path] = (rows(copy), said(copy))
        shutil.rmtree(copy)
    return known


def rows(path: Path) -> dict[str, list[Any]]:
    """All that is in the database, as SQLite reads it."""
    with closing(open_to_look(path / "psoup.db")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: list(connection.execute(f"SELECT * FROM {name}")) for name in tables}


def said(path: Path) -> Any:
    soup = Soup(path, END)
    try:
        return [soup.store.incarnation, *ask(soup)]
    finally:
        soup.store.close()


def overwrite(chance: random.Random, file: Path) -> str:
    """Change some of the file; says what, and nothing if it is as it was."""
    content = bytearray(file.read_bytes())
    at = chance.randrange(len(content))
    if file.suffix == ".db" and chance.random() < 0.8:
        at = chance.choice([place for place, byte in enumerate(content) if byte])
    sector, page = at // SECTOR * SECTOR, at // PAGE * PAGE
    other = chance.randrange(len(content) // SECTOR + 1) * SECTOR
    start, new = chance.choice(
        [
            (at, bytes([chance.randrange(256)])),
            (at, chance.randbytes(160)),
            (sector, bytes(SECTOR)),
            (page, bytes(PAGE)),
            (sector, bytes(content[other : other + SECTOR])),
        ]
    )
    new = new[: len(content) - start]
    if content[start : start + len(new)] == new:
        return ""
    content[start : start + len(new)] = new
    file.write_bytes(content)
    return f"{len(new)} bytes at {start} of {file.name}"


@pytest.mark.long
def test_what_is_overwritten_is_named_or_changes_nothing(directories: dict[Path, State], tmp_path: Path) -> None:
    chance, tally = random.Random(SEED), {"named": 0, "harmless": 0}
    for number in range(CASES):
        source = chance.choice(list(directories))
        path = shutil.copytree(source, tmp_path / "overwritten")
        files = sorted(file for file in path.rglob("*") if file.is_file() and file.stat().st_size)
        what = overwrite(
            chance, chance.choices(files, [9 if file.name.startswith("psoup") else 1 for file in files])[0]
        )
        if any(finding.severity is Severity.DAMAGE for finding in examine(path).findings):
            tally["named"] += 1
        else:
            assert (rows(path), said(path)) == directories[source], f"{number}: {what} of {source.name}, and no word"
            tally["harmless"] += 1
        shutil.rmtree(path)
    assert min(tally.values()) > CASES // 10, tally


@pytest.mark.long
def test_a_start_refuses_what_it_reads_or_says_what_it_said(directories: dict[Path, State], tmp_path: Path) -> None:
    """Chunks of an archive are read when they are asked for: the answer is refused then."""
    chance = random.Random(SEED + 1)
    for number in range(STARTS):
        source = chance.choice(list(directories))
        path = shutil.copytree(source, tmp_path / "overwritten")
        files = sorted(file for file in path.rglob("*") if file.is_file() and file.stat().st_size)
        what = overwrite(chance, chance.choice(files))
        try:
            found = said(path)
        except PSoupError as problem:
            assert problem.reason in {"DATA_DAMAGED", "STORAGE_FAILED", "UNKNOWN_FORMAT"}, f"{number}: {what}"
        else:
            pairs = zip(found, directories[source][1], strict=True)
            assert all(now in (before, "Internal") for now, before in pairs), f"{number}: {what} of {source.name}"
        shutil.rmtree(path)

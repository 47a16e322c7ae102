"""Kernels that Numba keeps on disk: used again by the next process, compiled anew when any of their files changed."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import psoup.kernels
from psoup.kernels.compile.cache_locators import stamp_of

KERNELS = Path(psoup.kernels.__file__).parent
SOURCES = sorted(path for path in KERNELS.glob("*/[!_]*.py") if path.parent.name != "plain")
CALLED = "import numba\n\n\n@numba.njit(cache=True)\ndef called():\n    return 1\n"
CALLER = (
    "import numba\n\nfrom psoup.kernels.called import called\n\n\n"
    "@numba.njit(cache=True)\ndef caller():\n    return called()\n"
)
ASK = """
from {module} import caller
answer = caller()
print(answer, len(caller.stats.cache_hits), caller.stats.cache_path)
"""
THEIRS = "import numba\n\nimport psoup.kernels\n\n\n@numba.njit(cache=True)\ndef caller():\n    return 7\n"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A package psoup of our kernels' own __init__ and locators, with two kernels of which one calls the other."""
    room = tmp_path / "psoup" / "kernels"
    room.mkdir(parents=True)
    (room.parent / "__init__.py").touch()
    shutil.copy(KERNELS / "__init__.py", room)
    shutil.copytree(KERNELS / "compile", room / "compile", ignore=shutil.ignore_patterns("__pycache__"))
    (room / "called.py").write_text(CALLED)
    (room / "caller.py").write_text(CALLER)
    return room


def ask(room: Path, module: str = "psoup.kernels.caller", **environment: str) -> tuple[int, int, str]:
    """What the caller answers in a process of its own, how often it was found on disk, and where it is kept."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    ran = subprocess.run(
        [sys.executable, "-P", "-c", ASK.format(module=module)],
        env={**clean, "PYTHONPATH": str(room.parent.parent), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer, hits, path = ran.stdout.split(maxsplit=2)
    return int(answer), int(hits), path.strip()


@pytest.mark.long
def test_a_kernel_is_compiled_anew_when_another_files_kernel_that_it_calls_has_changed(room: Path) -> None:
    assert ask(room) == (1, 0, str(room / "__pycache__")), "where Numba would keep it"
    (room / "another.py").write_text(CALLED)
    assert ask(room)[:2] == (1, 1)
    (room / "called.py").write_text(CALLED.replace("return 1", "return 2"))
    assert ask(room)[:2] == (2, 0)


@pytest.mark.long
def test_kernels_are_kept_where_numba_is_told_to(room: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    assert Path(ask(room, NUMBA_CACHE_DIR=str(chosen))[2]).parent == chosen


@pytest.mark.long
def test_functions_of_others_in_this_process_keep_numbas_own_stamp(room: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(THEIRS)
    assert ask(room, "theirs")[:2] == (7, 0)
    (room / "called.py").write_text(CALLED.replace("return 1", "return 2"))
    assert ask(room, "theirs")[:2] == (7, 1)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.parent.name}.{source.stem}")
def test_the_stamp_of_a_file_names_all_that_it_imports_from_this_project(source: Path) -> None:
    nodes = list(ast.walk(ast.parse(source.read_text())))
    imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    ours = {name for name in imported if name.split(".")[0] == "psoup"}
    assert ours <= {f"psoup.kernels.{name}" for name, _ in stamp_of(f"{source.parent.name}.{source.stem}")}

"""Pythons of the machine, and environments in which nothing is installed but a wheel and its dependencies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

OLDEST, NEWEST = 11, 14
"""Minor versions of Python 3 that are looked for."""
_VERSION = "import sys, sqlite3, ssl; print(sys.version_info[1])"


@cache
def interpreters() -> dict[int, str]:
    """The interpreters that run, by minor version: of PATH, of pyenv, and the one of the tests."""
    pythons = dict[int, str]()
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in range(OLDEST, NEWEST + 1):
        named = shutil.which(f"python3.{minor}")
        places = [named] if named else []
        places += [str(place) for place in sorted(pyenv.glob(f"3.{minor}.*/bin/python3"), reverse=True)]
        for place in places:
            if _minor_of(place) == minor:
                pythons[minor] = place
                break
    pythons[sys.version_info[1]] = sys.executable
    return pythons


def _minor_of(python: str) -> int | None:
    """The minor version of an interpreter; None if it does not run, as a shim of pyenv."""
    done = subprocess.run([python, "-I", "-c", _VERSION], capture_output=True, text=True, check=False, timeout=60)
    return int(done.stdout) if done.returncode == 0 else None


class Environment:
    """An environment of its own in a folder, made by uv. Its processes see no variable of PSoup, Python or Numba."""

    def __init__(self, uv: str, folder: Path, python: str) -> None:
        self._uv = uv
        self.folder = folder
        self._run(uv, "venv", "--python", python, "--no-project", str(folder))

    def install(self, *requirements: str) -> None:
        """Install packages in their newest allowed versions."""
        self._run(
            self._uv, "pip", "install", "--only-binary", ":all:", "--python", self.program("python"), *requirements
        )

    def program(self, name: str) -> str:
        """The path of a program of the environment."""
        return str(self.folder / "bin" / name)

    def run(self, name: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in its folder, whatever the exit code."""
        return subprocess.run(
            [self.program(name), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=self.folder,
            env=self.variables(**variables),
        )

    def variables(self, **more: str) -> dict[str, str]:
        """The variables of the processes."""
        ours = ("PSOUP_", "PYTHON", "NUMBA_", "VIRTUAL_ENV")
        return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.variables())
        assert done.returncode == 0, done.stderr

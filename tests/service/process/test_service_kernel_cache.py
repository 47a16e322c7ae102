"""A folder for compiled kernels if neither install nor HOME is writable, and none that other users can write to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core.caching import _CacheLocator

from psoup_service.process import kernel_cache
from psoup_storage import DurableStore
from psoup_storage.durable.tools.doctor import examine

READ_ONLY = """
import numba.core.caching as caching
caching.InTreeCacheLocator.from_function = classmethod(lambda *_: None)
"""


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba finds no place by itself; what is chosen does not stay with this process."""
    monkeypatch.setattr(kernel_cache, "keeps_by_itself", lambda: False)
    monkeypatch.setattr(kernel_cache, "bring", lambda _, __: 0)
    monkeypatch.setattr(numba.config, "reload_config", lambda: None)
    monkeypatch.setenv(kernel_cache.VARIABLE, "")


def chosen(path: Path | str) -> str:
    kernel_cache.choose(str(path))
    return os.environ[kernel_cache.VARIABLE]


def test_this_install_keeps_them_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel_cache.VARIABLE, "")
    assert chosen(tmp_path / "data") == ""
    assert not (tmp_path / "data").exists()


def test_the_data_directory_is_the_place_where_there_is_no_other(tmp_path: Path, nowhere: None) -> None:
    data = tmp_path / "deep" / "data"
    assert chosen(data) == str(data / "cache")
    assert [path.stat().st_mode & 0o777 for path in (data, data / "cache")] == [0o700, 0o700]
    DurableStore(data).close()  # such a directory is a new one
    (data / "cache" / "x").mkdir()
    assert examine(data).findings == []
    os.environ[kernel_cache.VARIABLE] = ""
    assert chosen(data) == str(data / "cache")


def test_what_the_operator_says_is_so(tmp_path: Path, nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel_cache.VARIABLE, "/some/place")
    assert chosen(tmp_path) == "/some/place"


@pytest.mark.parametrize("kind", ["memory", "foreign", "open to others", "a link", "a file", "below a file"])
def test_no_other_place_is_used(tmp_path: Path, nowhere: None, kind: str) -> None:
    data, cache = tmp_path / "data", tmp_path / "data" / "cache"
    data.mkdir()
    (data / "lock").touch()
    match kind:
        case "memory":
            data = Path(":memory:")
        case "foreign":
            (data / "lock").rename(data / "notes")
        case "open to others":
            cache.mkdir()
            cache.chmod(0o770)
        case "a link":
            (tmp_path / "elsewhere").mkdir(mode=0o700)
            cache.symlink_to(tmp_path / "elsewhere")
        case "a file":
            cache.touch()
        case "below a file":
            data = data / "lock" / "data"
    assert chosen(data) == ""
    assert kind != "foreign" or not cache.exists()


def test_kernels_of_the_install_are_copied_once(tmp_path: Path) -> None:
    code, cache = tmp_path / "package" / "kernels" / "rows", tmp_path / "cache"
    (code / "__pycache__").mkdir(parents=True)
    cache.mkdir()
    kernel = code / "__pycache__" / "bits.count-1.py311.1.nbc"
    kernel.write_bytes(b"first")
    (code / "__pycache__" / "bits.cpython-311.pyc").touch()
    assert kernel_cache.bring(tmp_path / "package", cache) == 1
    (copied,) = cache.rglob("*.nbc")
    place = _CacheLocator.get_suitable_cache_subpath(str(code / "bits.py"))
    assert (copied.parent.name, copied.read_bytes()) == (place, b"first")
    copied.write_bytes(b"of this machine")
    assert kernel_cache.bring(tmp_path / "package", cache) == 0, "a newer one is kept"
    kernel.write_bytes(b"second")
    os.utime(kernel, ns=(1, copied.stat().st_mtime_ns + 1))
    assert kernel_cache.bring(tmp_path / "package", cache) == 1, "a new version brings its own"
    assert copied.read_bytes() == b"second"
    assert kernel_cache.bring(tmp_path / "package", cache) == 0


def environment(folder: Path) -> dict[str, str]:
    """Of a process whose install and HOME cannot be written, as root too."""
    (folder / "sitecustomize.py").write_text(READ_ONLY)
    left = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PSOUP_", "XDG_"))}
    return {**left, "HOME": "/dev/null", "PYTHONPATH": str(folder), "TMPDIR": str(folder)}


@pytest.mark.long
def test_kernels_run_in_a_process_that_has_no_place(tmp_path: Path) -> None:
    code = "import numpy, numba, psoup.kernels.rows.bit_blocks as p; print(p.__name__, numba.config.CACHE_DIR)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    name, place = done.stdout.split()
    assert (name, Path(place).parent) == ("psoup.kernels.rows.bit_blocks", tmp_path)
    assert not Path(place).exists(), "it goes with its process"


@pytest.mark.long
@pytest.mark.seeded("F26: it does not start where it cannot write beside its code")
def test_a_service_starts_where_only_its_data_directory_can_be_written(tmp_path: Path) -> None:
    """The kernels that were compiled beside the code come with it: they are copied, and not compiled again."""
    data = tmp_path / "data"
    command = [sys.executable, "-m", "psoup_service.main"]
    served = {**environment(tmp_path), "PSOUP_DATA_DIR": str(data), "PSOUP_PORT": "0"}
    process = subprocess.Popen(command, env=served, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        first = next(lines)
        assert "psoup listens on" in first, "the place is another one, if kernels are compiled"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert [path.name for path in tmp_path.glob("psoup-kernels-*")] == []

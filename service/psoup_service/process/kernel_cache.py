"""The folder of compiled kernels, which must be chosen before the first kernel is imported.

    NUMBA_CACHE_DIR, if it is set
    where Numba keeps them by itself: next to the code, or under HOME       the same for all services of the machine
    data directory/cache                                                    a read-only install without a HOME; kernels
                                                                            that came with the install are copied there

Numba reads no folder that it cannot write to. So the kernels of an image, or of another user's install, are copied
once: 40 MB. Kernels are loaded as code, so a folder is used only if no other user can write to it. Without a folder
each start compiles all kernels, for a minute or more (`psoup.kernels`).
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from importlib.util import find_spec
from pathlib import Path

import numba
from numba.core.caching import UserProvidedCacheLocator

FOLDER = "cache"
VARIABLE = "NUMBA_CACHE_DIR"
_OURS = frozenset({"psoup.db", "lock"})
"""Files that tell a data directory from other directories."""
_log = logging.getLogger(__name__)


def choose(data_dir: str) -> None:
    """Choose the folder for this process and its children. Makes the data directory if need be."""
    if os.environ.get(VARIABLE) or data_dir == ":memory:" or keeps_by_itself():
        return
    place = Path(data_dir).absolute()
    try:
        if place.exists() and place.stat().st_uid != os.geteuid():
            return  # another user's: the store refuses it
        if place.exists() and any(place.iterdir()) and not any((place / name).exists() for name in _OURS):
            return  # not a data directory: nothing is made in it, and the store says so
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        cache = place / FOLDER
        cache.mkdir(mode=0o700, exist_ok=True)
        facts = os.lstat(cache)
    except OSError as problem:
        _log.warning("compiled kernels cannot be kept", extra={"problem": problem.strerror})
        return
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) != 0o700:
        _log.warning(
            "compiled kernels are not kept in a folder that other users can write to", extra={"folder": str(cache)}
        )
        return
    os.environ[VARIABLE] = str(cache)
    numba.config.reload_config()
    try:
        bring(_package(), cache)
    except OSError as problem:
        _log.warning("the kernels of the install cannot be copied", extra={"problem": problem.strerror})


def bring(package: Path, cache: Path) -> int:
    """Copy the kernels that were compiled beside the code of a package into a folder for Numba. Returns their number.

    Files that are in the folder already, and are not older, are kept: this machine's processor may have needed them.
    """
    count = 0
    for kernel in sorted(package.rglob("__pycache__/*.nb[ic]")):
        source = kernel.parent.parent / "module.py"  # any file of the folder that has the code
        place = cache / UserProvidedCacheLocator.get_suitable_cache_subpath(str(source)) / kernel.name
        if place.exists() and place.stat().st_mtime_ns >= kernel.stat().st_mtime_ns:
            continue
        place.parent.mkdir(mode=0o700, exist_ok=True)
        unfinished = place.with_name(f"{place.name}.new")
        shutil.copy2(kernel, unfinished)
        unfinished.replace(place)
        count += 1
    return count


def has_folder() -> bool:
    """Whether compiled kernels are kept in a folder. To be called after the folder was chosen."""
    from psoup.kernels.rows.bit_blocks import count_rows

    return count_rows.stats.cache_path is not None


def keeps_by_itself() -> bool:
    """Whether Numba finds a folder by itself: next to this file, as for the kernels, or under HOME."""
    try:
        numba.njit(cache=True)(_some_kernel)
    except RuntimeError:
        return False
    return True


def _package() -> Path:
    """The folder of the package with the kernels, which is not imported for this."""
    spec = find_spec("psoup")
    assert spec is not None and spec.origin is not None, "this module belongs to it"
    return Path(spec.origin).parent


def _some_kernel() -> int:
    return 0

"""Locators of compiled kernels: the folders that Numba uses, and the stamp that tells when to compile anew.

Numba's own stamp of a kept kernel is the digest of the one file that the kernel is defined in. A kernel holds the
code of every kernel it calls, though, and many call kernels of other files. After an upgrade that changed only the
called one, the kept caller would go on with the code of before, and could disagree with kernels that were compiled
since. So the stamp of a kernel covers its own file and all files of kernels that it imports, directly or not.
"""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching

_ROOM = Path(__file__).resolve().parents[1]
_IMPORTED = re.compile(rb"^\s*from psoup\.kernels\.([\w.]+) import", re.MULTILINE)


@cache
def _digest_and_imports(name: str) -> tuple[bytes, frozenset[str]]:
    content = (_ROOM / f"{name.replace('.', '/')}.py").read_bytes()
    return hashlib.sha256(content).digest(), frozenset(each.decode() for each in _IMPORTED.findall(content))


@cache
def stamp_of(name: str) -> tuple[tuple[str, bytes], ...]:
    """The files whose code the kernels of module `name` ("rows.bitmaps") may hold, by name, each with its SHA-256.

    A file is read once in a process, at the first kernel that needs it.
    """
    found, ahead = dict[str, bytes](), [name]
    while ahead:
        module = ahead.pop()
        if module not in found:
            found[module], imported = _digest_and_imports(module)
            ahead += imported
    return tuple(sorted(found.items()))


class _WithWhatIsCalled:
    _py_file: str

    def get_source_stamp(self) -> Any:
        path = Path(self._py_file).resolve()
        if not path.is_relative_to(_ROOM):
            return super().get_source_stamp()  # type: ignore[misc]
        return stamp_of(".".join(path.relative_to(_ROOM).with_suffix("").parts))


class UserProvided(_WithWhatIsCalled, caching.UserProvidedCacheLocator):
    """Kernels kept where NUMBA_CACHE_DIR says."""


class InTree(_WithWhatIsCalled, caching.InTreeCacheLocator):
    """Kernels kept beside their sources."""


class UserWide(_WithWhatIsCalled, caching.UserWideCacheLocator):
    """Kernels kept in the user's folder for caches, where the install cannot be written."""


# As numba.config.CACHE_LOCATOR_CLASSES wants them: the first that suits a function is taken. The last two are
# Numba's own, for code of a prompt and of a zip file.
LOCATORS = ",".join(
    [f"{each.__module__}.{each.__name__}" for each in (UserProvided, InTree, UserWide)]
    + ["IPythonCacheLocator", "ZipCacheLocator"]
)

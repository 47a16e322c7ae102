"""Where Numba keeps compiled kernels, as its own locators say, and when it must compile them anew.

Numba's own stamp of a kept kernel is the digest of the one file that the kernel is defined in. A kernel holds the
code of every kernel it calls, though, and many call those of other files: after an upgrade that changed only the
called one, the kept caller would go on with the code of before, and could disagree with those that were compiled
since. Here the stamp of each kernel is the digest of all files of this room.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching

_ROOM = Path(__file__).resolve().parent


@cache
def digest_of_kernels() -> bytes:
    """The SHA-256 of the names and contents of all files of this room, 32 bytes; read once in a process."""
    digest = hashlib.sha256()
    for path in sorted(_ROOM.glob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.digest()


class _OfTheWholeRoom:
    _py_file: str

    def get_source_stamp(self) -> Any:
        own = super().get_source_stamp()  # type: ignore[misc]
        if Path(self._py_file).resolve().parent != _ROOM:
            return own
        return own, digest_of_kernels()


class UserProvided(_OfTheWholeRoom, caching.UserProvidedCacheLocator):
    """Kernels kept where NUMBA_CACHE_DIR says."""


class InTree(_OfTheWholeRoom, caching.InTreeCacheLocator):
    """Kernels kept beside their sources."""


class UserWide(_OfTheWholeRoom, caching.UserWideCacheLocator):
    """Kernels kept in the user's folder for caches, where the install cannot be written."""


# As numba.config.CACHE_LOCATOR_CLASSES wants them: the first that suits a function is taken. The last two are
# Numba's own, for code of a prompt and of a zip file.
LOCATORS = ",".join(
    [f"{each.__module__}.{each.__name__}" for each in (UserProvided, InTree, UserWide)]
    + ["IPythonCacheLocator", "ZipCacheLocator"]
)

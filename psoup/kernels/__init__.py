"""Arrays in, arrays out: the inner loops of the engine, compiled with Numba.

    values --codes--> codes --bitmaps--> prefix bitmaps ─┐
                        ├──────────────────arrive────────┴─> bits of dense rows, sorted runs of pairs
                        └─────────────────postings─────────> pairs, from the tuples that have a required value
    one clause, old rows --select--> mask --columns, rows--> bits, offsets

A kernel knows no type of the engine, logs nothing and raises nothing. Each has a twin of the same name and
signature in `psoup.kernels.plain`, in plain NumPy, against which the tests hold it. All are compiled when they are
called with arguments of new types, or before that (`psoup.compiled`), and cached; they release the interpreter's lock
and use no threads of their own.

A kept kernel is compiled anew when a file that its code comes from has changed (`locators`).
Numba refuses to compile what it cannot keep. Where neither the install nor HOME can be written, and NUMBA_CACHE_DIR
does not name a place, this process keeps them in a private folder that goes with it.
"""

import atexit
import shutil
import tempfile

import numba

from psoup.kernels.compile.cache_locators import LOCATORS


def _some_kernel() -> int:
    return 0


def _see_that_they_are_kept() -> None:
    try:
        numba.njit(cache=True)(_some_kernel)
    except RuntimeError:
        folder = tempfile.mkdtemp(prefix="psoup-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        numba.config.CACHE_DIR = folder  # type: ignore[attr-defined]


# Who has set NUMBA_CACHE_LOCATOR_CLASSES has chosen.
numba.config.CACHE_LOCATOR_CLASSES = numba.config.CACHE_LOCATOR_CLASSES or LOCATORS  # type: ignore[attr-defined]
_see_that_they_are_kept()

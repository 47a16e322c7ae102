"""Arrays in, arrays out: the inner loops of the engine, compiled with Numba.

    new tuples ──arrive──> matches ──search──> rows ──┬─join──> pairs ──┐
                                                      └─fold──> states ─┴──rows──> bytes of a record batch

Rooms, in reading order:

    compile          the compilation of kernels, and the folder that keeps them
    rows             bitmaps, offsets, columns, orders: the base of all rooms
    arrive           new tuples against the arrays of a predicate index
    search           rows of kept chunks that match a clause
    join, fold       pairs of sides; states of aggregates
    delta            rows that enter and leave the results of operators with state
    names, texts     clauses, tags and queries by number; bytes of texts
    plain            the twins: the same kernels in plain NumPy

Never here: types of the engine, logs, exceptions, threads. A kernel releases the interpreter's lock.
Each kernel has a twin of the same name and signature in `psoup.kernels.plain`; tests compare the two.
`psoup.kernel_signatures` lists the types that are compiled before a client comes.

Numba refuses to compile a function that it cannot keep. If no folder can be written, a process makes a private one.
It is removed when the process ends.
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


# An operator's own NUMBA_CACHE_LOCATOR_CLASSES stays.
numba.config.CACHE_LOCATOR_CLASSES = numba.config.CACHE_LOCATOR_CLASSES or LOCATORS  # type: ignore[attr-defined]
_see_that_they_are_kept()

"""Short tracebacks of the SDK's errors: the caller's frames, without frames of the SDK and of gRPC.

    as raised      <cell> > call > ask > call > reflecting > attempt > call > _wait       45 lines in a notebook
    of a script    <script> > call       a wrapper of public methods, hidden by pytest, which obeys `__tracebackhide__`
    in IPython     <cell>                IPython never hides the last frame, so `render` leaves it out

Frames of the caller's own functions stay, such as a progress callback.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

_HIDDEN = ("psoup_client", "psoup_proto", "grpc")
"""Packages whose frames say nothing about the caller's code."""
_BENEATH = (*_HIDDEN, "pyarrow", "google")
"""Packages in which the SDK meets the errors that cause its own."""


def shortened(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of the SDK. O(frames)."""
    short: TracebackType | None = None
    for entry in reversed(_entries(traceback)):
        if _package(entry) not in _HIDDEN:
            short = TracebackType(short, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return short


def is_inner(traceback: TracebackType | None) -> bool:
    """Whether an error was raised by the SDK or beneath it, and not by the caller's own code."""
    entries = _entries(traceback)
    return bool(entries) and _package(entries[-1]) in _BENEATH


def render(problem: BaseException, traceback: TracebackType | None) -> list[str]:
    """Render an error as IPython does, with this traceback."""
    shell: Any = sys.modules["IPython"].get_ipython()
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(problem), problem, traceback)
    return lines


def _package(entry: TracebackType) -> str:
    return str(entry.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def _entries(traceback: TracebackType | None) -> list[TracebackType]:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries

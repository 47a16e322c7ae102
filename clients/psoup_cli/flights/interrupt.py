"""A handler of Ctrl-C that loses no interrupt.

Python raises KeyboardInterrupt wherever the main thread is. Inside a library's callback or `__del__`, the library
prints or drops it, and the program goes on. So this handler also remembers the interrupt.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType


class CtrlC:
    """Inside the `with` block, Ctrl-C raises KeyboardInterrupt as usual, and once more at the next `check`."""

    def __init__(self) -> None:
        self._pressed = False
        self._before: object = None

    def __enter__(self) -> CtrlC:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    def check(self) -> None:
        """Raise KeyboardInterrupt if the user has pressed Ctrl-C."""
        if self._pressed:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._pressed = True
        raise KeyboardInterrupt

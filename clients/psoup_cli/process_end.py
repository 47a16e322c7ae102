"""The end of the process: its exit code after Ctrl-C, and the loss of the output's reader.

Its imports take no time, because `main` loads this file before all other files.
"""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells give it."""


def discard_output() -> None:
    """Discard the rest of the output. A reader that has left, as `| head` does, is not an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

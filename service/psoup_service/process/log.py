"""Structured logs on standard error: JSON for machines, coloured lines for a terminal.

Control characters are escaped on the console, too, because values come from clients, and a terminal would obey them.
Modules write with `logging.getLogger(__name__).info("text", extra={"fact": value})`. This module formats all log
entries, also those of libraries. The log has calls, codes and durations; never a payload, a statement, a literal or a
token.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import MutableMapping
from typing import Any

import structlog

FORMATS = ("auto", "json", "console")
LEVELS = ("debug", "info", "warning", "error")


def configure(form: str, level: str) -> None:
    """Set up logging for the whole process; called once, by the composition root. `auto`: console on a terminal."""
    terminal = sys.stderr.isatty()
    if form == "auto":
        form = "console" if terminal else "json"
    render: list[Any]
    if form == "json":
        render = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        colors = terminal and not os.environ.get("NO_COLOR")
        render = [
            structlog.processors.format_exc_info,
            _escaped,
            structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain),
        ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    handler.addFilter(_Seldom())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for noisy in ("asyncio", "numba", "grpc"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class _Seldom(logging.Filter):
    """Filter that lets few entries of gRPC through: `BURST`, then one a second.

    gRPC logs a traceback for each call that is cancelled at a certain moment. Without the filter, a hostile client
    could fill the disk. `unwritten`: entries dropped since the last written one.
    """

    BURST = 20.0

    def __init__(self) -> None:
        super().__init__()
        self._room = self.BURST
        self._since = time.monotonic()
        self._unwritten = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("grpc"):
            return True
        now = time.monotonic()
        self._room = min(self.BURST, self._room + now - self._since)
        self._since = now
        if self._room < 1:
            self._unwritten += 1
            return False
        self._room -= 1
        if self._unwritten:
            record.unwritten, self._unwritten = self._unwritten, 0
        return True


_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move a cursor, end a line, turn its direction, or are invalid on a terminal. A tab is harmless."""


def _escaped(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape the control characters of an event.

    Lines of a traceback are indented, so that none looks like an entry.
    """
    for name in list(event):
        value = event[name]
        if name == "exception":
            event[name] = "\n".join("    " + _escape(line) for line in str(value).split("\n"))
        elif isinstance(value, str):  # others are shown by their repr, which has escapes
            event[name] = _escape(value)
    return event


def _escape(text: str) -> str:
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)

"""Structured logs on standard error: JSON for machines, coloured lines for a terminal.

Modules write with `logging.getLogger(__name__).info("text", extra={"fact": value})`; this renders all of it, also what
other packages write. Logged is which call, which code, how long; never a payload, a statement, a literal or a token.
"""

from __future__ import annotations

import logging
import os
import sys
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
        render = [structlog.dev.ConsoleRenderer(colors=terminal and not os.environ.get("NO_COLOR"))]
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
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for noisy in ("asyncio", "numba", "grpc"):
        logging.getLogger(noisy).setLevel(logging.WARNING)

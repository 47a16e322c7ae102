"""The records of PSoup in the log of a test.

Asyncio has a logger, too: when the collector frees a task or a future that an earlier test left, it writes an entry.
"""

import logging

import pytest


def own_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """All records of loggers of PSoup, in their order."""
    return [record for record in caplog.records if record.name.startswith("psoup")]

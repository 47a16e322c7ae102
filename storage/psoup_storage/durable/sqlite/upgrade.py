"""The upgrade of a database of an older format to the present one, a step at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

import apsw

from psoup_storage.durable.sqlite.schema import FORMAT, UPGRADES

_log = logging.getLogger(__name__)


def upgrade(transaction: Callable[[], AbstractContextManager[apsw.Connection]], version: int) -> None:
    """Upgrade an undamaged database of format `version`. Each step is a `transaction`. Does nothing in this format."""
    for number in range(version, FORMAT):
        with transaction() as connection:
            connection.execute(UPGRADES[number])
            connection.execute("UPDATE meta SET value = ? WHERE name = 'format'", (str(number + 1),))
        _log.info("the data directory has a newer format now", extra={"from": number, "to": number + 1})

"""SET, SHOW, RESET and DISCARD."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from psoup_service.pg.contract import Notice, Sink
from psoup_service.pg.statements.settings import SessionSettings
from psoup_service.pg.statements.utility import Utility, at_once, table
from psoup_service.pg.statements.words import Words
from psoup_service.pg.values.zones import seconds_of, zone_east

_HOURS = re.compile(r"[+-]?\d{1,2}(?:\.\d{1,6})?")
_LEVELS = ("READ COMMITTED", "READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE")


Report = Callable[[dict[str, str]], None]
"""Sends the client the settings that differ from the given ones."""


def read_set(words: Words, settings: SessionSettings, report: Report, in_transaction: Callable[[], bool]) -> Utility:
    """SET, after its first word. Raises SqlError, and InvalidInput for an unknown setting when it runs."""
    local = words.accept("LOCAL")
    session = not local and words.accept("SESSION")
    if session and words.accept("CHARACTERISTICS", "AS", "TRANSACTION"):
        return _modes(words, settings, report, "default_transaction_")
    if words.accept("TRANSACTION"):
        if words.next() == "SNAPSHOT":
            raise words.source.unsupported("SET TRANSACTION SNAPSHOT", words.place)
        return _modes(words, settings, report, "transaction_")
    if words.next() == "CONSTRAINTS":
        raise words.source.unsupported("SET CONSTRAINTS", words.place, hint="streams have no constraints")
    name, value = _assigned(words, session=session)
    words.end()

    async def run(sink: Sink) -> str:
        if local and not in_transaction():
            if settings.warnings:
                sink.notice(Notice("WARNING", "25P01", "SET LOCAL can only be used in transaction blocks"))
            return "SET"
        before = settings.reported()
        if value is None:
            settings.reset(name)
        else:
            settings.set(name, value, local=local)
        report(before)
        return "SET"

    return Utility(run)


def _assigned(words: Words, *, session: bool) -> tuple[str, str | None]:
    """The name and the value of an assignment; None for DEFAULT."""
    if words.accept("TIME", "ZONE"):
        return "TimeZone", _time_zone(words)
    if words.accept("NAMES"):
        name = "client_encoding"
    elif words.accept("SCHEMA"):
        name = "search_path"
    elif words.accept("ROLE"):
        name = "role"
    elif (session and words.accept("AUTHORIZATION")) or words.accept("SESSION", "AUTHORIZATION"):
        name = "session_authorization"
    else:
        name = words.name()
        if not (words.accept("TO") or words.accept("=")):
            raise words.unexpected("SET name TO value")
    if words.accept("DEFAULT") or (name == "timezone" and words.accept("LOCAL")):
        return name, None
    if name == "client_encoding" and not words.next():
        return name, None
    values = [words.value()]
    while words.accept(","):
        values.append(words.value())
    return name, ", ".join(values)


def _time_zone(words: Words) -> str | None:
    """The zone of SET TIME ZONE; None for DEFAULT and LOCAL. Raises SqlError."""
    if words.accept("DEFAULT") or words.accept("LOCAL"):
        return None
    place = words.place
    if not words.accept("INTERVAL"):
        hours = words.next()
        return zone_east(float(words.value()) * 3_600) if _HOURS.fullmatch(hours) else words.value()
    seconds = seconds_of(words.value())
    if not any(words.accept(*fields) for fields in (("HOUR", "TO", "MINUTE"), ("HOUR", "TO", "SECOND"), ("HOUR",))):
        words.end()
    if seconds is None:
        raise words.source.error(
            "the interval is not a time zone", place, hint="write INTERVAL '+02:00' HOUR TO MINUTE"
        )
    return zone_east(seconds)


def _modes(words: Words, settings: SessionSettings, report: Report, prefix: str) -> Utility:
    modes = transaction_modes(words)

    async def run(sink: Sink) -> str:
        before = settings.reported()
        for name, value in modes.items():
            settings.set(prefix + name, value)
        report(before)
        return "SET"

    return Utility(run)


def transaction_modes(words: Words) -> dict[str, str]:
    """The modes of a transaction, up to the end of the statement: isolation, read_only, deferrable. Raises SqlError."""
    modes = dict[str, str]()
    while words.next():
        if words.accept("ISOLATION", "LEVEL"):
            place = words.place
            level = next((name for name in _LEVELS if words.accept(*name.split())), "")
            if not level:
                raise words.unexpected("READ COMMITTED or REPEATABLE READ")
            if level == "SERIALIZABLE":
                hint = "REPEATABLE READ: all statements of the transaction read one snapshot"
                raise words.source.unsupported("ISOLATION LEVEL SERIALIZABLE", place, hint=hint)
            modes["isolation"] = level.lower()
        elif words.accept("READ", "ONLY"):
            modes["read_only"] = "on"
        elif words.accept("READ", "WRITE"):
            modes["read_only"] = "off"
        elif words.accept("NOT", "DEFERRABLE"):
            modes["deferrable"] = "off"
        elif words.accept("DEFERRABLE"):
            modes["deferrable"] = "on"
        else:
            raise words.unexpected("ISOLATION LEVEL, READ ONLY or READ WRITE")
        words.accept(",")
    return modes


def read_show(words: Words, settings: SessionSettings) -> Utility:
    """SHOW, after its first word. Raises SqlError, and InvalidInput for an unknown setting."""
    if words.accept("ALL"):
        words.end()
        return table("SHOW", ("name", "setting", "description"), lambda: [(n, settings.get(n), "") for n in settings])
    name = _named(words)
    words.end()
    with words.source.placed(0):
        settings.get(name)
    return table("SHOW", (settings.shown_name(name),), lambda: [(settings.get(name),)])


def _named(words: Words) -> str:
    if words.accept("TIME", "ZONE"):
        return "TimeZone"
    if words.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        return "transaction_isolation"
    if words.accept("SESSION", "AUTHORIZATION"):
        return "session_authorization"
    return words.name()


def read_reset(words: Words, settings: SessionSettings, report: Report) -> Utility:
    """RESET, after its first word."""
    name = "" if words.accept("ALL") else _named(words)
    words.end()

    async def run(sink: Sink) -> str:
        before = settings.reported()
        if name:
            settings.reset(name)
        else:
            settings.reset_all()
        report(before)
        return "RESET"

    return Utility(run)


def read_discard(words: Words, discard_all: Callable[[], Awaitable[None]]) -> Utility:
    """DISCARD, after its first word. `discard_all`: forgets all that the session holds."""
    for kind in ("PLANS", "SEQUENCES", "TEMP", "TEMPORARY"):
        if words.accept(kind):
            words.end()
            return at_once(f"DISCARD {kind}")
    words.expect("ALL")
    words.end()

    async def run(sink: Sink) -> str:
        await discard_all()
        return "DISCARD ALL"

    return Utility(run)

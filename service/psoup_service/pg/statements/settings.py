"""The settings of a session: PostgreSQL's, as clients set and show them, and PSoup's own.

    startup packet ──> values at the start ──> SET ──> present values ──> SHOW, current_setting()
                                                 └── undone by ROLLBACK

`settings_table` has their defaults and checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from psoup.errors import InvalidInput
from psoup.sql.source import nearest
from psoup_service.pg.statements.settings_table import FIXED, KNOWN, LEVELS, SPAN, UNITS, checked_value, time_of
from psoup_service.pg.values.zones import Zone

_SCHEMAS = ("streams", "queries", "pg_catalog", "information_schema")
LONGEST = 4_096
"""The most characters of a value."""
MOST_OWN = 64
"""The most settings of a session with names that only its client knows, such as `myapp.user`."""
_OF_TRANSACTIONS = ("transaction_isolation", "transaction_read_only", "transaction_deferrable")
"""Settings of one transaction. Each has a default for the next ones."""

_NAMES = {name.lower(): name for name in (*FIXED, *KNOWN)}
_REPORTED = (
    "server_version",
    "server_encoding",
    "client_encoding",
    "application_name",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
    "is_superuser",
    "session_authorization",
    "default_transaction_read_only",
    "in_hot_standby",
)
"""Settings whose values the service sends to the client, as PostgreSQL does."""


class SessionSettings:
    """The settings of a session. `options`: the parameters of the start-up packet."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._first = {name: default for name, (default, _) in (FIXED | KNOWN).items()}
        self._first["session_authorization"] = options.get("user", "")
        self._now = dict(self._first)
        for name, value in _started(options):
            self.set(name, value)
        self._first |= self._now
        self._before: dict[str, str] | None = None
        self._local = dict[str, str | None]()
        """Values before SET LOCAL, by name. They return at the end of the transaction."""

    def __iter__(self) -> Iterator[str]:
        """The names of all settings, in order."""
        return iter(sorted(self._now, key=str.lower))

    def get(self, name: str) -> str:
        """The value of a setting, in any case of its name. Raises InvalidInput for an unknown one."""
        exact = _NAMES.get(name.lower(), name.lower())
        if exact not in self._now:
            raise _unknown(name)
        return self._now[self._in_force(exact)]

    def shown_name(self, name: str) -> str:
        """The name of a setting as SHOW writes it, from a name in any case."""
        return _NAMES.get(name.lower(), name.lower())

    def set(self, name: str, value: str, *, local: bool = False) -> None:
        """Change a setting. `local`: up to the end of the transaction. Raises InvalidInput for a wrong value."""
        exact = _NAMES.get(name.lower(), name.lower())
        if exact in FIXED:
            if value == self._now[exact]:
                return
            raise InvalidInput(f'parameter "{exact}" cannot be changed', reason="FIXED_SETTING")
        if len(value) > LONGEST:
            raise InvalidInput(f'the value of "{exact}" has {len(value):,} characters; {LONGEST:,} is the most')
        if exact in KNOWN:
            value = checked_value(exact, value)
        elif "." not in exact or exact.startswith("psoup."):
            raise _unknown(name)
        elif exact not in self._now and len(self._now) - len(self._first) >= MOST_OWN:
            raise InvalidInput(
                f"a session has at most {MOST_OWN} settings with names of its own, such as myapp.user; RESET some"
            )
        if local:
            self._local.setdefault(exact, self._now.get(exact))
        self._now[exact] = value

    def _in_force(self, name: str) -> str:
        """The name of the setting that is in effect: outside of a transaction, the default for the next transaction."""
        return f"default_{name}" if self._before is None and name in _OF_TRANSACTIONS else name

    def reset(self, name: str) -> None:
        """Give a setting the value that it had at the start of the session."""
        exact = _NAMES.get(name.lower(), name.lower())
        if exact in self._first:
            self._now[exact] = self._first[exact]
        else:
            self._now.pop(exact, None)

    def reset_all(self) -> None:
        """Give all settings the values that they had at the start of the session."""
        self._now = dict(self._first)

    def begin(self) -> None:
        """Begin a transaction."""
        self._before, self._local = dict(self._now), {}
        for name in _OF_TRANSACTIONS:
            self._now[name] = self._now[f"default_{name}"]

    def end(self, *, success: bool) -> None:
        """End a transaction. `success`: the changes of SET in it stay."""
        assert self._before is not None, "a transaction has begun"
        if not success:
            self._now = self._before
        else:
            for name, value in self._local.items():
                if value is None:
                    self._now.pop(name, None)
                else:
                    self._now[name] = value
            for name in _OF_TRANSACTIONS:
                self._now[name] = self._before[name]
        self._before, self._local = None, {}

    def reported(self) -> dict[str, str]:
        """The settings that are sent to the client, by name."""
        return {name: self._now[name] for name in _REPORTED}

    # Settings that change something ---------------------------------------------------------------------------

    @property
    def zone(self) -> Zone:
        """The zone of `TimeZone`, for texts of times."""
        return Zone.named(self._now["TimeZone"])

    @property
    def as_of(self) -> int | None:
        """The time of `psoup.as_of`, in microseconds; None for the present."""
        return time_of(self._now["psoup.as_of"]) if self._now["psoup.as_of"] else None

    @property
    def window(self) -> str:
        """The window of `psoup.window`; "" for each statement's own."""
        return self._now["psoup.window"]

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas of `search_path` that exist, in its order."""
        named = (part.strip().strip('"').lower() for part in self._now["search_path"].split(","))
        return tuple(dict.fromkeys(name for name in named if name in _SCHEMAS))

    @property
    def notices(self) -> bool:
        """Whether the client wants notices."""
        return LEVELS.index(self._now["client_min_messages"]) <= LEVELS.index("notice")

    @property
    def warnings(self) -> bool:
        """Whether the client wants warnings."""
        return self._now["client_min_messages"] != "error"

    @property
    def read_only(self) -> bool:
        """Whether the present transaction, or each statement outside of one, must not push."""
        return self._now[self._in_force("transaction_read_only")] == "on"

    def seconds(self, name: str) -> float | None:
        """The seconds of a setting with a time; None if it is 0."""
        match = SPAN.fullmatch(self._now[name])
        assert match is not None, "it was checked when it was set"
        return float(match[1]) * UNITS[match[2]] / 1e3 or None


def _unknown(name: str) -> InvalidInput:
    hint = nearest(name, _NAMES.values())
    said = f'unrecognized configuration parameter "{name[:60]}"'
    return InvalidInput(f"{said}; {hint}" if hint else said, reason="UNKNOWN_SETTING")


_OPTION = re.compile(r"(?:\\.|\S)+")


def _started(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings of a start-up packet: first `options`, and then the parameters themselves. Raises InvalidInput."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in _OPTION.findall(options.get("options", ""))]
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "-c" and at < len(words):
            word = "--" + words[at]
            at += 1
        elif word.startswith("-c"):
            word = "--" + word[2:]
        name, equals, value = word[2:].partition("=")
        if not word.startswith("--") or not equals:
            raise InvalidInput(f"the option {word[:60]!r} is not supported; write -c name=value", reason="OPTIONS")
        yield name.replace("-", "_"), value
    for name, value in options.items():
        if name not in ("user", "database", "options", "replication") and not name.startswith("_pq_."):
            yield name, value

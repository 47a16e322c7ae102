"""The settings of a session: PostgreSQL's, as clients set and show them, and PSoup's own.

    startup packet ──> values at the start ──> SET ──> present values ──> SHOW, current_setting()
                                                 └── undone by ROLLBACK

Few settings change anything here. Clients set the remaining ones at the start of a session, and expect to read them
back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from psoup.errors import InvalidInput, NotSupported
from psoup.expressions.conversion import cast
from psoup.expressions.tree import Literal
from psoup.model import TEXT, TIMESTAMP
from psoup.sql import window_clause
from psoup.sql.source import nearest
from psoup_service.pg.values.zones import Zone

_Check = Callable[[str], str]
"""Returns the value as it is shown. Raises ValueError with the values that are allowed."""

_BOOLEANS = {"on": "on", "true": "on", "yes": "on", "1": "on", "off": "off", "false": "off", "no": "off", "0": "off"}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|)")
_UNITS = {"us": 0.001, "ms": 1.0, "": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7}
_LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")
_ISOLATION = ("read committed", "read uncommitted", "repeatable read")
_SCHEMAS = ("streams", "queries", "pg_catalog", "information_schema")
LONGEST = 4_096
"""The most characters of a value."""
MOST_OWN = 64
"""The most settings of a session that the service does not know, such as `myapp.user`."""


def _any(value: str) -> str:
    return value


def _boolean(value: str) -> str:
    if value.lower() not in _BOOLEANS:
        raise ValueError("on or off")
    return _BOOLEANS[value.lower()]


def _one_of(*values: str) -> _Check:
    def check(value: str) -> str:
        if value.lower() not in values:
            raise ValueError(", ".join(values))
        return value.lower()

    return check


def _whole(value: str) -> str:
    if not re.fullmatch(r"-?\d{1,9}", value):
        raise ValueError("a whole number")
    return str(int(value))


def _span(value: str) -> str:
    match = _SPAN.fullmatch(value.strip())
    if match is None or float(match[1]) * _UNITS[match[2]] > 2**31:
        raise ValueError("milliseconds, or a number with a unit such as 5s")
    millis = round(float(match[1]) * _UNITS[match[2]])
    unit = next((unit for unit in ("d", "h", "min", "s") if millis and not millis % _UNITS[unit]), "ms")
    return f"{millis // int(_UNITS[unit])}{unit}" if millis else "0"


def _encoding(value: str) -> str:
    if value.strip("'\"").replace("-", "").replace("_", "").upper() not in ("UTF8", "UNICODE"):
        raise ValueError("UTF8")
    return "UTF8"


def _date_style(value: str) -> str:
    words = [word.strip().upper() for word in value.split(",")]
    if not set(words) <= {"ISO", "MDY", "DMY", "YMD", "US", "EUROPEAN", "DEFAULT", ""}:
        raise ValueError("ISO, with MDY, DMY or YMD")
    order = next((word for word in words if word in ("MDY", "DMY", "YMD")), "MDY")
    return f"ISO, {order}"


def _zone(value: str) -> str:
    if value.upper() in ("DEFAULT", "LOCAL"):
        return "UTC"
    try:
        return Zone.named(value).name
    except InvalidInput:
        raise ValueError("a zone such as Europe/Berlin, UTC or +02:00") from None


def _time(value: str) -> str:
    if value:
        try:
            time_of(value)
        except InvalidInput:
            raise ValueError("a time such as 2026-07-01 12:30:00Z, or '' for the present") from None
    return value


def _window(value: str) -> str:
    if value:
        window_clause(value)
    return value


_ON, _OFF = ("on", _boolean), ("off", _boolean)
_FIXED: dict[str, tuple[str, _Check]] = {
    "server_version": ("15.0", _any),
    "server_version_num": ("150000", _any),
    "server_encoding": ("UTF8", _any),
    "integer_datetimes": ("on", _any),
    "is_superuser": ("off", _any),
    "max_identifier_length": ("63", _any),
    "lc_collate": ("C", _any),
    "lc_ctype": ("C", _any),
    "block_size": ("8192", _any),
    "max_index_keys": ("32", _any),
    "in_hot_standby": ("off", _any),
}
"""Settings that no client can change: the value of each."""

_KNOWN: dict[str, tuple[str, _Check]] = {
    "psoup.as_of": ("", _time),
    "psoup.window": ("", _window),
    "application_name": ("", _any),
    "client_encoding": ("UTF8", _encoding),
    "client_min_messages": ("notice", _one_of(*_LEVELS)),
    "DateStyle": ("ISO, MDY", _date_style),
    "TimeZone": ("UTC", _zone),
    "IntervalStyle": ("postgres", _one_of("postgres", "iso_8601", "postgres_verbose", "sql_standard")),
    "bytea_output": ("hex", _one_of("hex")),
    "standard_conforming_strings": ("on", _one_of("on")),
    "escape_string_warning": _ON,
    "backslash_quote": ("safe_encoding", _any),
    "extra_float_digits": ("1", _whole),
    "search_path": ("streams, queries", _any),
    "statement_timeout": ("0", _span),
    "lock_timeout": ("0", _span),
    "idle_in_transaction_session_timeout": ("0", _span),
    "idle_session_timeout": ("0", _span),
    "transaction_isolation": ("repeatable read", _one_of(*_ISOLATION)),
    "transaction_read_only": _OFF,
    "transaction_deferrable": _OFF,
    "default_transaction_isolation": ("repeatable read", _one_of(*_ISOLATION)),
    "default_transaction_read_only": _OFF,
    "default_transaction_deferrable": _OFF,
    "session_authorization": ("", _any),
    "role": ("none", _any),
    "row_security": _ON,
    "synchronous_commit": ("on", _any),
    "session_replication_role": ("origin", _any),
    "default_with_oids": ("off", _one_of("off")),
    "default_tablespace": ("", _any),
    "default_table_access_method": ("heap", _any),
    "xmloption": ("content", _any),
    "xmlbinary": ("base64", _any),
    "check_function_bodies": _ON,
    "quote_all_identifiers": _OFF,
    "lc_messages": ("C", _any),
    "lc_monetary": ("C", _any),
    "lc_numeric": ("C", _any),
    "lc_time": ("C", _any),
    "work_mem": ("4MB", _any),
    "maintenance_work_mem": ("64MB", _any),
    "effective_io_concurrency": ("1", _any),
    "cursor_tuple_fraction": ("0.1", _any),
    "geqo": _ON,
    "jit": _OFF,
    "plan_cache_mode": ("auto", _any),
    "random_page_cost": ("4", _any),
    "max_parallel_workers_per_gather": ("0", _any),
    "enable_nestloop": _ON,
    "enable_hashjoin": _ON,
    "enable_mergejoin": _ON,
    "enable_seqscan": _ON,
    "enable_indexscan": _ON,
    "enable_bitmapscan": _ON,
    "enable_material": _ON,
    "enable_sort": _ON,
    "gin_fuzzy_search_limit": ("0", _any),
    "tcp_keepalives_idle": ("0", _any),
    "tcp_keepalives_interval": ("0", _any),
    "log_statement": ("none", _any),
    "log_min_messages": ("warning", _any),
    "log_min_duration_statement": ("-1", _any),
    "ssl_renegotiation_limit": ("0", _any),
}
"""Settings that clients change: the default of each, and its check."""

_NAMES = {name.lower(): name for name in (*_FIXED, *_KNOWN)}
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
        self._first = {name: default for name, (default, _) in (_FIXED | _KNOWN).items()}
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
        return self._now[exact]

    def shown_name(self, name: str) -> str:
        """The name of a setting as SHOW writes it, from a name in any case."""
        return _NAMES.get(name.lower(), name.lower())

    def set(self, name: str, value: str, *, local: bool = False) -> None:
        """Change a setting. `local`: up to the end of the transaction. Raises InvalidInput for a wrong value."""
        exact = _NAMES.get(name.lower(), name.lower())
        if exact in _FIXED:
            if value == self._now[exact]:
                return
            raise InvalidInput(f'parameter "{exact}" cannot be changed', reason="FIXED_SETTING")
        if len(value) > LONGEST:
            raise InvalidInput(f'the value of "{exact}" has {len(value):,} characters; {LONGEST:,} is the most')
        if exact in _KNOWN:
            value = _checked(exact, value)
        elif "." not in exact or exact.startswith("psoup."):
            raise _unknown(name)
        elif exact not in self._now and len(self._now) - len(self._first) >= MOST_OWN:
            raise InvalidInput(f"a session has at most {MOST_OWN} settings of the client's own")
        if local:
            self._local.setdefault(exact, self._now.get(exact))
        self._now[exact] = value

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
        for name in ("isolation", "read_only", "deferrable"):
            self._now[f"transaction_{name}"] = self._now[f"default_transaction_{name}"]

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
            for name in ("isolation", "read_only", "deferrable"):
                self._now[f"transaction_{name}"] = self._before[f"transaction_{name}"]
        self._before, self._local = None, {}

    def reported(self) -> dict[str, str]:
        """The settings that the client learns."""
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
        return _LEVELS.index(self._now["client_min_messages"]) <= _LEVELS.index("notice")

    @property
    def warnings(self) -> bool:
        """Whether the client wants warnings."""
        return self._now["client_min_messages"] != "error"

    @property
    def read_only(self) -> bool:
        """Whether the present transaction, or each statement outside of one, must not push."""
        return self._now["transaction_read_only" if self._before else "default_transaction_read_only"] == "on"

    def seconds(self, name: str) -> float | None:
        """The seconds of a setting with a time; None if it is 0."""
        match = _SPAN.fullmatch(self._now[name])
        assert match is not None, "it was checked when it was set"
        return float(match[1]) * _UNITS[match[2]] / 1e3 or None


def time_of(text: str) -> int:
    """The time of a text in microseconds; without a zone it is UTC. Raises InvalidInput."""
    literal = cast(Literal(TEXT, text), TIMESTAMP)
    value = literal.value if isinstance(literal, Literal) else None
    if not isinstance(value, int):
        raise InvalidInput(f"{text[:60]!r} is not a time")
    return value


def _checked(name: str, value: str) -> str:
    if name.endswith("transaction_isolation") and value.lower() == "serializable":
        hint = "REPEATABLE READ: all statements of the transaction read one snapshot"
        raise NotSupported("ISOLATION LEVEL SERIALIZABLE is not supported", line=1, column=1, hint=hint)
    try:
        return _KNOWN[name][1](value)
    except ValueError as wanted:
        raise InvalidInput(
            f'invalid value for parameter "{name}": {value[:60]!r}; it must be {wanted}', reason="SETTING_VALUE"
        ) from None


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

"""The settings that clients of PostgreSQL name: the default of each, and the check of its values.

    "DateStyle": ("ISO, MDY", a check) ──> "iso" is "ISO, MDY"
                                       └─> "german": an error with the values that are allowed

Most of them have no effect here. Clients set them at the start of a session, and expect to read them back.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from psoup.errors import InvalidInput, NotSupported
from psoup.expressions.conversion import cast
from psoup.expressions.tree import Literal
from psoup.model import TEXT, TIMESTAMP
from psoup.sql import window_clause
from psoup_service.pg.values.zones import Zone

_Check = Callable[[str], str]
"""Returns the value as it is shown. Raises ValueError with the values that are allowed."""

_BOOLEANS = {"on": "on", "true": "on", "yes": "on", "1": "on", "off": "off", "false": "off", "no": "off", "0": "off"}
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|)")
UNITS = {"us": 0.001, "ms": 1.0, "": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7}
LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")
_ISOLATION = ("read committed", "read uncommitted", "repeatable read")


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
    match = SPAN.fullmatch(value.strip())
    if match is None or float(match[1]) * UNITS[match[2]] > 2**31:
        raise ValueError("milliseconds, or a number with a unit such as 5s")
    millis = round(float(match[1]) * UNITS[match[2]])
    unit = next((unit for unit in ("d", "h", "min", "s") if millis and not millis % UNITS[unit]), "ms")
    return f"{millis // int(UNITS[unit])}{unit}" if millis else "0"


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
    return "UTC" if value.upper() in ("DEFAULT", "LOCAL") else Zone.named(value).name


def _unless_empty(read: Callable[[str], object]) -> _Check:
    """A check by `read`. An empty value passes, too."""

    def check(value: str) -> str:
        if value:
            read(value)
        return value

    return check


def _told(check: _Check, wanted: str) -> _Check:
    """A check that accepts what `check` accepts, with an error that names the allowed values. `wanted`: that error."""

    def told(value: str) -> str:
        try:
            return check(value)
        except InvalidInput:
            raise ValueError(wanted) from None

    return told


def time_of(text: str) -> int:
    """The time of a text in microseconds; without a zone it is UTC. Raises InvalidInput."""
    literal = cast(Literal(TEXT, text), TIMESTAMP)
    value = literal.value if isinstance(literal, Literal) else None
    if not isinstance(value, int):
        raise InvalidInput(f"{text[:60]!r} is not a time")
    return value


_ON, _OFF = ("on", _boolean), ("off", _boolean)
FIXED: dict[str, tuple[str, _Check]] = {
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

KNOWN: dict[str, tuple[str, _Check]] = {
    "psoup.as_of": (
        "",
        _told(_unless_empty(time_of), "a time such as 2026-07-01 12:30:00Z, or '' for the present"),
    ),
    "psoup.window": ("", _unless_empty(window_clause)),
    "application_name": ("", _any),
    "client_encoding": ("UTF8", _encoding),
    "client_min_messages": ("notice", _one_of(*LEVELS)),
    "DateStyle": ("ISO, MDY", _date_style),
    "TimeZone": ("UTC", _told(_zone, "a zone such as Europe/Berlin, UTC or +02:00")),
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
    "transaction_timeout": ("0", _span),
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
    "temp_buffers": ("8MB", _any),
    "default_statistics_target": ("100", _any),
    "effective_cache_size": ("4GB", _any),
    "track_activities": _ON,
    "array_nulls": _ON,
    "transform_null_equals": _OFF,
    "constraint_exclusion": ("partition", _any),
    "from_collapse_limit": ("8", _whole),
    "join_collapse_limit": ("8", _whole),
    "geqo_threshold": ("12", _whole),
    "seq_page_cost": ("1", _any),
    "cpu_tuple_cost": ("0.01", _any),
    "deadlock_timeout": ("1s", _any),
    "force_parallel_mode": _OFF,
    "parallel_setup_cost": ("1000", _any),
    "parallel_tuple_cost": ("0.1", _any),
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
    "enable_hashagg": _ON,
    "enable_memoize": _ON,
    "enable_indexonlyscan": _ON,
    "enable_tidscan": _ON,
    "enable_gathermerge": _ON,
    "enable_incremental_sort": _ON,
    "enable_parallel_append": _ON,
    "enable_parallel_hash": _ON,
    "enable_partition_pruning": _ON,
    "enable_partitionwise_join": _OFF,
    "enable_partitionwise_aggregate": _OFF,
    "gin_fuzzy_search_limit": ("0", _any),
    "tcp_keepalives_idle": ("0", _any),
    "tcp_keepalives_interval": ("0", _any),
    "log_statement": ("none", _any),
    "log_min_messages": ("warning", _any),
    "log_min_duration_statement": ("-1", _any),
    "ssl_renegotiation_limit": ("0", _any),
}
"""Settings that clients change: the default of each, and its check."""


def checked_value(name: str, value: str) -> str:
    """The value of a setting as it is shown. Raises InvalidInput with the values that are allowed."""
    if name.endswith("transaction_isolation") and value.lower() == "serializable":
        hint = "REPEATABLE READ: all statements of the transaction read one snapshot"
        raise NotSupported("ISOLATION LEVEL SERIALIZABLE is not supported", line=1, column=1, hint=hint)
    try:
        return KNOWN[name][1](value)
    except ValueError as wanted:
        raise InvalidInput(
            f'invalid value for parameter "{name}": {value[:60]!r}; it must be {wanted}', reason="SETTING_VALUE"
        ) from None

"""Errors in PostgreSQL's protocol: a SQLSTATE for each class of errors, with position and hint.

SqlError("line 1, column 8: …", reason="UNKNOWN_COLUMN") ──> ERROR, 42703, position 8, hint
"""

from __future__ import annotations

from psoup import errors

_STATES: dict[type[errors.PSoupError], str] = {
    errors.InvalidInput: "22023",
    errors.SqlError: "42601",
    errors.NotSupported: "0A000",
    errors.InvalidBatch: "22000",
    errors.NotFound: "42P01",
    errors.AlreadyExists: "42P07",
    errors.Conflict: "40001",
    errors.FailedPrecondition: "55000",
    errors.OutOfRange: "22003",
    errors.RowsRefused: "22008",
    errors.ResourceExhausted: "53000",
    errors.Unauthenticated: "28000",
    errors.PermissionDenied: "42501",
    errors.Unavailable: "57P03",
    errors.Internal: "XX000",
    errors.Corrupt: "XX001",
}
"""The SQLSTATE of each class of `psoup.errors`."""

_BY_REASON = {
    "UNKNOWN_COLUMN": "42703",
    "UNKNOWN_STREAM": "42P01",
    "AMBIGUOUS_COLUMN": "42702",
    "DEADLINE_EXCEEDED": "57014",
    "CANCELLED": "57014",
    "PROTOCOL": "08P01",
    "TRANSACTION_FAILED": "25P02",
    "TRANSACTION_IDLE": "25P03",
    "UNKNOWN_STATEMENT": "26000",
    "UNKNOWN_PORTAL": "34000",
    "CURSOR_FORWARD": "55000",
    "CURSOR_BROKEN": "55000",
    "DUPLICATE_STATEMENT": "42P05",
    "DUPLICATE_PORTAL": "42P03",
    "TOO_MANY_OPEN": "54000",
    "RESULT_TYPE": "0A000",
    "RECEIVE_FULL": "53200",
    "RECEIVE_DEADLINE": "08P01",
    "STREAM_IDLE": "57014",
    "DRAINING": "57P01",
    "CONNECTION_IDLE": "57P05",
    "TLS_NEEDED": "28000",
    "NOT_SUPPORTED": "0A000",
    "NO_CREDENTIAL": "28P01",
    "TOKEN_INVALID": "28P01",
    "TOKEN_EXPIRED": "28P01",
    "UNKNOWN_SETTING": "42704",
    "FIXED_SETTING": "55P02",
    "UNKNOWN_KEY": "42P01",
    "UNKNOWN_FUNCTION": "42883",
    "TYPE_MISMATCH": "42883",
    "ACTIVE_TRANSACTION": "25001",
    "NO_TRANSACTION": "25P01",
    "READ_ONLY": "25006",
    "UNKNOWN_SAVEPOINT": "3B001",
    "SNAPSHOT_TOO_OLD": "72000",
    "COLUMN_COUNT": "42601",
    "OUT_OF_RANGE": "22003",
    "NOT_NULL": "23502",
    "NULL_TIMESTAMP": "23502",
    "PATCH_NOT_NULL": "23502",
    "DUPLICATE_COLUMN": "42701",
    "DATATYPE_MISMATCH": "42804",
    "MEMORY": "53200",
    "TOO_MANY_ROWS": "53200",
    "SORT_BUDGET": "53200",
    "GROUP_BUDGET": "53200",
    "SORTS_BUDGET": "53200",
    "TOO_LONG": "54000",
    "TOO_DEEP": "54001",
    "TOO_MANY_COLUMNS": "54011",
    "MESSAGE_TOO_LARGE": "54000",
    "TOO_MANY_CONNECTIONS": "53300",
    "INVALID_TEXT": "22P02",
    "INVALID_BINARY": "22P03",
    "COPY_FORMAT": "22P04",
    "DATETIME_OVERFLOW": "22008",
    "NOT_UTF8": "22021",
    "INVALID_PARAMETER_VALUE": "22023",
}
"""The SQLSTATE of a reason, where it differs from the SQLSTATE of the error's class."""


def unsupported(construct: str) -> errors.FailedPrecondition:
    """The error for a part of the protocol that the service lacks."""
    return errors.FailedPrecondition(f"the service does not support {construct}", reason="NOT_SUPPORTED")


def state_of(error: errors.PSoupError) -> str:
    """The SQLSTATE of an error."""
    if error.reason in _BY_REASON:
        return _BY_REASON[error.reason]
    return next((_STATES[cls] for cls in type(error).__mro__ if cls in _STATES), "XX000")


def fields_of(error: errors.PSoupError, text: str = "", severity: str = "ERROR") -> dict[str, str]:
    """The fields of an ErrorResponse, by their letters. `text`: the statement, for the position of the fault."""
    fields = {"S": severity, "V": severity, "C": state_of(error), "M": error.message}
    if isinstance(error, errors.SqlError):
        fields["M"] = error.problem
        if error.hint:
            fields["H"] = error.hint
        if text:
            fields["P"] = str(_position(text, error.line, error.column))
    if error.reason:
        fields["n"] = error.reason
    if error.reason == "NOT_NULL":
        fields |= {
            "D": f"Row {error.facts['row']} of the statement has NULL in this column.",
            "s": "streams",
            "t": error.facts["relation"],
            "c": error.facts["column"],
        }
    if error.reason == "RESULT_TYPE":
        fields["R"] = "RevalidateCachedQuery"  # asyncpg and JDBC prepare the statement again if they read this name
    return fields


def _position(text: str, line: int, column: int) -> int:
    """The number of the character at a line and a column, from 1."""
    lines = text.split("\n")
    return sum(len(before) + 1 for before in lines[: line - 1]) + column

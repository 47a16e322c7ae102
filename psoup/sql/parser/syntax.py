"""Nodes of the syntax tree that sqlglot lacks, and the errors that stop its parser.

    BEGIN (NOW - 15 MINUTES)   ->   BoundNode(NOW, back=Duration(15, MINUTES))

The parser in `dialect` and `grammar` creates the nodes. `psoup.sql.windows` and `psoup.sql.ddl` read them.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.errors import ParseError


class Duration(exp.Expression):
    """A duration such as `15 MINUTES`, `INTERVAL '1' DAY` or `100 ROWS`. `this`: the number. `unit`: in upper case,
    or ""."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": False}


class BoundNode(exp.Expression):
    """A bound of a window. `this`: START, NOW, TIMESTAMP, DATE or NUMBER.

    `back`: the Duration before NOW. `at`: the text of the TIMESTAMP, DATE or NUMBER.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "back": False, "at": False}


class BoundsNode(exp.Expression):
    """A window clause without a SELECT, or the window of one source in brackets.

    `partition`: the expressions of PARTITION BY. `rows`: the Duration of its ROWS. Without PARTITION BY both are None.
    `where`: the condition of WHERE in brackets.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "begin": False,
        "end": False,
        "partition": False,
        "rows": False,
        "where": False,
    }


class StreamColumn(exp.Expression):
    """`name TYPE [NOT NULL]` in CREATE STREAM, also with PRIMARY KEY in CREATE TABLE."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "not_null": False, "is_key": False}


class CreateStreamNode(exp.Expression):
    """CREATE STREAM or CREATE TABLE with its columns and options. `table`: whether it is CREATE TABLE.

    `origin`: the stream of FROM STREAM; then there are no columns. `key`: the identifiers of PRIMARY KEY. `timestamp`,
    `watermark` and `expires` are identifiers, `first` is the word of FIRST VERSION FROM. Every other option is a
    Duration.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": False,
        "table": False,
        "origin": False,
        "key": False,
        "history": False,
        "deleted": False,
        "expires": False,
        "first": False,
        "timestamp": False,
        "lateness": False,
        "idle": False,
        "ahead": False,
        "watermark": False,
        "retention": False,
        "archive": False,
    }


class DeriveNode(exp.Expression):
    """CREATE STREAM … AS. `expressions`: the identifiers of the columns, if it has any. `start`, `end`: the offsets of
    the text of the SELECT. `operator`: the identifier ISTREAM, DSTREAM or RSTREAM. `begins`: START or NOW. `every`,
    `lag` and `state` are Durations, `state` with the unit MB. The other options are as in `CreateStreamNode`."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": False,
        "start": True,
        "end": True,
        "operator": False,
        "begins": False,
        "every": False,
        "lag": False,
        "state": False,
        "retention": False,
        "archive": False,
    }


class AlterStreamNode(exp.Expression):
    """ALTER STREAM or ALTER TABLE with the new columns, or with the new value of an option.

    `watermark` and `expires` are identifiers; `ahead`, `lateness`, `history` and `deleted` are Durations. `lenient`:
    the names of the columns with IF NOT EXISTS. `default_ahead`: it has AHEAD DEFAULT. `never_expires`: it has EXPIRES
    NEVER. `pump`: the text SUSPEND, RESUME or RESUME FROM NOW.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": False,
        "lenient": False,
        "ahead": False,
        "default_ahead": False,
        "lateness": False,
        "watermark": False,
        "table": False,
        "history": False,
        "deleted": False,
        "expires": False,
        "never_expires": False,
        "pump": False,
    }


class DropStreamNode(exp.Expression):
    """DROP STREAM or DROP TABLE. `lenient`: it has IF EXISTS. `cascade`: it has CASCADE. `table`: it is DROP TABLE."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "lenient": False, "cascade": False, "table": False}


class PlacedError(ParseError):
    """A parse error with the offset of the token where it was noticed."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message, [{}])  # sqlglot writes into the first of the list
        self.message = message
        self.at = at


class SyntaxRefusal(PlacedError):
    """An error whose message is for users, perhaps with a hint. `parse_tree` replaces the messages of other errors."""

    def __init__(self, message: str, at: int, hint: str = "") -> None:
        super().__init__(message, at)
        self.hint = hint


class TooComplex(Exception):
    """Raised if the parser exceeds its limit of steps. It is not a ParseError, as the parser would then try another
    rule."""

"""Nodes of the syntax tree that sqlglot does not have, and the errors that stop its parser.

    BEGIN (NOW - 15 MINUTES)   ->   Bound(NOW, back=Duration(15, MINUTES))

`psoup.sql.dialect` makes them; the modules that bind windows and streams read them.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.errors import ParseError


class Duration(exp.Expression):
    """`15 MINUTES` (this, unit), `INTERVAL '1' DAY`, `100 ROWS`; the unit is upper-case, "" if none was given."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": False}


class BoundNode(exp.Expression):
    """A bound of a window: anchor START, NOW (less `back`, a Duration), or a TIMESTAMP, DATE or NUMBER `at`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "back": False, "at": False}


class BoundsNode(exp.Expression):
    """A window clause on its own, or that of one source in brackets."""

    arg_types: ClassVar[dict[str, bool]] = {"begin": False, "end": False}


class StreamColumn(exp.Expression):
    """`name TYPE [NOT NULL]` in CREATE STREAM."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "not_null": False}


class CreateStreamNode(exp.Expression):
    """CREATE STREAM with its columns and options; `timestamp` is an identifier, the others are Durations."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": True,
        "timestamp": False,
        "lateness": False,
        "idle": False,
        "ahead": False,
        "retention": False,
        "archive": False,
    }


class AlterStreamNode(exp.Expression):
    """ALTER STREAM with the columns it adds, or `ahead`, a Duration; `lenient`: names of those with IF NOT EXISTS."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "lenient": False, "ahead": False}


class DropStreamNode(exp.Expression):
    """DROP STREAM; `lenient`: with IF EXISTS, `cascade`: with CASCADE."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "lenient": False, "cascade": False}


class PlacedError(ParseError):
    """A parse error with the offset of the token where it was noticed."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message, [{}])  # sqlglot writes into the first of the list
        self.message = message
        self.at = at


class Refusal(PlacedError):
    """An error in this module's own words, maybe with a hint; `statement` puts sqlglot's messages into other words."""

    def __init__(self, message: str, at: int, hint: str = "") -> None:
        super().__init__(message, at)
        self.hint = hint


class TooComplex(Exception):
    """The parser has used up its steps. Not a ParseError, which the parser would take as a reason to try again."""

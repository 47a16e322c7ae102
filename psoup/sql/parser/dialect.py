"""The dialect: sqlglot's SELECT with BEGIN and END as query modifiers, and CREATE, ALTER and DROP STREAM.

    SELECT price FROM trades WHERE symbol = 'A' BEGIN (NOW - 15 MINUTES) END (NOW)
                                                └────── Bound ────────┘ └─ Bound ┘

The parser makes each function an `exp.Anonymous` with its name in the text, and the binder finds its meaning. The
parser of sqlglot allows BEGIN and END as names, so `FROM s BEGIN` would give s an alias. This dialect removes both from
the tokens that can be names. It also refuses a missing THEN, AND or list item, which sqlglot accepts. The parser checks
no meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenizerCore, TokenType

from psoup.sql.parser.compositions import Compositions
from psoup.sql.parser.grammar import WINDOW_WORDS
from psoup.sql.parser.syntax import (
    AlterStreamNode,
    CreateStreamNode,
    DropStreamNode,
    StreamColumn,
)
from psoup.work.rest_points import MOVES, may_rest

Parsers = dict[Any, Callable[..., Any]]

_NO_NAMES = {*WINDOW_WORDS, TokenType.LIMIT, TokenType.OFFSET, TokenType.CASE, TokenType.DIV, TokenType.UNKNOWN}
"""Tokens that sqlglot also allows as names, such as `//`. This dialect does not."""

_CONSTANTS = {TokenType.TRUE, TokenType.FALSE, TokenType.NULL, TokenType.ALL, TokenType.INTERVAL}
"""Words that sqlglot refuses as names in expressions, but allows as names in declarations."""


class PSoupParser(Compositions):
    """The recursive-descent parser of the dialect `PSoup`."""

    ID_VAR_TOKENS = parser.Parser.ID_VAR_TOKENS - _NO_NAMES
    TABLE_ALIAS_TOKENS = parser.Parser.TABLE_ALIAS_TOKENS - _NO_NAMES
    ALIAS_TOKENS = parser.Parser.ALIAS_TOKENS - _NO_NAMES
    FUNC_TOKENS = parser.Parser.FUNC_TOKENS - _NO_NAMES
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[Parsers] = {
        **{name: parser.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "TRIM")},
        "EXISTS": lambda self: self._parse_existence(),
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[Parsers] = {"CASE": lambda self: self._parse_case()}
    QUERY_MODIFIER_PARSERS: ClassVar[Parsers] = {
        **parser.Parser.QUERY_MODIFIER_PARSERS,
        TokenType.BEGIN: lambda self: ("begin", self._parse_bound_after("BEGIN")),
        TokenType.END: lambda self: ("end", self._parse_bound_after("END")),
    }
    QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = set(QUERY_MODIFIER_PARSERS)
    STATEMENT_PARSERS: ClassVar[Parsers] = {
        **parser.Parser.STATEMENT_PARSERS,
        TokenType.CREATE: lambda self: self._parse_create_stream(),
        TokenType.ALTER: lambda self: self._parse_alter_stream(),
        TokenType.DROP: lambda self: self._parse_drop_stream(),
        TokenType.BEGIN: lambda self: self._parse_bounds(),
        TokenType.END: lambda self: self._parse_bounds(),
    }

    RANGE_PARSERS: ClassVar[Parsers] = {
        **parser.Parser.RANGE_PARSERS,
        TokenType.TILDE: parser.binary_range_parser(exp.RegexpLike),
        TokenType.RLIKE: lambda self, _: self.refuse(
            f"{self._prev.text.upper()} is not an operator",
            self._prev,
            "write x ~ 'pattern', or regexp_matches(x, 'pattern')",
        ),
    }
    UNARY_PARSERS: ClassVar[Parsers] = {
        **parser.Parser.UNARY_PARSERS,
        TokenType.TILDE: lambda self: self.expression(exp.BitwiseNot(this=self._parse_term())),  # ~1 + 1 is ~(1 + 1)
    }
    IS_PREDICATE_PRECEDENCE = DuckDBParser.IS_PREDICATE_PRECEDENCE

    # CREATE STREAM -----------------------------------------------------------------------------------------

    def _parse_create_stream(self) -> Any:
        if not self._match_text_seq("STREAM"):
            self.refuse("only streams can be created: CREATE STREAM name (column TYPE, ...)")
        name = self._name("CREATE STREAM needs a name")
        if not self._match(TokenType.L_PAREN):
            self.refuse("CREATE STREAM needs its columns in parentheses: (column TYPE, ...)")
        columns = self._parse_csv(self._parse_stream_column)
        if not self._match(TokenType.R_PAREN):
            self.refuse("expected , or ) after a column")
        options: dict[str, Any] = {}
        while self._curr:
            start = self._curr
            key, value = self._parse_stream_option()
            if key in options:
                self.refuse(f"{start.text.upper()} is given twice", start)
            options[key] = value
        return self.expression(CreateStreamNode(this=name, expressions=columns, **options))

    def _parse_stream_column(self) -> Any:
        name = self._name("a column needs a name and a type")
        start = self._curr
        kind = self._parse_types(allow_identifiers=False)
        if kind is None:
            kinds = "BOOLEAN, BIGINT, DOUBLE, DECIMAL(p,s), TEXT, TIMESTAMP, DATE"
            problem = f"{start.text!r} is not a type" if start else "a type is missing here"
            self.refuse(problem, start or None, f"the types are {kinds}")
        kind.meta.setdefault("start", start.start)
        not_null = self._match_text_seq("NOT", "NULL")
        if not not_null:
            self._match(TokenType.NULL)
        if self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            self.refuse(f"{self._curr.text.upper()!r} is not known here; a column is: name TYPE [NOT NULL]")
        return self.expression(StreamColumn(this=name, kind=kind, not_null=not_null))

    def _parse_alter_stream(self) -> Any:
        if not self._match_text_seq("STREAM"):
            self.refuse("only streams can be altered: ALTER STREAM name ADD COLUMN column TYPE")
        name = self._name("ALTER STREAM needs a name")
        option = self._parse_altered_option()
        if option is not None:
            (key, value), example = option
            if self._curr:
                self.refuse(f"{example.partition(' ')[0]} stands alone: ALTER STREAM name {example}")
            return self.expression(AlterStreamNode(this=name, **{key: value}))
        lenient: list[str] = []
        columns = self._parse_csv(lambda: self._parse_added_column(lenient))
        return self.expression(AlterStreamNode(this=name, expressions=columns, lenient=lenient))

    def _parse_altered_option(self) -> tuple[tuple[str, Any], str] | None:
        """The option that an ALTER STREAM changes, with its value, and an example. None if it adds columns."""
        if self._match_text_seq("AHEAD", "DEFAULT"):
            return ("default_ahead", True), "AHEAD DEFAULT"
        if self._match_text_seq("AHEAD"):
            return ("ahead", self._parse_duration(_AHEAD_NEEDS)), "AHEAD 5 MINUTES"
        if self._match_text_seq("LATENESS"):
            return ("lateness", self._parse_duration(_LATENESS_NEEDS)), "LATENESS 5 SECONDS"
        if self._match_text_seq("WATERMARK"):
            return ("watermark", self._parse_watermark()), "WATERMARK BY CLOCK"
        return None

    def _parse_added_column(self, lenient: list[str]) -> Any:
        if not self._match_text_seq("ADD"):
            if self._curr and self._curr.text.upper() == "DROP":
                hint = "SELECT the columns that are wanted, or create another stream that has only those"
                self.refuse("columns cannot be dropped", hint=hint)
            allowed = "columns can be added, or LATENESS, AHEAD or WATERMARK BY be changed"
            self.refuse(f"{allowed}: ADD COLUMN column TYPE, LATENESS 5 SECONDS, AHEAD 5 MINUTES, WATERMARK BY CLOCK")
        self._match_text_seq("COLUMN")
        if_missing = self._match_text_seq("IF", "NOT", "EXISTS")
        column = self._parse_stream_column()
        if if_missing:
            lenient.append(column.this.name)
        return column

    def _parse_drop_stream(self) -> Any:
        if not self._match_text_seq("STREAM"):
            self.refuse("only streams can be dropped: DROP STREAM name")
        lenient = self._match_text_seq("IF", "EXISTS")
        name = self._name("DROP STREAM needs a name")
        cascade = self._match_text_seq("CASCADE")
        return self.expression(DropStreamNode(this=name, lenient=lenient, cascade=cascade))

    def _parse_stream_option(self) -> tuple[str, Any]:
        if self._match_text_seq("TIMESTAMP", "BY"):
            return "timestamp", self._name("TIMESTAMP BY needs a column")
        if self._match_text_seq("LATENESS"):
            return "lateness", self._parse_duration(_LATENESS_NEEDS)
        if self._match_text_seq("IDLE", "AFTER"):
            return "idle", self._parse_duration("IDLE AFTER needs a duration, as in IDLE AFTER 1 MINUTE")
        if self._match_text_seq("AHEAD"):
            return "ahead", self._parse_duration(_AHEAD_NEEDS)
        if self._match_text_seq("WATERMARK"):
            return "watermark", self._parse_watermark()
        if self._match_text_seq("RETENTION"):
            return "retention", self._parse_duration("RETENTION needs a duration or ROWS, as in RETENTION 7 DAYS")
        if self._match_text_seq("ARCHIVE"):
            return "archive", self._parse_duration("ARCHIVE needs a duration or ROWS, as in ARCHIVE 400 DAYS")
        options = "TIMESTAMP BY, LATENESS, WATERMARK BY, IDLE AFTER, AHEAD, RETENTION, ARCHIVE"
        self.refuse(f"expected {options} or the end")

    def _parse_watermark(self) -> Any:
        """The word after WATERMARK BY."""
        word = self._name(_WATERMARK_NEEDS) if self._match_text_seq("BY") else None
        if word is None or word.name.upper() not in ("CLOCK", "ROWS"):
            self.refuse(_WATERMARK_NEEDS, self._prev)
        return word

    def _name(self, problem: str) -> Any:
        if not self._curr:
            self.refuse(problem)
        name = None if self._curr.token_type in _CONSTANTS else self._parse_id_var(any_token=False)
        if name is None:
            word = f'; {self._curr.text!r} is a reserved word: quote it with ""' if self._curr.text.isalpha() else ""
            self.refuse(problem + word)
        return name


_WATERMARK_NEEDS = (
    "WATERMARK BY needs CLOCK or ROWS: the watermark of a live stream follows the clock, too, or only its rows"
)
_LATENESS_NEEDS = "LATENESS needs a duration, as in LATENESS 5 SECONDS"
_AHEAD_NEEDS = "AHEAD needs a duration, as in AHEAD 5 MINUTES"


class _Core(TokenizerCore):
    """The tokenizer's loop. It calls `may_rest` between tokens."""

    __slots__ = ()

    def _add(self, token_type: TokenType, text: str | None = None) -> None:
        if not len(self.tokens) % MOVES:
            may_rest()
        TokenizerCore._add(self, token_type, text)


class PSoup(Dialect):
    """The dialect: tokens of plain SQL with `//`, underscores in numbers, NULLs last."""

    NULL_ORDERING = "nulls_are_last"
    NUMBERS_CAN_BE_UNDERSCORE_SEPARATED = True

    class Tokenizer(tokens.Tokenizer):
        """The tokenizer of sqlglot, with `//`, and without hints, templates and pipes."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{
                word: kind
                for word, kind in tokens.Tokenizer.KEYWORDS.items()
                if word not in ("/*+", "DIV", "|>") and "{" not in word and "}" not in word
            },
            "//": TokenType.DIV,
        }

        def _init_core(self) -> TokenizerCore:
            core = super()._init_core()
            core.__class__ = _Core  # sqlglot has no option for the class of the core
            return core

    Parser = PSoupParser


def check_extensible(dialect: type[Dialect]) -> None:
    """Raise ImportError if Python has loaded the compiled build of sqlglot, whose classes cannot be extended.

    Python loads that build, the package sqlglotc, in every environment that has it.
    """
    try:
        dialect().parser()
    except TypeError as problem:
        raise ImportError(
            "PSoup extends the parser of sqlglot, and the compiled build of sqlglot cannot be extended; take it out of "
            "this environment: pip uninstall sqlglotc (the extra sqlglot[c] brings it)"
        ) from problem


check_extensible(PSoup)

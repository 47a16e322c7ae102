"""The dialect: sqlglot's SELECT with BEGIN and END as query modifiers, and the definitions of streams and tables.

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

from psoup.sql.parser.definitions import Definitions
from psoup.sql.parser.grammar import WINDOW_WORDS
from psoup.work.rest_points import MOVES, may_rest

Parsers = dict[Any, Callable[..., Any]]

_NO_NAMES = {*WINDOW_WORDS, TokenType.LIMIT, TokenType.OFFSET, TokenType.CASE, TokenType.DIV, TokenType.UNKNOWN}
"""Tokens that sqlglot also allows as names, such as `//`. This dialect does not."""


class PSoupParser(Definitions):
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
        TokenType.CREATE: lambda self: self._parse_creation(),
        TokenType.ALTER: lambda self: self._parse_alteration(),
        TokenType.DROP: lambda self: self._parse_dropping(),
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

"""The grammar: sqlglot's SELECT with BEGIN and END as query modifiers, and CREATE, ALTER and DROP STREAM.

    SELECT price FROM trades WHERE symbol = 'A' BEGIN (NOW - 15 MINUTES) END (NOW)
                                                └────── Bound ────────┘ └─ Bound ┘

Functions are kept as they are written (`exp.Anonymous`): the binder knows what they mean. sqlglot takes BEGIN and END
as names (`FROM s BEGIN` would give s an alias), so both are taken out of its identifier tokens here. It is also
lenient: a missing THEN, AND or list item passes silently; such places are made strict. Nothing here checks meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from psoup.sql.syntax import (
    AlterStreamNode,
    BoundNode,
    BoundsNode,
    CreateStreamNode,
    DropStreamNode,
    Duration,
    PlacedError,
    Refusal,
    StreamColumn,
    TooComplex,
)

Parsers = dict[Any, Callable[..., Any]]

_WINDOW_WORDS = {TokenType.BEGIN, TokenType.END}
_NO_NAMES = {*_WINDOW_WORDS, TokenType.LIMIT, TokenType.OFFSET, TokenType.CASE, TokenType.DIV, TokenType.UNKNOWN}
"""Tokens that sqlglot would also take as names; `//` and a stray backquote are among them."""

_CONSTANTS = {TokenType.TRUE, TokenType.FALSE, TokenType.NULL, TokenType.ALL, TokenType.INTERVAL}
"""Words that sqlglot takes as names where they are declared, but not where they are used."""

MAX_STEPS = 30
"""Moves over the text that the parser may make for each token. Statements take 1 to 4; a statement takes more if the
parser tries alternatives inside alternatives, whose number doubles with every level."""


class PSoupParser(parser.Parser):
    """The recursive-descent parser of `PSoup`."""

    ID_VAR_TOKENS = parser.Parser.ID_VAR_TOKENS - _NO_NAMES
    TABLE_ALIAS_TOKENS = parser.Parser.TABLE_ALIAS_TOKENS - _NO_NAMES
    ALIAS_TOKENS = parser.Parser.ALIAS_TOKENS - _NO_NAMES
    FUNC_TOKENS = parser.Parser.FUNC_TOKENS - _NO_NAMES
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[Parsers] = {
        name: parser.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "TRIM")
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

    _steps = 0

    def _advance(self, times: int = 1) -> None:
        super()._advance(times)
        self._steps += 1
        if self._steps > MAX_STEPS * (self._tokens_size + 10):
            raise TooComplex

    # sqlglot's own methods, made strict, and with places ----------------------------------------------------

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        """Stop at `token`, or at the current one."""
        if not token and self._curr:
            token = self._curr
        at = token.start if token else (self._prev.end + 1 if self._prev else 0)
        raise PlacedError(message, at)

    def refuse(self, message: str, token: Token | None = None, hint: str = "") -> NoReturn:
        """Stop at `token`, or at the current one, with a message for users; without a `hint`, a hint may be found."""
        try:
            self.raise_error(message, token)
        except PlacedError as problem:
            raise Refusal(message, problem.at, hint) from None

    def expression(self, instance: Any, token: Any = None, comments: Any = None) -> Any:
        """Note where the node is; nodes with parts are where their parts are."""
        if token is None and self._prev and next(instance.iter_expressions(), None) is None:
            token = self._prev
        return super().expression(instance, token, comments)

    def _parse_expression(self) -> Any:
        first = self._curr
        node = super()._parse_expression()
        if node is not None and first and self._prev:
            node.meta["span"] = (first.start, self._prev.end + 1)
        return node

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        first = parse_method()
        items = [] if first is None else [first]
        while self._match(sep):
            item = parse_method()
            if item is None and items and self._curr and self._curr.token_type in _AFTER_LISTS:
                break  # a comma at the end of a list is one too many, and says nothing
            if item is None or not items:
                self.refuse("an item of the list is missing here", self._curr if items else self._prev)
            items.append(item)
        return items

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> Any:
        """A typed literal first: `DATE '2020-1-2'::TEXT` is a TEXT, while sqlglot casts to TEXT and then to DATE."""
        index = self._index
        if self._curr and self._curr.token_type in self.TYPE_TOKENS and self._curr.token_type != TokenType.INTERVAL:
            kind = self._parse_types(check_func=True, allow_identifiers=False)
            if isinstance(kind, exp.DataType) and self._match(TokenType.STRING):
                text = self.expression(exp.Literal(this=self._prev.text, is_string=True), self._prev)
                return self._parse_column_ops(self.expression(exp.Cast(this=text, to=kind)))
            self._retreat(index)
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _parse_types(self, *args: Any, **options: Any) -> Any:
        first = self._curr
        node = super()._parse_types(*args, **options)
        if isinstance(node, exp.DataType) and first and self._prev:
            node.meta["span"] = (first.start, self._prev.end + 1)
        return node

    def _parse_limit(self, *args: Any, **options: Any) -> Any:
        node = super()._parse_limit(*args, **options)
        if isinstance(node, exp.Limit) and node.args.get("offset") is not None:
            self.refuse("LIMIT takes one number", self._prev, "write LIMIT n OFFSET m")
        return node

    def _parse_between(self, this: Any) -> Any:
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.refuse("BETWEEN needs AND between its two ends")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_case(self) -> Any:
        start = self._prev
        subject = self._parse_disjunction()
        branches, default = [], None
        while self._match(TokenType.WHEN):
            condition = self._parse_disjunction()
            if not self._match(TokenType.THEN):
                self.refuse("WHEN needs THEN")
            branches.append(self.expression(exp.If(this=condition, true=self._parse_disjunction())))
        if not branches:
            self.refuse("CASE needs WHEN ... THEN ...")
        if self._match(TokenType.ELSE):
            default = self._parse_disjunction()
            if default is None:
                self.refuse("ELSE needs a value")
        if not self._match(TokenType.END):
            self.refuse("CASE needs WHEN ... THEN ... and END")
        return self.expression(exp.Case(this=subject, ifs=branches, default=default), start)

    # Windows -----------------------------------------------------------------------------------------------

    def _parse_bounds(self) -> Any:
        """Parse a window clause on its own; BEGIN or END has been taken as the first word of a statement."""
        self._retreat(self._index - 1)
        begin = end = None
        if self._match(TokenType.BEGIN, advance=False):
            begin = self._parse_bound_after("BEGIN")
        if self._match(TokenType.END, advance=False):
            end = self._parse_bound_after("END")
        return self.expression(BoundsNode(begin=begin, end=end))

    def _parse_bound_after(self, word: str) -> Any:
        """Parse BEGIN or END (the current token) and its bound, in parentheses or not."""
        self._advance()
        opened = 0
        while self._match(TokenType.L_PAREN):
            opened += 1
        bound = self._parse_bound(word)
        while opened:
            if not self._match(TokenType.R_PAREN):
                self.refuse(f"expected ) after the {word} bound")
            opened -= 1
        return bound

    def _parse_bound(self, word: str) -> Any:
        first = self._curr
        if self._match_text_seq("START"):
            return self.expression(BoundNode(this="START"), first)
        if self._match_text_seq("NOW"):
            if self._match(TokenType.L_PAREN) and not self._match(TokenType.R_PAREN):
                self.refuse("expected )")
            back = None
            if self._match(TokenType.DASH):
                back = self._parse_duration(f"{word} (NOW - ...) needs a number of seconds, a time or ROWS")
            elif self._match(TokenType.PLUS):
                self.refuse("a bound cannot lie after NOW by an offset; give a TIMESTAMP", self._prev)
            return self.expression(BoundNode(this="NOW", back=back), first)
        for kind in ("TIMESTAMP", "DATE"):
            if self._match_text_seq(kind):
                if not self._match(TokenType.STRING):
                    self.refuse(f"{kind} needs a text, as in {kind} '2013-07-01'")
                return self.expression(BoundNode(this=kind, at=self._prev.text), first)
        if self._match(TokenType.NUMBER):
            return self.expression(BoundNode(this="NUMBER", at=self._prev.text), first)
        if self._match(TokenType.STRING, advance=False):
            self.refuse("a text is not a bound; write TIMESTAMP '...'")
        if self._match(TokenType.DASH, advance=False):
            self.refuse("a bound cannot be negative; write (NOW - n), or TIMESTAMP '...' for times before 1970")
        self.refuse(f"{word} needs (START), (NOW), (NOW - ...), TIMESTAMP '...' or a number of seconds")

    def _parse_duration(self, problem: str) -> Any:
        """Parse `n [unit]`, `INTERVAL 'n' unit`, `INTERVAL 'n unit'`."""
        interval = self._match(TokenType.INTERVAL)
        first = self._curr
        if self._match(TokenType.DASH, advance=False):
            self.refuse("a duration cannot be negative")
        if self._match(TokenType.NUMBER) or (interval and self._match(TokenType.STRING)):
            amount, _, unit = self._prev.text.strip().partition(" ")
            if not unit and self._curr and self._curr.text.isalpha() and self._curr.token_type not in _WINDOW_WORDS:
                index = self._index
                self._advance()
                unit = self._prev.text
                if interval is False and unit.upper() in _AFTER_DURATION:
                    self._retreat(index)
                    unit = ""
            return self.expression(Duration(this=amount, unit=unit.strip().upper()), first)
        self.refuse(problem)

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
            self.refuse(f"{start.text!r} is not a type" if start else "a type is missing here", start or None)
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
        if self._match_text_seq("AHEAD"):
            ahead = self._parse_duration(_AHEAD_NEEDS)
            if self._curr:
                self.refuse("AHEAD stands alone: ALTER STREAM name AHEAD 5 MINUTES")
            return self.expression(AlterStreamNode(this=name, ahead=ahead))
        lenient: list[str] = []
        columns = self._parse_csv(lambda: self._parse_added_column(lenient))
        return self.expression(AlterStreamNode(this=name, expressions=columns, lenient=lenient))

    def _parse_added_column(self, lenient: list[str]) -> Any:
        if not self._match_text_seq("ADD"):
            if self._curr and self._curr.text.upper() == "DROP":
                hint = "SELECT the columns that are wanted, or create another stream that has only those"
                self.refuse("columns cannot be dropped", hint=hint)
            self.refuse("columns can be added, or AHEAD be changed: ADD COLUMN column TYPE, or AHEAD 5 MINUTES")
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
        return self.expression(DropStreamNode(this=name, lenient=lenient))

    def _parse_stream_option(self) -> tuple[str, Any]:
        if self._match_text_seq("TIMESTAMP", "BY"):
            return "timestamp", self._name("TIMESTAMP BY needs a column")
        if self._match_text_seq("LATENESS"):
            return "lateness", self._parse_duration("LATENESS needs a duration, as in LATENESS 5 SECONDS")
        if self._match_text_seq("IDLE", "AFTER"):
            return "idle", self._parse_duration("IDLE AFTER needs a duration, as in IDLE AFTER 1 MINUTE")
        if self._match_text_seq("AHEAD"):
            return "ahead", self._parse_duration(_AHEAD_NEEDS)
        if self._match_text_seq("RETENTION"):
            return "retention", self._parse_duration("RETENTION needs a duration or ROWS, as in RETENTION 7 DAYS")
        if self._match_text_seq("ARCHIVE"):
            return "archive", self._parse_duration("ARCHIVE needs a duration or ROWS, as in ARCHIVE 400 DAYS")
        self.refuse("expected TIMESTAMP BY, LATENESS, IDLE AFTER, AHEAD, RETENTION, ARCHIVE or the end")

    def _name(self, problem: str) -> Any:
        if not self._curr:
            self.refuse(problem)
        name = None if self._curr.token_type in _CONSTANTS else self._parse_id_var(any_token=False)
        if name is None:
            word = f'; {self._curr.text!r} is a reserved word: quote it with ""' if self._curr.text.isalpha() else ""
            self.refuse(problem + word)
        return name


_AFTER_LISTS = frozenset({TokenType.FROM, TokenType.R_PAREN})
_AHEAD_NEEDS = "AHEAD needs a duration, as in AHEAD 5 MINUTES"
_AFTER_DURATION = frozenset(
    {"LATENESS", "IDLE", "AHEAD", "RETENTION", "ARCHIVE", "TIMESTAMP", "ORDER", "LIMIT", "WHERE"}
)
"""Words that follow a duration without a unit, so they are not its unit."""


class PSoup(Dialect):
    """The dialect: tokens of plain SQL with `//`, underscores in numbers, NULLs last."""

    NULL_ORDERING = "nulls_are_last"
    NUMBERS_CAN_BE_UNDERSCORE_SEPARATED = True

    class Tokenizer(tokens.Tokenizer):
        """The tokenizer of sqlglot, with `//`, and without hints, templates and pipes."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{
                word: kind
                for word, kind in tokens.Tokenizer.KEYWORDS.items()
                if word not in ("/*+", "DIV", "|>") and "{" not in word and "}" not in word
            },
            "//": TokenType.DIV,
        }

    Parser = PSoupParser

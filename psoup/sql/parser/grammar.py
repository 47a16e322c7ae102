"""The grammar of expressions and SELECT: a stricter form of sqlglot's, with places in its errors and nodes.

This grammar refuses a missing THEN, AND or list item, which sqlglot accepts. `psoup.sql.parser.window_grammar` has the
windows, and `psoup.sql.parser.dialect` the statements about streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot import exp, parser
from sqlglot.tokenizer_core import Token, TokenType

from psoup.sql.parser.from_first import FromFirst
from psoup.sql.parser.syntax import PlacedError, SyntaxRefusal, TooComplex
from psoup.work.rest_points import MOVES, may_rest

MAX_STEPS = 3
"""The most moves over the tokens that the parser may make for each token, beside `SPARE_STEPS`. Most make 1 to 2.8.

A statement takes more if the parser tries alternatives inside alternatives. Each level doubles their number. A move
takes up to 40 us then. So a text of 64 KiB with more moves for each token would take seconds.
"""

SPARE_STEPS = 1_000
"""Moves that any statement may make beside those for its tokens, so that short ones may try alternatives."""

_INTERVAL_CHARACTERS = 64
"""The most characters of the text of an INTERVAL. An INTERVAL in range has 40 at most."""

EXTENT = "extent"
"""The key in a node's `meta` for the extent of the node in the text: its first offset, and the offset after it.

In a join, each condition under AND has it.
"""

WINDOW_WORDS = frozenset({TokenType.BEGIN, TokenType.END})

_AFTER_LISTS = frozenset({TokenType.FROM, TokenType.R_PAREN})


class Grammar(FromFirst):
    """The parser of the parts of a SELECT."""

    _steps = 0
    _joined = False
    """Whether FROM has several sources. If so, the parser records the extent of each condition under AND."""

    def _advance(self, times: int = 1) -> None:
        parser.Parser._advance(self, times)
        self._steps += 1
        if not self._steps % MOVES:
            may_rest()
            if self._steps > MAX_STEPS * self._tokens_size + SPARE_STEPS:
                raise TooComplex

    # sqlglot's methods, made strict, and with places --------------------------------------------------------

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise the error at `token`, or at the current token."""
        if not token and self._curr:
            token = self._curr
        at = token.start if token else (self._prev.end + 1 if self._prev else 0)
        raise PlacedError(message, at)

    def refuse(self, message: str, token: Token | None = None, hint: str = "") -> NoReturn:
        """Raise an error with a message for users, at `token` or at the current token.

        Without a `hint`, `psoup.sql.elsewhere.advice` may add one.
        """
        try:
            self.raise_error(message, token)
        except PlacedError as problem:
            raise SyntaxRefusal(message, problem.at, hint) from None

    def _parse_interval_span(self, this: Any, parse_function_unit: bool = True) -> Any:
        """Refuse a number that is too long to be in range. sqlglot's time for it grows with the square of its
        length."""
        if this and this.is_string and len(this.name) > _INTERVAL_CHARACTERS:
            self.refuse(f"INTERVAL {this.name.strip()[:40]} is out of range", self._prev)
        return super()._parse_interval_span(this, parse_function_unit)

    def expression(self, instance: Any, token: Any = None, comments: Any = None) -> Any:
        """Record the place of a node without children. A node with children has the places of these."""
        if token is None and self._prev and next(instance.iter_expressions(), None) is None:
            token = self._prev
        return super().expression(instance, token, comments)

    def _parse_expression(self) -> Any:
        first = self._curr
        node = super()._parse_expression()
        if node is not None and first and self._prev:
            node.meta["span"] = (first.start, self._prev.end + 1)
        return node

    def _parse_conjunction(self) -> Any:
        first, joined = self._curr, self._joined
        node = self.quantified(self._parse_equality())
        if joined:
            self._note_extent(node, first)
        while self._match_set(self.CONJUNCTION):
            kind, first = self.CONJUNCTION[self._prev.token_type], self._curr
            other = self.quantified(self._parse_equality())
            if joined:
                self._note_extent(other, first)
            node = self.expression(kind(this=node, expression=other))
        return node

    def _parse_disjunction(self) -> Any:
        first = self._curr
        node = self._parse_conjunction()
        while self._match_set(self.DISJUNCTION):
            kind = self.DISJUNCTION[self._prev.token_type]
            node = self.expression(kind(this=node, expression=self._parse_conjunction()))
        if self._joined:
            self._note_extent(node, first)
        return node

    def quantified(self, node: Any) -> Any:
        """A comparison of a value with a quantified query in another form."""
        return node

    def _note_extent(self, node: Any, first: Token | None) -> None:
        if node is not None and first and self._prev:
            node.meta[EXTENT] = (first.start, self._prev.end + 1)

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        first = parse_method()
        items = [] if first is None else [first]
        while self._match(sep):
            item = parse_method()
            if item is None and items and self._curr and self._curr.token_type in _AFTER_LISTS:
                break  # a comma after the last item of a list is ignored
            if item is None or not items:
                self.refuse("an item of the list is missing here", self._curr if items else self._prev)
            items.append(item)
        return items

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> Any:
        """Parse a typed literal before a cast: `DATE '2020-1-2'::TEXT` is a TEXT.

        sqlglot would cast the text to TEXT, and the result to DATE.
        """
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
        fetch = self._curr
        node = super()._parse_limit(*args, **options)
        if isinstance(node, exp.Fetch):
            return self._limit_of_fetch(node, fetch)
        if isinstance(node, exp.Limit) and (skip := node.args.get("offset")) is not None:
            way = f"LIMIT {node.expression.name} OFFSET {skip.name}" if skip.name else "LIMIT n OFFSET m"
            self.refuse("LIMIT takes one number", self._prev, f"write {way}")
        return node

    def _limit_of_fetch(self, node: Any, first: Any) -> Any:
        """Convert FETCH FIRST n ROWS ONLY to LIMIT n. Without a number, n is 1."""
        options = node.args.get("limit_options")
        if self._prev.text.upper() != "ONLY" or options is None or options.args.get("with_ties"):
            self.refuse("FETCH needs the form FETCH FIRST n ROWS ONLY", first, "write LIMIT n")
        if options.args.get("percent"):
            self.refuse("FETCH takes a number of rows", first, "write LIMIT n")
        count = node.args.get("count") or self.expression(exp.Literal(this="1", is_string=False), first)
        return self.expression(exp.Limit(expression=count), first)

    def _parse_window_spec(self) -> Any:
        """Refuse a frame with BETWEEN and one end, which sqlglot takes."""
        between = self._prev is not None and self._prev.token_type is TokenType.BETWEEN
        end = super()._parse_window_spec()
        if between and not self._match(TokenType.AND, advance=False):
            self.refuse("a frame with BETWEEN needs AND between its two ends")
        return end

    def _parse_value(self, values: bool = True) -> Any:
        """Refuse DISTINCT ON without parentheses. sqlglot parses its keys as a row of values."""
        if not values and not self._match(TokenType.L_PAREN, advance=False):
            self.refuse("DISTINCT ON needs its keys in parentheses", hint="write DISTINCT ON (k), or DISTINCT")
        return super()._parse_value(values)

    def _parse_using_identifiers(self) -> Any:
        """Refuse USING (t.a), because sqlglot would drop the t."""
        first = self._index
        names = super()._parse_using_identifiers()
        for token, following in zip(self._tokens[first : self._index], self._tokens[first + 1 :], strict=False):
            if following.token_type is TokenType.DOT:
                way = "USING (k) names a column of both sides; other conditions follow ON: ON a.k = b.k"
                self.refuse(f"a column in USING has no source before it, as {token.text[:40]!r} is here", token, way)
        return names

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

    # FROM --------------------------------------------------------------------------------------------------

    def _parse_join(self, *args: Any, **options: Any) -> Any:
        """Parse a join. This method parses the table after a comma itself, so that errors have their place."""
        self._joined = True
        if self._match(TokenType.COMMA):
            return self.expression(exp.Join(this=self._parse_table()))
        return super()._parse_join(*args, **options)

"""The grammar of an item of FROM: the window in brackets and AS OF after its name, and BEGIN and END.

    FROM flights f [RANGE 1 DAY], weather w [PARTITION BY city ROWS 10] …
                   └─ BoundsNode ┘          └────── BoundsNode ───────┘
    … BEGIN (NOW - 15 MINUTES) END (NOW)
      └──────── Bound ───────┘ └ Bound ┘

WHERE is the last part of a window in brackets.
"""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from psoup.sql.parser.grammar import EXTENT, WINDOW_WORDS, Grammar
from psoup.sql.parser.syntax import BoundNode, BoundsNode, Duration

_WINDOW_NEEDS = (
    "a window in brackets is [RANGE 1 HOUR], [ROWS 100], [NOW], [UNBOUNDED], [BEGIN … END …] or"
    " [PARTITION BY k ROWS 10]"
)
_PER_KEY = "the window of the last rows of each key is [PARTITION BY k ROWS 10]"
_INNER_WHERE = "the last fifty tuples that satisfy a condition are [ROWS 50 WHERE price > 10]"
_LENGTHS = {
    "RANGE": "RANGE needs a duration, as in [RANGE 1 HOUR], or UNBOUNDED",
    "ROWS": "ROWS needs a number, as in [ROWS 100], or UNBOUNDED",
}
_AFTER_DURATION = frozenset(
    {
        "LATENESS",
        "IDLE",
        "AHEAD",
        "RETENTION",
        "ARCHIVE",
        "TIMESTAMP",
        "HISTORY",
        "DELETED",
        "FIRST",
        "EXPIRES",
        "ORDER",
        "LIMIT",
        "WHERE",
    }
)
"""Words that may follow a duration without a unit. The parser does not read them as a unit."""


class WindowGrammar(Grammar):
    """The parser of windows."""

    def _parse_table_parts(self, *args: Any, **options: Any) -> Any:
        return self._with_window(self._with_as_of(super()._parse_table_parts(*args, **options)))

    def _parse_table_alias(self, *args: Any, **options: Any) -> Any:
        return self._with_window(self._with_as_of(super()._parse_table_alias(*args, **options)))

    def _with_as_of(self, node: Any) -> Any:
        """Parse AS OF with the name of a stream, after a table or after its alias."""
        while node is not None and self._begins_as_of():
            if node.args.get("as_of") is not None:
                self.refuse("a table has one AS OF", hint="write JOIN t AS OF s ON t.k = s.k")
            self._advance(2)
            node.set("as_of", self._parse_id_var(any_token=False))
        return node

    def _begins_as_of(self) -> bool:
        """Whether AS OF and a name follow. The OF of `AS of ON …` is an alias."""
        following = self._tokens[self._index : self._index + 3]
        if len(following) < 3 or following[0].token_type is not TokenType.ALIAS or following[1].text.upper() != "OF":
            return False
        name = following[2].token_type
        return name in self.TABLE_ALIAS_TOKENS and name not in WINDOW_WORDS and following[1].token_type is TokenType.VAR

    def _with_window(self, node: Any) -> Any:
        """Parse a window in brackets after a stream, or after its alias."""
        if node is not None and self._match(TokenType.L_BRACKET):
            node.set("window", self._parse_bracketed(self._prev))
        return node

    def _parse_bracketed(self, opening: Any) -> Any:
        """Parse `RANGE 1 HOUR]`, `ROWS 100]`, `NOW]`, `UNBOUNDED]`, `BEGIN … END …]` or `PARTITION BY k ROWS 10]`."""
        begin: Any = None
        end: Any = None
        if self._match(TokenType.PARTITION_BY):
            return self._parse_partitioned(opening)
        if self._match_text_seq("UNBOUNDED"):
            self._match_text_seq("PRECEDING")
        elif self._match_text_seq("NOW"):
            begin = end = self.expression(BoundNode(this="NOW"), self._prev)
        elif self._match_text_seq("RANGE") or self._match_text_seq("ROWS"):
            word = self._prev.text.upper()
            if not self._match_text_seq("UNBOUNDED"):
                begin = self._parse_extent(word)
            self._match_text_seq("PRECEDING")
        elif self._curr and self._curr.token_type in WINDOW_WORDS:
            if self._match(TokenType.BEGIN, advance=False):
                begin = self._parse_bound_after("BEGIN")
            if self._match(TokenType.END, advance=False):
                end = self._parse_bound_after("END")
        elif self._match(TokenType.WHERE, advance=False):
            self.refuse("WHERE is the last part of a window in brackets", hint=_INNER_WHERE)
        else:
            self.refuse(_WINDOW_NEEDS)
        where = self._close_bracket(_WINDOW_NEEDS)
        return self.expression(BoundsNode(begin=begin, end=end, where=where), opening)

    def _close_bracket(self, hint: str) -> Any:
        """Parse ] after a window, and WHERE before it. Returns the condition of WHERE, or None."""
        where = None
        if self._match(TokenType.WHERE):
            self._joined, first = True, self._curr
            where = self._parse_disjunction()
            if where is None or first is None:
                self.refuse("WHERE needs a condition", hint=_INNER_WHERE)
            where.meta[EXTENT] = (first.start, self._prev.end + 1)
        if not self._match(TokenType.R_BRACKET):
            self.refuse("expected ] after the window", hint=hint)
        return where

    def _parse_partitioned(self, opening: Any) -> Any:
        """Parse `k, j ROWS 10]`, which follows PARTITION BY."""
        keys = self._parse_csv(self._parse_disjunction)
        if not keys or None in keys:
            self.refuse("PARTITION BY needs a column", hint=_PER_KEY)
        if self._match_text_seq("RANGE", advance=False):
            self.refuse("PARTITION BY takes ROWS, not RANGE: a window of time is the same for all keys", hint=_PER_KEY)
        if not self._match_text_seq("ROWS"):
            self.refuse("PARTITION BY in brackets needs ROWS and a number", hint=_PER_KEY)
        rows = self._parse_extent("ROWS", f"ROWS needs a number: {_PER_KEY}").args["back"]
        self._match_text_seq("PRECEDING")
        where = self._close_bracket(_PER_KEY)
        return self.expression(BoundsNode(partition=keys, rows=rows, where=where), opening)

    def _parse_extent(self, word: str, problem: str = "") -> Any:
        """Parse the length in `RANGE 1 HOUR` or `ROWS 100` as a bound. `problem`: the error if there is none."""
        first = self._curr
        back = self._parse_duration(problem or _LENGTHS[word])
        if back.args.get("unit") == "PRECEDING":
            back.set("unit", "")
        if word == "ROWS":
            if back.args.get("unit"):
                self.refuse("ROWS needs a number alone, as in [ROWS 100]", first)
            back.set("unit", "ROWS")
        elif back.args.get("unit") in ("ROW", "ROWS"):
            self.refuse("RANGE needs a duration; write [ROWS 100]", first)
        return self.expression(BoundNode(this="NOW", back=back), first)

    # Windows -----------------------------------------------------------------------------------------------

    def _parse_bounds(self) -> Any:
        """Parse a window clause without a SELECT. The parser has already passed its first word, BEGIN or END."""
        self._retreat(self._index - 1)
        begin = end = None
        if self._match(TokenType.BEGIN, advance=False):
            begin = self._parse_bound_after("BEGIN")
        if self._match(TokenType.END, advance=False):
            end = self._parse_bound_after("END")
        return self.expression(BoundsNode(begin=begin, end=end))

    def _parse_bound_after(self, word: str) -> Any:
        """Parse the current token, BEGIN or END, and its bound. The bound may be in parentheses."""
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
            self.refuse("a duration or a number of rows cannot be negative")
        if self._match(TokenType.NUMBER) or (interval and self._match(TokenType.STRING)):
            amount, _, unit = self._prev.text.strip().partition(" ")
            if not unit and self._curr and self._curr.text.isalpha() and self._curr.token_type not in WINDOW_WORDS:
                index = self._index
                self._advance()
                unit = self._prev.text
                if interval is False and unit.upper() in _AFTER_DURATION:
                    self._retreat(index)
                    unit = ""
            return self.expression(Duration(this=amount, unit=unit.strip().upper()), first)
        self.refuse(problem)

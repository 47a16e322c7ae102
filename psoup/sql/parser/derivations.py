"""The grammar of CREATE STREAM … AS: a stream that the service derives from other streams.

    CREATE STREAM x (a, b) AS ISTREAM (SELECT d.k, t.v FROM d JOIN t ON …) EVERY 1 MINUTE FROM NOW RETENTION 7 DAYS
                    └names┘   operator └──────────── text ──────────────┘ └────────────── options ──────────────┘

The parser keeps the place of the SELECT in the statement. `psoup.sql.derivation` reads the SELECT itself, and
`psoup.sql.derive_options` the options.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from psoup.sql.parser.compositions import Compositions
from psoup.sql.parser.syntax import DeriveNode

_CONSTANTS = {TokenType.TRUE, TokenType.FALSE, TokenType.NULL, TokenType.ALL, TokenType.INTERVAL}
"""Words that sqlglot refuses as names in expressions, but allows as names in declarations."""

_OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM")
_FORM = "CREATE STREAM name AS (SELECT …)"
_OPTIONS = "EVERY, FROM START, FROM NOW, LAG AT MOST, STATE AT MOST, RETENTION, ARCHIVE"
_EVERY_NEEDS = "EVERY needs a duration, as in EVERY 1 MINUTE"
_LAG_NEEDS = "LAG AT MOST needs a duration, as in LAG AT MOST 1 DAY"
_STATE_NEEDS = "STATE AT MOST needs a size in MB, as in STATE AT MOST 64 MB"


class Derivations(Compositions):
    """The parser of derived streams."""

    def _derives(self) -> bool:
        """Whether AS follows, perhaps after names of columns without types."""
        if not self._curr or self._curr.token_type is not TokenType.L_PAREN:
            return bool(self._curr) and self._curr.token_type is TokenType.ALIAS
        rest = self._tokens[self._index :]
        closing = next((at for at, token in enumerate(rest) if token.token_type is TokenType.R_PAREN), len(rest))
        return closing + 1 < len(rest) and rest[closing + 1].token_type is TokenType.ALIAS

    def _parse_derivation(self, name: Any, *, table: bool) -> Any:
        if table:
            hint = "write CREATE STREAM x AS (SELECT …), then CREATE TABLE t FROM STREAM x PRIMARY KEY (…)"
            self.refuse("a table cannot be derived by a SELECT", hint=hint)
        names = []
        if self._match(TokenType.L_PAREN):
            names = self._parse_csv(lambda: self._name(f"a column needs a name: {_FORM}"))
            if not self._match(TokenType.R_PAREN):
                hint = "write CREATE STREAM name (a, b) AS (SELECT …)"
                self.refuse("a derived stream has names of columns without types: the SELECT has the types", hint=hint)
        self._match(TokenType.ALIAS)
        options: dict[str, Any] = {}
        if self._curr and self._curr.text.upper() in _OPERATORS:
            options["operator"] = self.expression(exp.Identifier(this=self._curr.text.upper()), self._curr)
            self._advance()
        start, end = self._skip_select()
        while self._curr:
            at = self._curr
            key, value = self._parse_derive_option()
            if key in options:
                self.refuse(f"{at.text.upper()} is given twice", at)
            options[key] = value
        return self.expression(DeriveNode(this=name, expressions=names, start=start, end=end, **options))

    def _skip_select(self) -> tuple[int, int]:
        """Skip the SELECT in parentheses. Returns the offsets of its text in the statement."""
        if not self._match(TokenType.L_PAREN):
            hint = "only ISTREAM, DSTREAM or RSTREAM may stand before the parentheses"
            self.refuse(f"the SELECT of a derived stream stands in parentheses: {_FORM}", hint=hint)
        start, depth = self._prev.end + 1, 1
        while self._curr:
            depth += (self._curr.token_type is TokenType.L_PAREN) - (self._curr.token_type is TokenType.R_PAREN)
            if not depth:
                end = self._curr.start
                self._advance()
                return start, end
            self._advance()
        self.refuse("the parenthesis around the SELECT is not closed", hint=f"write {_FORM}")

    def _parse_derive_option(self) -> tuple[str, Any]:
        if self._match(TokenType.FROM):
            word = self._curr.text.upper() if self._curr else ""
            if word not in ("START", "NOW"):
                self.refuse("FROM needs START or NOW: from all tuples that the sources keep, or only from later ones")
            self._advance()
            return "begins", word
        if self._match_text_seq("RETENTION"):
            return "retention", self._parse_duration("RETENTION needs a duration or ROWS, as in RETENTION 7 DAYS")
        if self._match_text_seq("ARCHIVE"):
            return "archive", self._parse_duration("ARCHIVE needs a duration or ROWS, as in ARCHIVE 400 DAYS")
        if self._match_text_seq("EVERY"):
            return "every", self._parse_duration(_EVERY_NEEDS)
        if self._match_text_seq("LAG"):
            return "lag", self._parse_at_most(_LAG_NEEDS)
        if self._match_text_seq("STATE"):
            return "state", self._parse_at_most(_STATE_NEEDS)
        if self._curr.text.upper() == "BY":
            hint = "leave BY JOB out: the service derives the stream itself"
            self.refuse("BY JOB is not supported yet for derived streams", hint=hint)
        self.refuse(f"expected {_OPTIONS} or the end")

    def _parse_at_most(self, problem: str) -> Any:
        """AT MOST and an amount with a unit."""
        if not self._match_text_seq("AT", "MOST"):
            self.refuse(problem)
        return self._parse_duration(problem)

    def _name(self, problem: str) -> Any:
        if not self._curr:
            self.refuse(problem)
        name = None if self._curr.token_type in _CONSTANTS else self._parse_id_var(any_token=False)
        if name is None:
            word = f'; {self._curr.text!r} is a reserved word: quote it with ""' if self._curr.text.isalpha() else ""
            self.refuse(problem + word)
        return name

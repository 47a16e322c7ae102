"""The grammar of statements with other statements inside: subselects, set operations, WITH, VALUES, and all joins.

    SELECT a FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.k = s.k) UNION SELECT b FROM q BEGIN (NOW - 1 HOUR)
                                 └─────────── Select ───────────┘                         └─ of the Union ──┘

A query is a Select, a SetOperation, a Values, or a Subquery, which is a query in parentheses. Each query knows its
place in the text: `start` of its `meta`. `psoup.sql.composed.shapes` lists the shapes of the trees.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp, parser
from sqlglot.tokenizer_core import Token, TokenType

from psoup.sql.parser.window_grammar import WindowGrammar

OPERATOR = "operator"
"""The key in the `meta` of a set operation for the offset of its operator: UNION, INTERSECT or EXCEPT."""

COMMA = "comma"
"""The key in the `meta` of a Join for a comma in FROM. A comma binds less tightly than JOIN."""


_WITHIN: dict[type[exp.Expr], type[exp.Expr]] = {exp.EQ: exp.Any, exp.NEQ: exp.All}
"""Comparisons, each with the quantifier that makes it IN or NOT IN."""


class Compositions(WindowGrammar):
    """The parser of queries inside of queries."""

    SET_OP_MODIFIERS: ClassVar[set[str]] = parser.Parser.SET_OP_MODIFIERS | {"begin", "end"}

    def _parse_query(self) -> Any:
        """Parse a SELECT, a set operation or VALUES, perhaps in parentheses. Returns None if there is none."""
        query = self._parse_select(nested=True, parse_subquery_alias=False)
        return self._parse_query_modifiers(self._parse_set_operations(query))

    def _parse_select_query(self, *args: Any, **options: Any) -> Any:
        first = self._curr
        node = super()._parse_select_query(*args, **options)
        if first and first.start:  # an error about the whole statement is about its first column
            self._place(node, first)
        return node

    def _parse_subquery(self, this: Any, parse_alias: bool = True) -> Any:
        """Parse what follows a query in parentheses: in FROM, a window in brackets before or after the alias."""
        opening = self._curr
        window = None
        if parse_alias and this is not None and self._match(TokenType.L_BRACKET):
            window = self._parse_bracketed(opening)
        node = super()._parse_subquery(this, parse_alias)
        if node is not None and "start" in this.meta:
            node.meta["start"] = this.meta["start"]
        if node is not None and window is not None:
            node.set("window", window)
        return node

    def _parse_existence(self) -> Any:
        """Parse the query of EXISTS. The parser has already passed the opening parenthesis."""
        word = self._tokens[self._index - 2]
        query = self._parse_query()
        if query is None:
            self.refuse("EXISTS needs a SELECT in parentheses", word)
        return self.expression(exp.Exists(this=query), word)

    def _parse_in(self, *args: Any, **options: Any) -> Any:
        """Parse a list or a query after IN. VALUES are a query, too."""
        first = self._curr
        node = super()._parse_in(*args, **options)
        items = node.expressions
        if len(items) == 1 and isinstance(items[0], exp.Values):
            node.set("expressions", None)
            node.set("query", self.expression(exp.Subquery(this=items[0])))
        if node.args.get("query") is not None:
            self._place(node.args["query"], first)
        return node

    def quantified(self, node: Any) -> Any:
        """The comparison `x = ANY (SELECT …)` as IN, and `x <> ALL (SELECT …)` as NOT IN. Other nodes stay the same."""
        if type(node) not in _WITHIN or type(node.expression) is not _WITHIN[type(node)]:
            return node
        query = node.expression.this
        if not isinstance(query, exp.Query):
            return node
        if not isinstance(query, exp.Subquery):
            query = self.expression(exp.Subquery(this=query))
        member = self.expression(exp.In(this=node.this, query=query))
        return member if isinstance(node, exp.EQ) else self.expression(exp.Not(this=member))

    def _values_to_select(self, values: exp.Values) -> Any:
        """VALUES are a query: sqlglot would write SELECT * FROM VALUES here."""
        return values

    def parse_set_operation(self, *args: Any, **options: Any) -> Any:
        """Parse an operator of sets and the query after it. Returns None if there is no operator."""
        first = self._curr
        node = super().parse_set_operation(*args, **options)
        if node is not None:
            node.meta[OPERATOR] = first.start
        return node

    def _parse_join(self, *args: Any, **options: Any) -> Any:
        comma = bool(self._curr) and self._curr.token_type is TokenType.COMMA
        node = super()._parse_join(*args, **options)
        if comma and node is not None:
            node.meta[COMMA] = True
        return node

    def _parse_table_alias(self, *args: Any, **options: Any) -> Any:
        if self._curr and self._curr.text.upper() == "POSITIONAL" and self._next and self._next.text.upper() == "JOIN":
            self.refuse("POSITIONAL JOIN is not supported")  # it would be the alias of a cross join
        return super()._parse_table_alias(*args, **options)

    def _place(self, node: Any, first: Token | None) -> None:
        """Record the place of a query whose first token is `first`."""
        if node is None or not first:
            return
        node.meta["start"] = first.start
        if self._prev:
            node.meta["span"] = (first.start, self._prev.end + 1)

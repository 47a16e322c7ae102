"""FROM before SELECT, as DuckDB takes it: `FROM s SELECT a WHERE b > 1`, and `FROM s` for `SELECT * FROM s`.

sqlglot keeps the joins of such a FROM in the node of its first stream. Elsewhere joins in that node mean a join in
parentheses. So this parser keeps them apart, and gives them to the SELECT.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp, parser

_JOINS = "joins"
"""The key in a node's `meta` for the joins of a FROM before SELECT."""


class FromFirst(parser.Parser):
    """A parser of SELECTs that may begin with FROM."""

    def _parse_from(self, joins: bool = False, skip_from_token: bool = False, consume_pipe: bool = False) -> Any:
        node = super()._parse_from(skip_from_token=skip_from_token)
        if joins and node is not None:
            node.this.meta[_JOINS] = list(iter(self._parse_join, None))
        return node

    def _parse_query_modifiers(self, this: Any) -> Any:
        origin = this.args.get("from_") if isinstance(this, exp.Select) else None
        if origin is not None and (joins := origin.this.meta.pop(_JOINS, None)):
            this.set("joins", joins)
        return super()._parse_query_modifiers(this)

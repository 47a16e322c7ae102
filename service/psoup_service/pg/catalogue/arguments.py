"""Arguments of a statement over the catalogue: each becomes a constant in the tree of the statement.

$1 = Argument(b"{1,2}", TEXT, 1028)  ─>  CAST(['1', '2'] AS UINTEGER[])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from psoup.errors import InvalidInput
from psoup_service.pg.catalogue.casts import elements_of
from psoup_service.pg.catalogue.long_lists import FIRST
from psoup_service.pg.catalogue.types import REGISTERED, by_oid, is_array, oid_of, storage_of
from psoup_service.pg.contract import TEXT, Argument
from psoup_service.pg.values.arguments import argument_value
from psoup_service.pg.values.texts import text_of


def supplied(
    tree: exp.Expression, kinds: Sequence[str], arguments: Sequence[Argument], lists: Sequence[Sequence[str]] = ()
) -> exp.Expression:
    """A copy of the tree with constants in the places of its parameters. Raises InvalidInput.

    `lists`: the long lists of the statement, of digits, or of "$" and the number of a parameter.
    """
    if not kinds:
        return tree
    if len(arguments) < len(kinds):
        raise InvalidInput(
            f"the statement has {len(kinds)} parameters, and {len(arguments)} values came", reason="PROTOCOL"
        )
    constants = [_constant(argument, at + 1, kinds[at]) for at, argument in enumerate(arguments[: len(kinds)])]

    def replaced(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Parameter):
            return node
        number = int(node.name)
        return constants[number - 1].copy() if number < FIRST else _listed(lists[number - FIRST], arguments)

    return tree.transform(replaced)


def _listed(items: Sequence[str], arguments: Sequence[Argument]) -> exp.Expression:
    """The values of a long list as the text of an array of numbers."""
    values = list[str]()
    for item in items:
        if item.startswith("$"):
            argument = arguments[int(item[1:]) - 1]
            values.append("NULL" if argument.raw is None else str(int(argument_value(argument, int(item[1:]), 20))))
        else:
            values.append(item)
    return exp.Literal.string(f"[{','.join(values)}]")


def _constant(argument: Argument, number: int, kind: str) -> exp.Expression:
    type_sent = by_oid().get(argument.oid)
    kind = type_sent.name if type_sent is not None else kind or "text"
    if kind in REGISTERED and argument.raw is not None:
        return exp.Anonymous(this=f"f_to_{kind}", expressions=[_written(argument, number, "text")])
    to = exp.DataType.build(storage_of(kind), dialect="duckdb")
    if argument.raw is None:
        return exp.Cast(this=exp.Null(), to=to)
    return exp.Cast(this=_written(argument, number, kind), to=to)


def _written(argument: Argument, number: int, kind: str) -> exp.Expression:
    """The value as a text constant, or as an array of them."""
    if argument.format == TEXT:
        text = argument_value(Argument(argument.raw, TEXT, 25), number)
        items = elements_of(text) if is_array(kind) else None
        if is_array(kind) and items is None:
            raise InvalidInput(f'malformed array literal: "{text[:60]}" (parameter ${number})', reason="INVALID_TEXT")
        return exp.Literal.string(text) if items is None else _array(items)
    value: Any = argument_value(argument, number, oid_of(kind))
    if isinstance(value, list):
        return _array([None if item is None else str(item) for item in value])
    return exp.Literal.string(text_of(oid_of(kind))(value).decode())


def _array(items: Sequence[str | None]) -> exp.Expression:
    return exp.Array(expressions=[exp.Null() if item is None else exp.Literal.string(item) for item in items])

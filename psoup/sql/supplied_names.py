"""Names of supplied functions: those that statements can call, and nothing else in SQL has."""

from __future__ import annotations

from collections.abc import Iterable

from psoup.errors import InvalidInput, PSoupError
from psoup.expressions import supplied
from psoup.expressions.functions import FUNCTIONS
from psoup.expressions.supplied import Signature, Supplied
from psoup.model import Attribute, Schema, StreamSpec
from psoup.sql.statement import standing_query


def make_known(functions: Iterable[Supplied]) -> None:
    """Make the functions those that the statements of this process may call, instead of those before.

    Raises InvalidInput, reason FUNCTIONS, for a name that means something else, or that two of them have.
    """
    known = tuple(functions)
    for function in known:
        _check_name(function.signature)
    supplied.install(known)


def _check_name(signature: Signature) -> None:
    """Refuse a name unless a statement that calls it is bound to the function."""
    columns = tuple(Attribute(f"c{place}", kind) for place, kind in enumerate(signature.arguments))
    spec = StreamSpec("s", Schema(columns))
    text = f"SELECT {signature.name}({', '.join(column.name for column in columns)}) AS x FROM s"
    try:
        with supplied.declared([str(signature)]):
            query = standing_query(text, lambda name: spec)
        bound = any(supplied.calls_supplied(output.expr) for output in query.select)
    except PSoupError:
        bound = False
    if not bound or signature.name in FUNCTIONS:
        raise InvalidInput(
            f"{signature.name} has a meaning in SQL already; give the function another name", reason="FUNCTIONS"
        )

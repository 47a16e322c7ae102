"""Names of an operator's functions. This module checks that SQL gives no other meaning to a name, and installs them."""

from __future__ import annotations

from collections.abc import Iterable

from psoup.errors import InvalidInput, PSoupError
from psoup.expressions import supplied_functions
from psoup.expressions.functions import FUNCTIONS
from psoup.expressions.supplied_functions import Signature, Supplied
from psoup.model import Attribute, Schema, StreamSpec
from psoup.sql.statement import standing_query


def make_known(functions: Iterable[Supplied]) -> None:
    """Install the supplied functions, so that statements of this process can call them. They replace earlier ones.

    Raises InvalidInput, reason FUNCTIONS, for a name with another meaning in SQL, or for the same name twice.
    """
    installed = tuple(functions)
    for function in installed:
        _check_name(function.signature)
    supplied_functions.install(installed)


def _check_name(signature: Signature) -> None:
    """Raise InvalidInput unless a statement that calls the name is bound to the function."""
    columns = tuple(Attribute(f"c{place}", kind) for place, kind in enumerate(signature.arguments))
    spec = StreamSpec("s", Schema(columns))
    text = f"SELECT {signature.name}({', '.join(column.name for column in columns)}) AS x FROM s"
    try:
        with supplied_functions.declared([str(signature)]):
            query = standing_query(text, lambda name: spec)
        bound = any(supplied_functions.calls_supplied(output.expr) for output in query.select)
    except PSoupError:
        bound = False
    if not bound or signature.name in FUNCTIONS:
        raise InvalidInput(
            f"{signature.name} has a meaning in SQL already; give the function another name", reason="FUNCTIONS"
        )

"""Refusals of functions by name: missing aggregates, volatile functions, and unknown functions.

SELECT to_char(at) FROM trades   ->   there is no function 'to_char'
                                      hint: write strftime(t, '%Y-%m-%d %H:%M:%S')
"""

from __future__ import annotations

from psoup.expressions import functions
from psoup.plan.over import WINDOW_FUNCTIONS
from psoup.sql.elsewhere.functions import FUNCTIONS
from psoup.sql.instead import FOR_FUNCTION, feature_hint
from psoup.sql.source import Place, StatementText, nearest


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_AGGREGATES = _words(
    "mode list array_agg corr covar_pop covar_samp sumif histogram product skewness kurtosis entropy grouping"
)
_VOLATILE = _words(
    "random rand uuid gen_random_uuid nextval currval setseed today current_date current_time localtime "
    "localtimestamp sysdate getdate clock_timestamp statement_timestamp current_localtimestamp"
)


_NO_LIST = "a value is not a list: push a row for each item"
_FAMILIES = (
    (("list_", "array_"), "lists", _NO_LIST),
    (("map_", "struct_", "named_struct"), "structs and maps", "a column of its own for each field"),
    (("json", "to_json", "row_to_json"), "JSON", "a column of its own for each field"),
)
"""Prefixes of functions of types that PSoup lacks, each with the name of these types and the advice."""


def refuse_function(source: StatementText, name: str, at: Place) -> None:
    """Raise SqlError if `name` is not a function of PSoup.

    The message tells a missing aggregate, a volatile function and an unknown function apart.
    """
    if name in WINDOW_FUNCTIONS:
        group = FOR_FUNCTION.get(name, "")
        hint = f"{name}(…) OVER (PARTITION BY k ORDER BY t)" + f"; {group}" * bool(group)
        raise source.error(f"{name} needs OVER: it is a window function", at, hint=hint)
    if name in _AGGREGATES:
        hint = FOR_FUNCTION.get(name) or FUNCTIONS.get(name) or feature_hint("an aggregate")
        raise source.unsupported(f"the aggregate or window function {name}", at, hint=hint)
    if name in _VOLATILE:
        raise source.unsupported(f"{name}(), which changes by itself,", at, hint="now() in the SELECT list is the NOW")
    names = functions.names()
    if name in names:
        return
    if name in FOR_FUNCTION:
        raise source.unsupported(f"{name}()", at, hint=FOR_FUNCTION[name])
    for prefixes, types, advice in _FAMILIES if name not in FUNCTIONS else ():
        if name.startswith(prefixes):
            raise source.unsupported(f"{name[:64]}(), a function of {types},", at, hint=advice)
    hint = (
        FUNCTIONS.get(name)
        or nearest(name, names)
        or "docs/sql.md has all functions; an operator adds others: psoup serve --functions"
    )
    raise source.error(f"there is no function {name[:128]!r}", at, hint=hint, reason="UNKNOWN_FUNCTION")

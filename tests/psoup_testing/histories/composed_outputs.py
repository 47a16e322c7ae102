"""Random SELECT lists: columns, aggregates, window functions, and the keys of ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psoup_testing.histories.composed_conditions import columns_of, null_of, on_one
from psoup_testing.histories.composed_items import Item
from psoup_testing.histories.composed_parts import Measure, Output, Over, Select
from psoup_testing.histories.join_statements import Chance

_NULLS = ("", "", " NULLS FIRST")


def column(make: Chance, items: Sequence[Item], kind: str) -> str:
    """A column of a kind, or NULL of that kind if there is none."""
    columns = [name for item in items for name in columns_of(item, kind)]
    return make.pick(columns) if columns else null_of(kind)


def sort_keys(make: Chance, select: Select, items: Sequence[Item]) -> tuple[str, ...]:
    """The keys of ORDER BY."""
    keys = dict[str, str]()
    for _ in range(make.number(1, 2)):
        word = make.pick(select.names)
        if select.groups is None and not select.distinct and make.likely(50):
            other = column(make, items, make.pick(("whole", "text", "double")))
            word = word if " " in other else other
        keys[word] = word + make.pick(("", " DESC")) + make.pick(_NULLS)
    return tuple(keys.values())


def aggregated(make: Chance, select: Select, items: Sequence[Item]) -> Select:
    """The select with groups and aggregates in place of its columns."""
    present = sorted({kind for item in items for _, kind in item.columns} - {"double"})
    kinds = [make.pick(present) for _ in range(make.pick((0, 1, 1, 2)) if present else 0)]
    outputs: list[Output] = [column(make, items, kind) for kind in kinds]
    groups = len(kinds)
    for _ in range(make.number(1, 3)):
        measure, kind = _measure(make, items, make.pick(("whole", "text", "decimal", "time")))
        outputs.append(measure)
        kinds.append(kind)
    having = make.pick((0, 0, 0, 2))
    return replace(select, outputs=tuple(outputs), kinds=tuple(kinds), groups=groups, having=having)


def grouped_alike(make: Chance, select: Select, items: Sequence[Item]) -> Select:
    """The select with as many groups and aggregates as it has columns, of the same kinds."""
    constant = [place for place, output in enumerate(select.outputs) if "NULL" in str(output)]
    groups, outputs = make.number(0, min([len(select.kinds), *constant])), list[Output]()
    for place, (output, kind) in enumerate(zip(select.outputs, select.kinds, strict=True)):
        if place >= groups:
            outputs.append(Measure(f"{make.pick(('min', 'max'))}({column(make, items, kind)})"))
        else:  # -0.0 and 0.0 are one group, which DuckDB shows as either
            outputs.append(f"{output} + 0" if kind == "double" else output)
    return replace(select, outputs=tuple(outputs), groups=groups)


def _measure(make: Chance, items: Sequence[Item], kind: str) -> tuple[Measure, str]:
    """An aggregate, and the kind of its values."""
    name = column(make, items, kind)
    condition = on_one(make, make.pick(items)) if make.likely(25) else ""
    form = make.number(0, 6)
    if form == 0:
        return Measure("count(*)", condition), "whole"
    if form == 1:
        return Measure(f"count(DISTINCT {name})", condition), "whole"
    if form == 2:
        return Measure(f"count({name})", condition), "whole"
    if form == 3 and kind == "whole":
        return Measure(f"sum({name})", condition, cast="DECIMAL(38,0)"), "decimal"
    if form == 4:
        return Measure(f"{make.pick(('first', 'last'))}({name})", condition, ordered=True), kind
    return Measure(f"{make.pick(('min', 'max'))}({name})", condition), kind


def over(make: Chance, items: Sequence[Item], calls: Sequence[str]) -> Over:
    """A window function: one of `calls`, with its partition and order."""
    call = make.pick(calls)
    partition = tuple(column(make, items, make.pick(("whole", "text"))) for _ in range(make.pick((0, 1, 1))))
    order = tuple[str, ...]()
    if make.likely(75) or "rank" in call:
        key = column(make, items, make.pick(("whole", "double", "time", "text")))
        order = (key + make.pick(("", " DESC")) + make.pick(_NULLS),)
    values = "_value" in call
    framed = values or call.startswith(("count", "sum", "min", "max"))
    preceding = make.number(0, 3) if framed and (make.likely(40) or (values and order)) else None
    return Over(
        call, partition, order, preceding, ties=preceding is not None or values or not (framed or "rank" in call)
    )


def with_over(make: Chance, select: Select, items: Sequence[Item]) -> Select:
    """The select with one or two window functions more."""
    number, text = column(make, items, "whole"), column(make, items, "text")
    calls = {
        "row_number()": "whole",
        "rank()": "whole",
        "dense_rank()": "whole",
        f"lag({number})": "whole",
        f"lead({text}, {make.number(1, 3)})": "text",
        f"first_value({text})": "text",
        f"last_value({number})": "whole",
        "count(*)": "whole",
        f"min({number})": "whole",
        f"max({text})": "text",
    }
    functions = [over(make, items, list(calls)) for _ in range(make.number(1, 2))]
    kinds = tuple(calls[function.call] for function in functions)
    return replace(select, outputs=(*select.outputs, *functions), kinds=(*select.kinds, *kinds))

"""Functions of an operator: `psoup serve --functions` loads their module, and statements call them over arrays.

    from psoup.functions import function                       psoup serve --functions fraud
                                                                SELECT * FROM sales WHERE risk(amount, country) > 0.8
    @function(["DOUBLE", "TEXT"], "DOUBLE")
    def risk(amount: pa.Array, country: pa.Array) -> pa.Array:  called with an array for each argument, returns one of
        ...                                                     the same length

A function must be deterministic, and the value of a row must depend only on the arguments of that row. PSoup calls it
with any choice of rows, repeatedly, and keeps results that depend on its values. If it raises, PSoup calls it with
halves of the rows, down to single rows. A single row for which it raises is an error. This module loads and calls
functions, without SQL. `psoup.expressions.supplied_functions` has the signatures, and makes columns from values.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from psoup.errors import FailedPrecondition, InvalidInput, PSoupError
from psoup.expressions.supplied_functions import Answer, Signature, Supplied, checked, data_type_of
from psoup.model import DataType, Kind
from psoup.values.columns import Array, Column, concat_columns
from psoup.values.from_arrow import column_from_arrow
from psoup.values.kinds import arrow_type

__all__ = ["function", "load"]

MOST_RAISED = 2_048
"""The most calls for one batch that may raise. So a function that always raises cannot take seconds of the writer."""
MARK = "__psoup_function__"
"""The name of the attribute in which a declared function keeps its declaration."""
_SHOWN = 200

F = TypeVar("F", bound=Callable[..., Any])


class FunctionRaised(Exception):
    """Raised for a call over many rows if the function raises more than MOST_RAISED times."""


def function(
    arguments: Sequence[str],
    result: str,
    *,
    name: str | None = None,
    nulls: bool = False,
    cost: int = 10,
    version: int = 1,
) -> Callable[[F], F]:
    """Declare a function that statements may call. The decorated function stays unchanged.

    `arguments`, `result`: types as in CREATE STREAM. The function gets an Arrow array for each argument (int64,
    float64, bool, string, timestamp('us', 'UTC'), date32, decimal128). It returns an array of the result's type and
    equal length. `name`: its name in SQL, by default its Python name. `nulls`: call it also for rows with a NULL
    argument; else the value of these rows is NULL. `cost`: the cost of a call, in calls of a simple function. Costly
    functions are called last, only for rows that nothing else decides. `version`: raise it when the function changes
    its values. Raises InvalidInput for an invalid declaration.
    """

    def declare(declared: F) -> F:
        called = str(name or getattr(declared, "__name__", "")).lower()
        types = tuple(map(data_type_of, arguments))
        signature = Signature(called, types, data_type_of(result), nulls, version)
        if not 1 <= cost <= 10**6:
            raise InvalidInput(f"the cost of {called} is {cost}; give a number from 1 to 10^6")
        about = (inspect.getdoc(declared) or "").partition("\n")[0][:_SHOWN]
        setattr(declared, MARK, Supplied(signature, rowwise(signature, declared), cost, about))
        return declared

    return declare


def load(modules: Sequence[str]) -> tuple[Supplied, ...]:
    """Import some modules, and return their functions, each tried with example values.

    A module is an importable name, or the path of a `.py` file. Raises InvalidInput, reason FUNCTIONS, if a module
    cannot be imported or declares no function. Also if two functions have the same name, or if a function does not
    match its declaration.
    """
    functions: dict[str, Supplied] = {}
    for module in modules:
        declared = list(_declared_in(_imported(module)))
        if not declared:
            raise _refused(f"the module {module} declares no function; decorate one with psoup.functions.function")
        for each in declared:
            name = each.signature.name
            if name in functions and functions[name] is not each:
                raise _refused(f"two functions are called {name}; a name has one signature")
            functions[name] = each
    for each in functions.values():
        try:
            _try(each)
        except FailedPrecondition as problem:
            raise _refused(problem.message.partition(";")[0]) from None
    return tuple(functions.values())


def rowwise(signature: Signature, body: Callable[..., Any]) -> Callable[[Sequence[pa.Array]], Answer]:
    """Wrap `body`: the wrapper gives it read-only copies, and marks each row for which it raises as an error."""

    def call(arrays: Sequence[pa.Array]) -> Answer:
        whole = _read_only(arrays)
        parts = list(_halved(signature, body, whole, 0, len(whole[0]), [MOST_RAISED]))
        columns = concat_columns([column for column, _ in parts])
        raised = np.concatenate([np.full(len(column), error) for column, error in parts])
        return columns.to_arrow(), raised if raised.any() else None

    return call


def _read_only(arrays: Sequence[pa.Array]) -> list[pa.Array]:
    """Read-only copies of arrays. NumPy code of an operator cannot write to them."""
    batch = pa.RecordBatch.from_arrays(list(arrays), [str(place) for place in range(len(arrays))])
    content = pa.py_buffer(batch.serialize().to_pybytes())
    return list(pa.ipc.read_record_batch(content, batch.schema).columns)


def _halved(
    signature: Signature, body: Callable[..., Any], arrays: Sequence[pa.Array], start: int, stop: int, left: list[int]
) -> Iterator[tuple[Column, bool]]:
    """Yield the values of the rows from start to stop, in pieces, with a flag for error rows.

    If `body` raises for some rows, it is called again for each half of them. A single row for which it raises is an
    error row. `left`: the number of exceptions that are still allowed.
    """
    try:
        values = body(*(array.slice(start, stop - start) for array in arrays))
    except Exception as problem:
        left[0] -= 1
        if left[0] < 0:
            raise FunctionRaised(f"{signature.name} raised {type(problem).__name__} over and over") from None
        if stop - start < 2:
            nothing = column_from_arrow("", signature.result, pa.nulls(stop - start))
            yield nothing, True
            return
    else:
        yield checked(signature, values, stop - start), False
        return
    middle = (start + stop) // 2
    yield from _halved(signature, body, arrays, start, middle, left)
    yield from _halved(signature, body, arrays, middle, stop, left)


def _imported(module: str) -> ModuleType:
    try:
        if not module.endswith(".py"):
            return importlib.import_module(module)
        path = Path(module)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise _refused(f"there is no file {module}")
        loaded = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, loaded)
        spec.loader.exec_module(loaded)
        return loaded
    except PSoupError as problem:
        raise _refused(f"the module {module} is refused: {problem.message}") from problem
    except (Exception, SystemExit) as problem:
        cause = f"{type(problem).__name__}: {problem}"[:_SHOWN]
        raise _refused(f"the module {module} cannot be imported: {cause}") from problem


def _declared_in(module: ModuleType) -> Iterator[Supplied]:
    seen: list[Supplied] = []
    for value in vars(module).values():
        each = getattr(value, MARK, None) if callable(value) else None
        if isinstance(each, Supplied) and all(each is not other for other in seen):
            seen.append(each)
            yield each


def _try(function: Supplied) -> None:
    """Call a function twice with all example values, and once with each half of them. Raises InvalidInput if the
    values differ."""
    signature = function.signature
    arrays = [_examples(kind, place) for place, kind in enumerate(signature.arguments)]
    rows, half = len(arrays[0]), len(arrays[0]) // 2
    whole = _keys(function, arrays)
    halves = [_keys(function, [array.slice(at, half) for array in arrays]) for at in (0, half)]
    together = tuple(first + second for first, second in zip(*halves, strict=True))
    if whole != _keys(function, arrays):
        raise _refused(f"{signature.shown} gives other values when it is called again; a function is deterministic")
    if whole != together:
        raise _refused(
            f"{signature.shown} gives other values for {rows} rows than for the same rows in two calls; the value of a"
            " row depends on that row alone"
        )


def _keys(function: Supplied, arrays: Sequence[pa.Array]) -> tuple[list[Any], list[bool]]:
    """The values of a function as Python objects that compare like SQL values, and the flags of its error rows."""
    try:
        values, raised = function.call(arrays)
    except FunctionRaised:
        return [], []
    column = checked(function.signature, values, len(arrays[0]))
    marks = np.zeros(len(column), np.bool_) if raised is None else raised
    keys = column.to_list() if column.type.kind is Kind.TEXT else column.order_keys().tolist()
    valid: Array = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    return [key if is_valid else None for key, is_valid in zip(keys, valid, strict=True)], marks.tolist()


_EXAMPLES: dict[Kind, list[Any]] = {
    Kind.BOOLEAN: [True, False],
    Kind.BIGINT: [0, 1, -1, 7, 100, 2013, -(2**31), 2**40],
    Kind.DOUBLE: [0.0, 1.0, -1.5, 0.25, 1e6, -1e-3, 12345.678, 3.0],
    Kind.DECIMAL: [0, 1, -1, 5, 9, -7, 3, 2],
    Kind.TEXT: ["", "a", "IBM", "Ünïcode", "42", "2013-01-31", "a b c", "x" * 50],
    Kind.TIMESTAMP: [0, 1_357_000_000_000_000, -1_000_000, 1, 10**15, 86_400_000_000, 5 * 10**14, 7 * 10**14],
    Kind.DATE: [0, 15_736, -365, 1, 20_000, 59, 366, 10_000],
}
"""Example values of each type, in engine form (`psoup.model`)."""


def _examples(kind: DataType, place: int) -> pa.Array:
    """Sixteen example values of a type. Two arguments of one type get them in different orders."""
    values = _EXAMPLES[kind.kind]
    chosen = [values[(row * (2 * place + 1) + row // 8) % len(values)] for row in range(16)]
    if kind.kind is Kind.DECIMAL:
        column = Column(kind, np.array(chosen, np.int64))
        return column.to_arrow()
    return pa.array(chosen, arrow_type(kind))


def _refused(message: str) -> InvalidInput:
    return InvalidInput(message, reason="FUNCTIONS")

"""Supplied functions, which the operator of a service provides: signatures, installed functions, and their evaluation.

    risk(amount)  ──signature──>  Call("risk@1[DOUBLE: DOUBLE]", cast(amount AS DOUBLE))
                      │ installed      called for the rows without NULL and error, its values checked ──> Column
                      │ not installed  FailedPrecondition: only queries that need its values are refused

The name of a call is the whole signature of its function. So a query bound with another version, or other types, never
gets values of the function that is installed now. Statements of the log are bound with the signatures of their
registration (`declared`), whether or not these functions are installed. Installed functions belong to the process: they
are set before the first statement is bound. `psoup.functions` loads modules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from psoup.errors import FailedPrecondition, InvalidBatch, InvalidInput
from psoup.expressions.frame import Frame, all_valid, any_error, null_column
from psoup.expressions.tree import Call, Expr
from psoup.model import STREAMED, DataType, Kind, decimal
from psoup.values.columns import Array, Column, concat_columns
from psoup.values.from_arrow import column_from_arrow
from psoup.values.kinds import TYPES, arrow_type, memory_type

MOST_ROWS = 65_536
"""The most rows of one call of a function."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_TYPE = re.compile(r"([A-Z]+)(?:\(([0-9]{1,2}), ?([0-9]{1,2})\))?")
_TEXT = re.compile(r"([a-z][a-z0-9_]*)@([0-9]+)\[(.*): ([^:]*?)(\?)?\]")
_BETWEEN = re.compile(r", (?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of a function, its argument types and its result. Its text is the name of its calls in expressions.

    `nulls`: True if the function is also called for rows with NULL. `version`: the operator increases it when the
    values of the function change.
    """

    name: str
    arguments: tuple[DataType, ...]
    result: DataType
    nulls: bool = False
    version: int = 1

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(
                f"{self.name[:80]!r} cannot be the name of a function: write small letters, digits and _, at most 63"
            )
        if not 1 <= len(self.arguments) <= 100:
            raise InvalidInput(f"{self.name} takes {len(self.arguments)} arguments; a function takes 1 to 100")
        if not 1 <= self.version <= 10**9:
            raise InvalidInput(f"version {self.version} of {self.name} is not a number from 1 to 10^9")

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.arguments))
        return f"{self.name}@{self.version}[{arguments}: {self.result}{'?' if self.nulls else ''}]"

    @property
    def shown(self) -> str:
        """The signature for people: `risk(DOUBLE, TEXT) -> DOUBLE`."""
        return f"{self.name}({', '.join(map(str, self.arguments))}) -> {self.result}"


Answer = tuple[pa.Array, Array | None]
"""The values of a function, and flags of rows in which it raised: bool[n], or None."""


@dataclass(frozen=True, slots=True)
class Supplied:
    """A function that can be called. `cost`: its cost, as a multiple of that of a simple function. `about`: a
    description.

    `call` gets an array for each argument, and marks errors of rows. It may raise FailedPrecondition if the function is
    broken. It may raise any other exception if it cannot be evaluated over these rows.
    """

    signature: Signature
    call: Callable[[Sequence[pa.Array]], Answer] = field(compare=False)
    cost: int = 10
    about: str = ""


def data_type_of(text: str) -> DataType:
    """The type with this name, as in `CREATE STREAM`. Raises InvalidInput."""
    match = _TYPE.fullmatch(text.strip().upper())
    kind = Kind.__members__.get(match[1]) if match else None
    if match is None or kind not in STREAMED or (kind is Kind.DECIMAL) != (match[2] is not None):
        listed = ", ".join(kind.value for kind in STREAMED)
        raise InvalidInput(f"{text[:80]!r} is not a type; the types are {listed} with (precision,scale) for DECIMAL")
    if kind is not Kind.DECIMAL:
        return DataType(kind)
    precision, scale = int(match[2]), int(match[3])
    if not (1 <= precision <= 18 and scale <= precision):
        raise InvalidInput(f"{text[:80]!r} is not a type: a DECIMAL has 1 to 18 digits, and no more places than these")
    return decimal(precision, scale)


def signature_of(text: str) -> Signature:
    """The signature with this text. Raises InvalidInput."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text[:200]!r} is not the signature of a function")
    arguments = tuple(map(data_type_of, _BETWEEN.split(match[3])))
    return Signature(match[1], arguments, data_type_of(match[4]), match[5] is not None, int(match[2]))


@dataclass(frozen=True, slots=True)
class _Installed:
    """The functions of this process, by their names, and by the names of their calls."""

    by_name: Mapping[str, Supplied] = field(default_factory=dict)
    by_call: Mapping[str, Supplied] = field(default_factory=dict)


caller: ContextVar[str | None] = ContextVar("caller", default=None)
"""The client whose call is evaluated; None on arrival and in maintenance."""

_process = _Installed()
_declared: ContextVar[Mapping[str, Signature] | None] = ContextVar("declared", default=None)


def install(functions: Iterable[Supplied]) -> None:
    """Replace the functions of this process. Raises InvalidInput if two have one name."""
    global _process
    by_name: dict[str, Supplied] = {}
    for function in functions:
        name = function.signature.name
        if name in by_name:
            raise InvalidInput(f"two functions are called {name}; a name has one signature", function=name)
        by_name[name] = function
    _process = _Installed(by_name, {str(function.signature): function for function in by_name.values()})


def installed() -> tuple[Supplied, ...]:
    """The functions of this process, by name."""
    return tuple(function for _, function in sorted(_process.by_name.items()))


def are_there() -> bool:
    """Whether any function is installed. O(1)."""
    return bool(_process.by_name)


def used_in(texts: Iterable[str]) -> list[str]:
    """The texts of the signatures of installed functions whose names occur in some statements.

    The binder needs no other signatures for these statements. O(length of the texts); O(1) if no function is installed.
    """
    functions = _process.by_name
    if not functions:
        return []
    words = re.compile(rf"\b(?:{'|'.join(functions)})\b", re.IGNORECASE)
    names = {name.lower() for text in texts for name in words.findall(text)}
    return [str(functions[name].signature) for name in sorted(names)]


@contextmanager
def declared(texts: Sequence[str]) -> Iterator[None]:
    """A context in which statements are bound with exactly these signatures. `texts`: the texts of the signatures.

    The functions need not be installed. Raises InvalidInput.
    """
    signatures_by_name = {signature.name: signature for signature in map(signature_of, texts)}
    token = _declared.set(signatures_by_name)
    try:
        yield
    finally:
        _declared.reset(token)


def known(name: str) -> Signature | None:
    """The signature of the function that a statement means by `name` (lower case). Returns None if there is none."""
    bound = _declared.get()
    if bound is not None:
        return bound.get(name)
    function = _process.by_name.get(name)
    return None if function is None else function.signature


def signatures() -> tuple[str, ...]:
    """The texts of the signatures that `declared` sets for this context; empty outside of such a context."""
    return tuple(map(str, (_declared.get() or {}).values()))


def known_names() -> tuple[str, ...]:
    """The names of all functions that a statement may call."""
    bound = _declared.get()
    return tuple(_process.by_name if bound is None else bound)


def is_supplied(name: str) -> bool:
    """Whether a call of this name is a call of a supplied function."""
    return "@" in name


def shown_name(name: str) -> str:
    """The name of a call as it is written in SQL."""
    return name.partition("@")[0]


def calls_supplied(expr: Expr) -> bool:
    """Whether the value of `expr` depends on a supplied function. O(size of the tree)."""
    return isinstance(expr, Call) and (is_supplied(expr.name) or any(map(calls_supplied, expr.args)))


def cost_of(name: str) -> int:
    """The cost of a call of this name: 1 except for installed functions."""
    function = _process.by_call.get(name)
    return 1 if function is None else function.cost


def column_of_call(call: Call, frame: Frame) -> Column:
    """The evaluator of supplied functions. Raises FailedPrecondition if the function is missing or broken."""
    function = _process.by_call.get(call.name)
    if function is None:
        raise _missing(call.name)
    columns = frame.columns(call)
    error = any_error(columns)
    usable = all_valid(columns) if not function.signature.nulls else None if error is None else ~error
    if usable is None or usable.all():
        return _computed(function, columns, frame.rows)
    rows = np.flatnonzero(usable)
    nothing = null_column(call.type, 1)
    some = [nothing]
    if len(rows):
        some = [_computed(function, [column.take(rows) for column in columns], len(rows)), nothing]
    places: Array = np.full(frame.rows, len(rows), np.int64)
    places[rows] = np.arange(len(rows))
    spread = concat_columns(some).take(places)
    marks = any_error([spread, *columns])
    return Column(spread.type, spread.values, spread.valid, spread.data, marks)


def _computed(function: Supplied, columns: Sequence[Column], rows: int) -> Column:
    """The values of a function in some rows. The function is called for at most MOST_ROWS rows at a time."""
    parts = []
    for start in range(0, rows, MOST_ROWS):
        stop = min(start + MOST_ROWS, rows)
        arrays = [column.slice(start, stop).to_arrow() for column in columns]
        values, raised = function.call(arrays)
        parts.append(_marked(checked(function.signature, values, stop - start), raised))
    return concat_columns(parts) if parts else null_column(function.signature.result, 0)


def _marked(column: Column, raised: Array | None) -> Column:
    if raised is None or not raised.any():
        return column
    valid = ~raised if column.valid is None else column.valid & ~raised
    rows = np.where(valid, np.arange(len(column)), len(column))
    clean = concat_columns([column, null_column(column.type, 1)]).take(rows)
    return Column(clean.type, clean.values, valid, clean.data, raised)


def checked(signature: Signature, values: object, rows: int) -> Column:
    """The values that a function returned, as a column. Raises FailedPrecondition if they are not of the declared
    type."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray) or not isinstance(values, pa.Array):
        raise broken(signature, f"returned a {type(values).__name__}, and has to return an Arrow array")
    if not _fits(signature.result, values.type):
        raise broken(
            signature, f"returned values of the type {values.type}, and declares {arrow_type(signature.result)}"
        )
    if len(values) != rows:
        raise broken(signature, f"returned {len(values):,} values for {rows:,} rows, and has to return one for each")
    try:
        values.validate(full=True)
        return column_from_arrow(signature.name, signature.result, values)
    except (pa.ArrowInvalid, InvalidBatch):
        raise broken(signature, "returned an array that is damaged, or values that its type does not have") from None


def _fits(declared: DataType, returned: pa.DataType) -> bool:
    if returned in (arrow_type(declared), memory_type(declared)):
        return True
    return declared.kind is Kind.TEXT and any(fits(returned) for fits in TYPES[Kind.TEXT].accepted)


def broken(signature: Signature, fault: str) -> FailedPrecondition:
    """The error of queries that need a function that does not return what it declares. `fault`: what it did instead."""
    return FailedPrecondition(
        f"the function {signature.shown} {fault}; queries that need it are refused until that is put right",
        reason="FUNCTION_BROKEN",
        function=signature.name,
    )


def _missing(name: str) -> FailedPrecondition:
    wanted = signature_of(name)
    loaded = _process.by_name.get(wanted.name)
    problem = "is not loaded: start the service with --functions and the module that has it"
    if loaded is not None:
        problem = f"is another one now ({loaded.signature}, not {name}): load it as it was, or register the query anew"
    return FailedPrecondition(
        f"the query needs the function {wanted.shown}, which {problem}", reason="FUNCTION_MISSING", function=wanted.name
    )

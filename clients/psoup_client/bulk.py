"""Many queries in few calls: rows of parameters as Arrow, in parts that fit a message.

    [("JFK", 60), ("BOS", 15)]   [{"origin": "JFK", "late": 60}]   pa.Table, pandas, Polars     or: [statement, ...]
          └─ columns in order       └─ by name ($origin, $late)      └─ by name if the statement has names

The service registers each part whole or not at all. A part's request ID is derived from the caller's. So a repeated
call continues where the first one ended.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from psoup_client.amounts import Keeping, keeping_of
from psoup_client.columns.casts import REFUSALS
from psoup_client.columns.frames import columns_of_frame, guessed_series, is_pandas, is_series
from psoup_client.columns.misfits import shown
from psoup_client.columns.plain import guessed, plain
from psoup_client.columns.zones import in_zone, is_skipped, localized
from psoup_client.errors import InvalidData
from psoup_client.payload import split
from psoup_client.phrases import counted, verb
from psoup_proto.v1 import queries_pb2

PART_QUERIES = 8_192
"""The number of queries in one call.

The service needs some tenths of a second for them, so pushes wait only briefly.
"""

_PART_BYTES = 1024 * 1024
_ROWS = "rows of parameters are a list of tuples or dicts, a dict of lists, or a table"
_SHOWN = 60
"""The greatest number of characters of a value in a message."""
_DIGITS = 76
"""The greatest number of digits of a decimal that Arrow can send."""
_NAMED = re.compile(r"\$([A-Za-z_]\w*)(?![\w$])")

Progress = Callable[[int, int], None]
"""The function that receives the number of queries registered so far, and the number of all queries."""


@dataclass(frozen=True, slots=True)
class ParameterTable:
    """The values of parameters: a column for each parameter, a row for each query.

    `by_name`: columns and parameters have the same names.
    """

    table: pa.Table
    by_name: bool


def parameters_of_one(sql: str, params: Any, zone: str | None = None) -> ParameterTable | None:
    """Build a table with the parameters of one query. Returns None without values. Raises the errors of
    `parameters_of`.

    `zone`: the zone of datetimes without one; None: UTC.
    """
    if params is None:
        return None
    if isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping):
        raise TypeError(f"params is {_shown(params)}: give a list of values for ? and $1, or a dict for $name")
    return parameters_of(sql, [params], zone) if params else None


def parameters_of(sql: str, rows: Any, zone: str | None = None) -> ParameterTable:
    """Build a table from rows in any form that callers have. `zone`: as in `parameters_of_one`.

    Raises TypeError, and InvalidData, which names the column and the row.
    """
    parameters = _read(sql, rows, zone)
    return parameters if zone is None else ParameterTable(_localized(parameters.table, zone), parameters.by_name)


def _localized(table: pa.Table, zone: str) -> pa.Table:
    """The same table, with the zone `zone` for columns of times without one."""
    for place, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.tz is None:
            try:
                table = table.set_column(place, column.name, localized(table.column(place), zone))
            except REFUSALS as problem:
                raise InvalidData(
                    f"parameter {column.name} has a time that does not exist in {zone}, or parts below a microsecond:"
                    f" {problem}",
                    facts={"parameter": column.name},
                ) from problem
    return table


def _read(sql: str, rows: Any, zone: str | None) -> ParameterTable:
    """Build a table from rows, before columns of times have a zone."""
    if is_pandas(rows):
        rows = _of_pandas(rows, {name.lower() for name in _NAMED.findall(sql)})
    if isinstance(rows, pa.RecordBatch) or (hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, pa.Table)):
        try:
            rows = pa.table(rows)
        except REFUSALS as problem:
            raise InvalidData(f"a {type(rows).__name__} is not a table; {_ROWS}") from problem
    if isinstance(rows, pa.Table):
        return ParameterTable(rows, bool(_NAMED.search(sql)))
    if isinstance(rows, Mapping):
        columns = {str(name): _values(str(name), values) for name, values in rows.items()}
        return ParameterTable(_table(columns, zone), True)
    if isinstance(rows, str | bytes):
        raise TypeError(f"{_ROWS}; for one row use register")
    try:
        rows = list(rows)
    except TypeError as problem:
        raise TypeError(f"rows is {_shown(rows)}, which has no rows; {_ROWS}") from problem
    if rows and isinstance(rows[0], Mapping):
        return ParameterTable(_table(_by_name(rows), zone), True)
    return ParameterTable(_table(_in_order(rows), zone), False)


def _of_pandas(frame: Any, named: Collection[str]) -> pa.Table:
    """Build a table from a frame of pandas, column by column, because NaN means NULL there.

    `named`: named parameters.
    """
    columns: dict[str, Any] = {}
    for name, series in columns_of_frame(frame, named, "a parameter of the statement"):
        if name in columns:
            raise InvalidData(f"column {name!r} comes twice; give it once", facts={"column": name})
        try:
            columns[name] = guessed_series(series)
        except REFUSALS as problem:
            raise _unfit(name, list(series)) from problem
    return pa.table(columns)


def _values(name: str, values: Any) -> Any:
    if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
        raise InvalidData(
            f"the values of parameter {name} are a {type(values).__name__}; give a list, with a value for each query",
            facts={"parameter": name},
        )
    return values if hasattr(values, "dtype") else list(values)


def _by_name(rows: Sequence[Any]) -> dict[str, list[Any]]:
    names = list(rows[0])
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or row.keys() != rows[0].keys():
            raise InvalidData(
                f"row {number} has other names than the first row, {', '.join(map(str, names))}; a value for each"
                " parameter is needed, None for NULL",
                facts={"row": str(number)},
            )
    return {str(name): [row[name] for row in rows] for name in names}


def _in_order(rows: Sequence[Any]) -> dict[str, list[Any]]:
    width = None
    for number, row in enumerate(rows, 1):
        if isinstance(row, str | bytes | Mapping) or not isinstance(row, Sequence):
            raise InvalidData(
                f"row {number} is {_shown(row)}; a row of parameters is a tuple, a list or a dict, as all are",
                facts={"row": str(number)},
            )
        width = len(row) if width is None else width
        if len(row) != width:
            raise InvalidData(
                f"row {number} has {counted(len(row), 'value')}, those before it {width}", facts={"row": str(number)}
            )
    return {str(place + 1): [row[place] for row in rows] for place in range(width or 0)}


def _table(columns: Mapping[str, Sequence[Any]], zone: str | None) -> pa.Table:
    arrays = {name: _array(name, _zoned(name, values, zone)) for name, values in columns.items()}
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise InvalidData(f"the parameters have different numbers of values: {sorted(lengths)}")
    return pa.table(arrays)


def _zoned(name: str, values: Sequence[Any], zone: str | None) -> Sequence[Any]:
    """The values of a parameter, with the zone `zone` for datetimes without one."""
    if zone is None or not isinstance(values, list):
        return values
    try:
        return in_zone(values, zone)
    except ValueError as problem:
        number = next(number for number, value in enumerate(values, 1) if is_skipped(value, zone))
        raise InvalidData(
            f"parameter {name} in row {number}: {problem}", facts={"parameter": name, "row": str(number)}
        ) from None


def _array(name: str, values: Sequence[Any]) -> pa.Array:
    try:
        return guessed_series(values) if is_series(values) else guessed(values)
    except REFUSALS as problem:
        raise _unfit(name, values) from problem


def _too_long(value: Any) -> str:
    """Describe the problem of a number with too many digits, and the way out. Returns "" for any other value."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        way = "give it as a Decimal" if abs(value) < 10**_DIGITS else "no column has such a number"
        return f"is out of the range of 64 bits; {way}"
    if isinstance(value, Decimal) and not (value.is_finite() and abs(value.adjusted()) < _DIGITS):
        return f"cannot be sent: a Decimal is finite, and has at most {_DIGITS} digits on each side of the point"
    return ""


def _unfit(name: str, values: Sequence[Any]) -> InvalidData:
    """Describe why values do not form a column: one is too large or not a parameter, or their types differ."""
    for number, value in enumerate(values, 1):
        if why := _too_long(value):
            return InvalidData(
                f"parameter {name} in row {number} is {shown(value)}, which {why}",
                facts={"parameter": name, "row": str(number)},
            )
    for number, value in enumerate(values, 1):
        try:
            plain(value)
        except REFUSALS:
            return InvalidData(
                f"parameter {name} in row {number}, {shown(value)}, is finer than a parameter holds; round it",
                facts={"parameter": name, "row": str(number)},
            )
    kinds: dict[str, int] = {}
    for number, value in enumerate(values, 1):
        if value is not None:
            kinds.setdefault(type(value).__name__, number)
    seen = ", ".join(f"{kind} (row {number})" for kind, number in kinds.items())
    if len(kinds) == 1:
        problem = f"parameter {name} cannot be sent: {seen}; give numbers, texts, times, dates or BOOLEANs"
    else:
        problem = f"the values of parameter {name} cannot be sent together: {seen}; give values of one type"
    return InvalidData(problem, facts={"parameter": name})


@dataclass(frozen=True, slots=True)
class Tagging:
    """The options of all queries of a call: columns of the rows with keys and labels, replacement, lifetime, pairs,
    amount.
    """

    key: str | None = None
    labels: Sequence[str] = ()
    replace: bool = False
    expires_after: str = ""
    keep_pairs: bool = False
    keeping: Keeping = field(default_factory=keeping_of)

    def check(self, names: Sequence[str]) -> None:
        """Raise InvalidData if the rows, whose columns are `names`, lack a column for keys or labels."""
        check_replace(self.replace, self.key)
        if isinstance(self.labels, str | Mapping):
            raise TypeError("labels is a list of column names; a label that all rows share needs a column, too")
        lacking = [name for name in (*([self.key] if self.key is not None else ()), *self.labels) if name not in names]
        if lacking:
            raise InvalidData(
                f"the rows have no {verb(len(lacking), 'column', 'columns')} {', '.join(map(repr, lacking))} for keys"
                f" or labels; their columns are {', '.join(map(repr, names)) or 'none'}"
            )


def check_replace(replace: bool, key: str | None) -> None:
    """Raise InvalidData if a call would replace queries and gives no key."""
    if replace and key is None:
        raise InvalidData("replace is for queries with a key; give the key")


def lifetime(given: str | dt.timedelta | None) -> str:
    """Convert a lifetime to the text that the service parses; "" without one."""
    if isinstance(given, dt.timedelta):
        return f"{-(-given // dt.timedelta(seconds=1))} SECONDS"
    if given == "":
        raise InvalidData("the time is empty; give it as '90 days', or leave it out")
    return given or ""


def requests_of(
    sql: str | Sequence[str],
    rows: Any,
    request_id: str | None,
    tagging: Tagging = Tagging(),
    zone: str | None = None,
) -> tuple[int, Iterator[queries_pb2.RegisterManyRequest]]:
    """Return the number of queries, and the requests that register them. `zone`: as in `parameters_of_one`."""
    base = request_id or uuid.uuid4().hex
    if rows is None:
        tagging.check(())
        statements = _statements(sql)
        return len(statements), _of_statements(statements, base, tagging)
    if not isinstance(sql, str):
        raise TypeError("rows of parameters belong to one statement")
    parameters = parameters_of(sql, rows, zone)
    if not parameters.table.num_columns and len(parameters.table):
        raise InvalidData("the rows are empty; for a statement without parameters leave them out")
    tagging.check(parameters.table.column_names)
    return len(parameters.table), _of_rows(sql, parameters, base, tagging)


def _statements(sql: str | Sequence[str]) -> list[str]:
    """Return the statements as a list. Raises TypeError if one is not a text."""
    if isinstance(sql, str):
        return [sql]
    if not isinstance(sql, Iterable) or isinstance(sql, bytes | Mapping):
        raise TypeError(f"sql is {_shown(sql)}: give a statement, or a list of statements")
    statements = list(sql)
    for number, statement in enumerate(statements, 1):
        if not isinstance(statement, str):
            raise TypeError(f"statement {number} is {_shown(statement)}: give texts")
    return statements


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _of_rows(
    sql: str, parameters: ParameterTable, base: str, tagging: Tagging
) -> Iterator[queries_pb2.RegisterManyRequest]:
    first = 1
    for payload in split(parameters.table, PART_QUERIES):
        yield queries_pb2.RegisterManyRequest(
            statements=[sql],
            parameters=payload.data,
            by_name=parameters.by_name,
            request_id=f"{base}/{first}",
            first_number=first,
            key_column=tagging.key or "",
            label_columns=tagging.labels,
            as_ranges=True,
            replace=tagging.replace,
            expires_after=tagging.expires_after,
            keep_pairs=tagging.keep_pairs,
            **tagging.keeping,
        )
        first += payload.rows


def _of_statements(statements: Sequence[str], base: str, tagging: Tagging) -> Iterator[queries_pb2.RegisterManyRequest]:
    part: list[str] = []
    size, first = 0, 1
    for number, sql in enumerate(statements, 1):
        part.append(sql)
        size += len(sql)
        if size < _PART_BYTES and len(part) < PART_QUERIES // 16 and number < len(statements):
            continue
        yield queries_pb2.RegisterManyRequest(
            statements=part,
            request_id=f"{base}/{first}",
            first_number=first,
            as_ranges=True,
            expires_after=tagging.expires_after,
            keep_pairs=tagging.keep_pairs,
            **tagging.keeping,
        )
        part, size, first = [], 0, number + 1

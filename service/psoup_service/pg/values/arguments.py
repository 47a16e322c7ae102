"""Arguments of a statement as the parameters of a call.

    Argument(b"42", TEXT, 0), INT8  ──>  42  ──>  int64[1]  ──>  one row of Arrow IPC, for AskRequest.parameters

An argument has the type that its client names, else the type that the statement gives its parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from psoup.errors import InvalidInput, NotSupported, OutOfRange, PSoupError
from psoup_service.pg.contract import BINARY, Argument
from psoup_service.pg.values import types
from psoup_service.pg.values.readers import read_binary, read_text
from psoup_service.pg.values.to_arrow import array_of, decimal_type
from psoup_service.pg.values.zones import UTC, Zone

_KINDS: dict[int, pa.DataType] = {
    types.BOOL: pa.bool_(),
    types.INT2: pa.int64(),
    types.INT4: pa.int64(),
    types.INT8: pa.int64(),
    types.OID: pa.int64(),
    types.FLOAT4: pa.float64(),
    types.FLOAT8: pa.float64(),
    types.DATE: pa.date32(),
    types.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    types.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
}
_REFUSED = {types.BYTEA, types.TIME, *types.ELEMENTS}


def argument_value(argument: Argument, number: int, oid: int = 0, time_zone: Zone = UTC) -> Any:
    """The plain value of an argument: times are microseconds and dates are days since 1970; None is NULL.

    `number`: of the parameter, from 1, for errors. `oid`: its type in the statement, 0 if it is open.
    Raises InvalidInput.
    """
    if argument.raw is None:
        return None
    kind = argument.oid or oid or types.TEXT_OID
    try:
        if argument.format == BINARY:
            return read_binary(kind, argument.raw)
        return read_text(kind, argument.raw.decode(), time_zone)
    except UnicodeDecodeError:
        raise InvalidInput(f"parameter ${number} is not UTF-8", reason="NOT_UTF8") from None
    except PSoupError as problem:
        raise type(problem)(f"{problem.message} (parameter ${number})", reason=problem.reason) from None


def argument_array(argument: Argument, number: int, oid: int = 0, time_zone: Zone = UTC) -> pa.Array:
    """An argument as an array of one value, of a type that PSoup takes. Raises InvalidInput and NotSupported."""
    kind = argument.oid or oid or types.TEXT_OID
    if kind in _REFUSED:
        raise NotSupported(f"parameter ${number} has the type {types.type_name(kind)}, which PSoup lacks; cast it")
    value = argument_value(argument, number, oid, time_zone)
    if kind == types.TIMESTAMP and value is not None:
        value = int(time_zone.instant(value))
    if kind == types.NUMERIC and value is not None:
        exact = decimal_type(value)
        if exact is None and value.is_finite():
            raise OutOfRange(f"parameter ${number} has more than 38 digits; give it fewer")
        return pa.array([float(value)], pa.float64()) if exact is None else pa.array([value], exact)
    if kind == types.NUMERIC:
        return pa.nulls(1, pa.decimal128(1, 0))
    return array_of([value], kind, _KINDS.get(kind, pa.string()))


def arguments_table(arguments: Sequence[Argument], oids: Sequence[int] = (), time_zone: Zone = UTC) -> bytes:
    """The arguments as AskRequest.parameters: Arrow IPC with one row. b"" without arguments.

    `oids`: the types of the parameters in the statement, 0 for those that are open.
    """
    if not arguments:
        return b""
    kinds = [*oids, *[0] * (len(arguments) - len(oids))]
    arrays = [
        argument_array(argument, number, oid, time_zone)
        for number, (argument, oid) in enumerate(zip(arguments, kinds, strict=False), 1)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, [str(number) for number in range(1, len(arrays) + 1)])
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(target.getvalue())

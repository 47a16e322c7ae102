"""Parameters of requests, as Arrow IPC or as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from psoup.errors import InvalidInput
from psoup_proto.v1 import queries_pb2, statements_pb2
from psoup_service.host.room import TakenRoom
from psoup_service.servicers.backend import Backend
from psoup_service.wire.calls import Caller

Request: TypeAlias = (
    queries_pb2.RegisterRequest
    | queries_pb2.RegisterManyRequest
    | statements_pb2.AskRequest
    | statements_pb2.AskStreamRequest
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The values of parameters: rows, the names of the columns if they are given by name, and the room they take."""

    table: pa.Table
    names: tuple[str, ...]
    place: TakenRoom


async def read_parameters(
    backend: Backend,
    request: Request,
    text: int,
    caller: Caller,
    check_rows: Callable[[int], None],
    *,
    many: bool = False,
) -> Parameters | None:
    """The parameters of a request; None if it has none. `text`: the bytes of its statement.

    `check_rows` gets the number of rows, and may raise. Raises InvalidInput.
    """
    arrow, written = request.parameters, request.parameters_json  # each access to the field copies it
    if not written:
        if not arrow:
            return None
        decoded, by_name = await backend.decoding.parameters(arrow, text, caller, check_rows), request.by_name
    elif arrow:
        raise InvalidInput("give parameters or parameters_json, not both", field="parameters_json")
    else:
        decoded, by_name = await backend.decoding.json_parameters(written, text, caller, check_rows, many=many)
    table = pa.table(decoded.table)
    if written and not table.num_columns:  # [] or {}
        decoded.place.release()
        return None
    return Parameters(table, tuple(table.column_names) if by_name else (), decoded.place)

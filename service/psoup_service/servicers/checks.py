"""QueryService.Check: the description of a statement as a standing query.

The statement is bound on the binder's thread, in turn with long registrations, and against a snapshot. So an editor
that checks at every pause of typing delays neither the writer nor the loop.
"""

from __future__ import annotations

from psoup.answer.check import CheckedStatement, check
from psoup.published.snapshot import Snapshot
from psoup_proto.v1 import queries_pb2, types_pb2
from psoup_service.servicers.backend import Backend
from psoup_service.wire import convert
from psoup_service.wire.calls import Caller


class CheckCalls:
    """Base class of `QueryServicer`, with the call Check."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Check(self, request: queries_pb2.CheckRequest, caller: Caller) -> queries_pb2.CheckResponse:
        """Describe the standing query that the statement would become."""
        backend, tenant, sql = self._backend, self._backend.tenant(caller), request.statement
        await backend.reflecting(request.min_sequence)
        now, with_parameters = backend.now(), request.parameters

        def made(snapshot: Snapshot) -> queries_pb2.CheckResponse:
            return _response(check(snapshot, sql, tenant=tenant, now=now, with_parameters=with_parameters))

        return await backend.host.bound(made, tenant, caller.peer())


def _response(checked: CheckedStatement) -> queries_pb2.CheckResponse:
    nodes = [*map(convert.plan_node, checked.nodes)]
    return queries_pb2.CheckResponse(
        query=convert.standing(checked.query),
        nodes=nodes,
        update_pattern=nodes[0].update_pattern,
        sequence=checked.sequence,
        notes=checked.notes,
        parameter_types=[
            types_pb2.DataType() if kind is None else convert.data_type(kind) for kind in checked.parameters
        ],
    )

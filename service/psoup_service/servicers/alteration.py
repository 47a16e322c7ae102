"""QueryService.AlterQueries: a change of how much is kept of some queries."""

from __future__ import annotations

from psoup.admission.queries.tags import tag_in
from psoup.errors import NotFound
from psoup.events.acknowledgements import AlterationAcknowledgement
from psoup.events.commands import AlterQueries
from psoup_proto.v1 import queries_pb2
from psoup_service.servicers.backend import Backend
from psoup_service.wire.amounts import change_in
from psoup_service.wire.calls import Caller


class AlterCalls:
    """Base class of `QueryServicer`, with the call AlterQueries."""

    _backend: Backend

    async def AlterQueries(
        self, request: queries_pb2.AlterQueriesRequest, caller: Caller
    ) -> queries_pb2.AlterQueriesResponse:
        """Change how some queries are kept, and wait until every call sees the change."""
        backend, ids, texts = self._backend, None, request.query_ids
        change, labels = change_in(request), tag_in("", request.labels).labels
        if texts:
            ids = await backend.made(len(texts), lambda _: backend.ids.read_queries(texts))
        command = AlterQueries(ids, labels, request.key_prefix, change, backend.tenant(caller), request.dry_run)
        try:
            acknowledgement, _ = await backend.change(command)
        except NotFound as problem:
            raise backend.ids.named_all(problem) from None
        assert isinstance(acknowledgement, AlterationAcknowledgement)
        return queries_pb2.AlterQueriesResponse(
            sequence=acknowledgement.sequence, count=acknowledgement.count, changed=acknowledgement.changed
        )

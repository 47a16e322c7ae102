"""The statement of a call: the text in its request, or the text of the query that the request names."""

from __future__ import annotations

from typing import Any

from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids


def statement_of(host: Host[Snapshot], ids: Ids, tenant: str, request: Any) -> str:
    """The text of the statement; "" if the request has none, or its query is gone. Any thread.

    Raises the errors of a malformed query ID.
    """
    text = str(getattr(request, "statement", ""))
    query_id, key = str(getattr(request, "query_id", "")), str(getattr(request, "key", ""))
    if text or not (query_id or key):
        return text
    snapshot = host.snapshot()
    number = max(snapshot.tags.query_of(tenant, key), 0) if key else ids.read_query(query_id)
    record = snapshot.queries.get(number)
    return "" if record is None or record.tenant != tenant else record.query.text

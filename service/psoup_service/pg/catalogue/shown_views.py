"""The queries of a tenant that a catalogue shows as views: the oldest ones with keys, up to a limit.

directory of before ─┐  pages and blocks that differ
directory of now    ─┴─> gone, come: the IDs of the queries to delete and to read
"""

from __future__ import annotations

from psoup.plan.sides import is_side
from psoup.published.map_changes import changes
from psoup.published.paged_map import PagedMap
from psoup.published.records import QueryBlock, QueryRecord
from psoup_service.pg.versions import Directory


class ShownViews:
    """The IDs of the shown queries, at most `limit`. `hidden`: the number of queries with keys that are not shown."""

    def __init__(self, tenant: str, limit: int) -> None:
        self._tenant = tenant
        self._limit = limit
        self.ids = set[int]()
        self.hidden = 0

    def follow(self, before: Directory | None, now: Directory) -> tuple[set[int], list[int]]:
        """The IDs of the views to delete, and of the queries to read, in ascending order.

        The caller reads the queries, and then calls `show` with the IDs of those that it has added. O(changes), or
        O(queries) for the first call and if some are hidden.
        """
        if before is None or self.hidden:
            return self._at_first(now)
        changed = changes(before.queries, now.queries)
        gone = {query_id for query_id, record in changed.gone.items() if self._is_view(record)}
        come = {query_id for query_id, record in changed.come.items() if self._is_view(record)}
        if len(self.ids - gone) + len(come) > self._limit:
            return self._at_first(now)
        self.ids -= gone
        return gone, sorted(come)

    def show(self, ids: list[int]) -> None:
        """Note that the queries with some IDs are shown now."""
        self.ids.update(ids)

    def _at_first(self, now: Directory) -> tuple[set[int], list[int]]:
        ids = self._views(now.queries)
        self.hidden = max(len(ids) - self._limit, 0)
        wanted = set(ids[: self._limit])
        gone = self.ids - wanted
        self.ids -= gone
        return gone, sorted(wanted - self.ids)

    def _views(self, queries: PagedMap[QueryRecord]) -> list[int]:
        """The IDs of all queries with keys, ascending. O(queries)."""
        ids = [record.query_id for record in queries.single() if self._is_view(record)]
        for block in queries.blocks:
            if not isinstance(block, QueryBlock) or (block.tenant == self._tenant and block.tags is not None):
                ids += [query_id for query_id, record in block.items(0) if self._is_view(record)]
        return sorted(ids)

    def _is_view(self, record: QueryRecord) -> bool:
        return record.tenant == self._tenant and not is_side(record.query_id) and bool(record.key)

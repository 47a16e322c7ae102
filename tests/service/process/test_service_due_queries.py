"""The parts of parking that do not need a service (`psoup_service.chores.park_watch`)."""

from __future__ import annotations

import time

import numpy as np

from psoup_service.chores.park_watch import _of_tenants


def test_queries_that_are_due_are_told_by_tenant() -> None:
    ids, due = np.array([1, 2, 3, 5, 8, 9]), np.array([1, 0, 1, 0, 1, 1], np.bool_)
    owned = {"a": np.array([9, 1, 2]), "b": np.array([5]), "c": np.array([8, 3])}
    assert {tenant: part.tolist() for tenant, part in _of_tenants(owned, ids, due).items()} == {
        "a": [1, 9],
        "c": [3, 8],
    }


def test_the_work_does_not_grow_with_the_number_of_tenants() -> None:
    """200,000 queries of 2,000 tenants take 0.1 s. Comparing each tenant with all queries takes minutes."""
    count, tenants = 200_000, 2_000
    ids: np.ndarray[tuple[int], np.dtype[np.int64]] = np.arange(count)
    owned = {str(number): ids[number::tenants] for number in range(tenants)}
    began = time.thread_time()
    parts = _of_tenants(owned, ids, np.ones(count, np.bool_))
    assert time.thread_time() - began < 10
    assert sum(map(len, parts.values())) == count

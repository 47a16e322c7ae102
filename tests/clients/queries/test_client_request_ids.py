"""A registration repeated under its request ID never gives a query that is gone, over restarts too."""

from __future__ import annotations

from pathlib import Path

import pytest

from psoup_client import Client, Conflict, FailedPrecondition
from psoup_storage import open_store
from psoup_testing.services.threaded_service import serving


def test_repeated_after_a_restart(tmp_path: Path) -> None:
    sql, rows = "SELECT a FROM s WHERE a = ?", [(n,) for n in range(3)]
    with (
        serving(store=open_store(str(tmp_path / "data"), reserve_bytes=0)) as service,
        Client(service.address) as client,
    ):
        client.create_stream("CREATE STREAM s (a BIGINT)")
        kept = client.register("SELECT a FROM s", request_id="kept")
        gone = client.register("SELECT a FROM s", request_id="gone")
        block = client.register_many(sql, rows, request_id="block")
        other = client.register_many(sql, rows, request_id="all")
        for query in (gone, block[1], *other):
            query.unregister()
    with (
        serving(store=open_store(str(tmp_path / "data"), reserve_bytes=0)) as service,
        Client(service.address) as client,
    ):
        assert client.register("SELECT a FROM s", request_id="kept").id == kept.id
        again = client.register("SELECT a FROM s", request_id="gone")
        assert again.id != gone.id
        assert again.invoke().rows() == []
        with pytest.raises(FailedPrecondition, match="'block/1' registered 3 queries, and 1 of them is unregistered"):
            client.register_many(sql, rows, request_id="block")
        fresh = client.register_many(sql, rows, request_id="all")
        assert not {query.id for query in fresh} & {query.id for query in other}
        assert [len(answer) for answer in client.invoke_many(fresh)] == [0, 0, 0]
        with pytest.raises(Conflict, match=f"register another query: {again.id};"):
            client.register("SELECT a AS b FROM s", request_id="gone")
        with pytest.raises(Conflict, match=f"3 queries of another call, the first of them: {fresh[0].id};"):
            client.register_many(sql, [(9,)], request_id="all")

"""A service runs on uvloop's event loop where there is one, and on asyncio's own where there is none."""

import asyncio
import sys

import pytest

from psoup_client import Client
from psoup_service.process import event_loop
from psoup_testing.services.threaded_service import serving


async def _kind() -> type[asyncio.AbstractEventLoop]:
    return type(asyncio.get_running_loop())


def test_the_loop_is_of_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")
    assert issubclass(event_loop.run(_kind()), uvloop.Loop)


def test_without_uvloop_a_service_runs_on_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)  # cannot be imported
    assert issubclass(event_loop.run(_kind()), asyncio.BaseEventLoop)
    with serving() as there, Client(there.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        query = client.register("SELECT a FROM s WHERE a > 1")
        client.push("s", [{"a": 1}, {"a": 2}])
        assert query.invoke().to_arrow().column("a").to_pylist() == [2]


def test_what_is_raised_comes_through_and_the_loop_is_closed() -> None:
    loops = list[asyncio.AbstractEventLoop]()

    async def fail() -> None:
        loops.append(asyncio.get_running_loop())
        raise ValueError("as it was")

    with pytest.raises(ValueError, match="as it was"):
        event_loop.run(fail())
    assert loops[0].is_closed()

"""ARCHITECTURE.md follows a push, registrations and an invocation through the files: a run passes through no other.

profile hook in all threads ──> files executed, step by step ──> each is named in ARCHITECTURE.md
"""

import asyncio
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from psoup_client import Client
from psoup_service.service import running_service
from psoup_service.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.documents import named_files

ROOT = Path(__file__).resolve().parents[2]
ROOMS = tuple(f"{ROOT}/{room}/" for room in ("psoup", "storage", "service", "clients/psoup_client"))
CREATE = "CREATE STREAM t (sym TEXT, price DOUBLE, qty BIGINT, at TIMESTAMP) TIMESTAMP BY at"
SELECT = "SELECT sym, price FROM t WHERE sym = 'a' AND price > 3 AND qty BETWEEN 1 AND 9 BEGIN (NOW - 1 HOUR)"

OTHER = "SELECT sym FROM t WHERE price * 2 > 7 AND (sym LIKE 'a%' OR qty IN (1, 2)) BEGIN (NOW - 1 HOUR)"
FORM = "SELECT sym FROM t WHERE sym = ? AND price > ?"


class Trace:
    """The files of the product whose functions are called while it is on, in any thread."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._on = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._on and event == "call" and frame.f_code.co_filename.startswith(ROOMS):
            self.files.add(frame.f_code.co_filename.removeprefix(f"{ROOT}/"))

    @contextmanager
    def on(self) -> Iterator[None]:
        """Keep the files of what runs meanwhile."""
        self._on = True
        yield
        self._on = False


def rows(minute: int) -> dict[str, list[Any]]:
    times = [f"2026-01-01T00:{minute:02}:0{second}Z" for second in range(2)]
    return {"sym": ["a", "b"], "price": [4.0, 5.0], "qty": [3, 4], "at": times}


def use(address: str, trace: Trace) -> None:
    """A push, a registration, a block of registrations and an invocation, each of which works."""
    with Client(address) as client:
        client.create_stream(CREATE)
        query = client.register(SELECT)
        client.push("t", rows(0))
        assert len(query.invoke()) == 1
        with trace.on():
            client.push("t", rows(1))
            client.wait_for(client.last_sequence)
            client.register(OTHER)
            client.register_many(FORM, [(f"s{n}", n / 2) for n in range(300)])
            assert len(query.invoke()) == 2


@pytest.fixture
def trace() -> Iterator[Trace]:
    made, before = Trace(), sys.getprofile()
    threading.setprofile(made)
    yield made
    threading.setprofile(before)


def test_every_file_that_a_push_and_a_query_pass_through_is_in_the_architecture(trace: Trace, tmp_path: Path) -> None:
    async def main() -> None:
        store = DurableStore(tmp_path / "data", reserve_bytes=0)
        async with running_service(Settings(port=0), store=store) as service:
            sys.setprofile(trace)  # the loop's thread
            try:
                await asyncio.to_thread(use, service.address, trace)
            finally:
                sys.setprofile(None)

    asyncio.run(main())
    named = named_files((ROOT / "ARCHITECTURE.md").read_text())
    assert len(trace.files) > 80
    missing = sorted(trace.files - named)
    assert missing == [], "\n".join(missing)


def test_a_file_that_is_missing_is_noticed() -> None:
    text = "`psoup/data/{chunk,data_stem}.py` and `psoup/runner.py`"
    assert named_files(text) == {"psoup/data/chunk.py", "psoup/data/data_stem.py", "psoup/runner.py"}
    assert not re.search(r"[{}]", "".join(named_files((ROOT / "ARCHITECTURE.md").read_text())))

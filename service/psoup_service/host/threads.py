"""Threads beside those that answer, by what they are for: a crowd of one kind never keeps another waiting.

    life      start and stop of the service: must never wait behind work
    jobs      directories of jobs: read, checked, taken in; seconds to minutes each
    backup    the copy of the one backup that may run, and its files

What the host's own threads do, and decoding, is elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_JOBS = 2
P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """The pools of one service. `close` ends them after the work in hand, and waits for none but `life`."""

    def __init__(self) -> None:
        self.life = ThreadPoolExecutor(2, "psoup-life")
        self.jobs = ThreadPoolExecutor(_JOBS, "psoup-jobs")
        self.backup = ThreadPoolExecutor(1, "psoup-backup")

    def close(self) -> None:
        """Take nothing more; what waits is dropped."""
        for pool in (self.jobs, self.backup):
            pool.shutdown(wait=False, cancel_futures=True)
        self.life.shutdown()


async def on(pool: ThreadPoolExecutor, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns, on a thread of `pool`."""
    return await asyncio.get_running_loop().run_in_executor(pool, partial(work, *args, **kwargs))

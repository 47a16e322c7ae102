"""Pools of threads, one for each purpose, so that much work of one kind never delays another kind.

    life      start and stop of the service: must never wait behind work
    jobs      reading, checking and taking in directories of jobs; seconds to minutes each
    gate      reads certificates and the keys of identity providers again; must not wait behind jobs
    backup    the copy of the one backup that may run, and its files

Other modules have the stages of the host, the readers, and the threads that decode.
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
    """The pools of one service. `close` ends them after the work in hand, and waits for `life` only."""

    def __init__(self) -> None:
        self.life = ThreadPoolExecutor(2, "psoup-life")
        self.jobs = ThreadPoolExecutor(_JOBS, "psoup-jobs")
        self.gate = ThreadPoolExecutor(2, "psoup-gate")
        self.backup = ThreadPoolExecutor(1, "psoup-backup")

    def close(self) -> None:
        """Take no more work, and drop waiting work."""
        for pool in (self.jobs, self.gate, self.backup):
            pool.shutdown(wait=False, cancel_futures=True)
        self.life.shutdown()


async def on(pool: ThreadPoolExecutor, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work` on a thread of `pool`."""
    return await asyncio.get_running_loop().run_in_executor(pool, partial(work, *args, **kwargs))

"""A watchdog of an event loop: it measures how late the loop is, and finds callbacks that hold it up.

    loop     tick … tick … tick ── callback of 80 ms ── tick        lag: how late a tick came (a metric)
                                       │                  └ stall: it was late, and the loop's thread worked 50 ms
    thread   look … look … look … look: the tick is overdue ─> the stack of the loop's thread, for the log

A stall is measured by the processor time of the loop's own thread. On a busy machine a tick may be late without a fault
of the service. The processor time of one turn of the loop counts, known to about `TICK_S`. A turn of many small
callbacks counts like one long callback, because clients wait for it as long.

An idle loop is left alone. After `REST_AFTER` ticks with hardly any work, the ticks become rare and the thread waits.
The next call, or a rare tick that finds work, goes back to all ticks (`rouse`). A callback before the first call is
seen only if it runs into a rare tick. No client waits for it.

Stacks are written by `faulthandler`, which makes no frame objects. An earlier version kept frame objects of the running
thread; two processes crashed when it released them (CPython 3.11).
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import re
import tempfile
import threading
import time
from typing import IO

from psoup_service.figures.metrics import Metrics

TICK_S = 0.01
STALL_S = 0.05
"""The least processor time of one turn of the loop that counts as a stall, in seconds."""

REST_AFTER = 100
"""The number of ticks with hardly any work after which the watchdog rests."""

REST_S = 0.5
"""The seconds between two ticks of a watchdog that rests."""

_BUSY_S = 0.002
"""The processor time between two ticks from which on the loop has work. A tick takes a twentieth of it."""
_LOOK_S = 0.025
_FRAMES = 6
_PAUSE_S = 60.0
_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)\b")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.+)')
_log = logging.getLogger(__name__)


class Watchdog:
    """Watches the loop on which it is started and stopped."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.stalls = 0
        self.longest = 0.0
        """Processor seconds of the longest stall."""
        self.last = ""
        """The stack of the loop's thread in the last stall, if it was seen."""
        self._seen = ""
        self._timer: asyncio.TimerHandle | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._idle = 0
        """The number of ticks in a row with hardly any work."""
        self._awake = threading.Event()
        """Set unless the watchdog rests."""

    def start(self) -> None:
        """Watch the running loop, whose thread is this one."""
        self._loop = asyncio.get_running_loop()
        self._worked = time.thread_time()
        self._awake.set()
        self._wait(TICK_S)
        self._thread = threading.Thread(
            target=self._look, args=(threading.get_ident(),), name="psoup-watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; harmless if it was never started."""
        if self._timer is not None:
            self._timer.cancel()
        self._ended.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def resting(self) -> bool:
        """Whether ticks are rare, as the loop has had hardly any work."""
        return self._timer is not None and not self._awake.is_set()

    def rouse(self) -> None:
        """Go back to all ticks, because a call has come. On the loop's thread; harmless if it was never started."""
        self._idle = 0
        if self.resting and not self._ended.is_set():
            assert self._timer is not None
            self._timer.cancel()
            self._worked = time.thread_time()
            self._wait(TICK_S)
            self._awake.set()

    def _wait(self, seconds: float) -> None:
        """Set the next tick."""
        self._due = time.monotonic() + seconds
        self._timer = self._loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        try:
            self._measure()
        except Exception:
            _log.exception("the lag of the event loop could not be measured")
        if self._idle < REST_AFTER:
            self._wait(TICK_S)
            self._awake.set()
        else:
            self._awake.clear()
            self._wait(REST_S)

    def _measure(self) -> None:
        now, worked = time.monotonic(), time.thread_time()
        lag, used = max(0.0, now - self._due), worked - self._worked
        self._metrics.loop_lag(lag)
        if used >= STALL_S and lag >= STALL_S - TICK_S:
            self._stalled(lag, used)
        busy = _BUSY_S if self._awake.is_set() else _BUSY_S * REST_S / TICK_S
        self._idle = 0 if used >= busy else self._idle + 1
        self._worked = worked
        self._seen = ""

    def _stalled(self, lag: float, used: float) -> None:
        self.stalls += 1
        self.longest = max(self.longest, used)
        self.last = self._seen
        self._metrics.loop_stalled()
        milliseconds = {"lag_ms": round(lag * 1e3), "used_ms": round(used * 1e3)}
        _log.warning("the event loop stalled", extra={**milliseconds, "at": self._seen or "not seen"})

    def _look(self, loop_thread: int) -> None:
        """Record the stack of the loop's thread once for each overdue tick. Runs in a thread of its own."""
        while not self._ended.is_set():
            try:
                self._look_until_ended(loop_thread)
            except Exception:  # no memory, or no file: tried again after `_PAUSE_S`
                _log.exception("the stack of the event loop could not be recorded")
                self._ended.wait(_PAUSE_S)

    def _look_until_ended(self, loop_thread: int) -> None:
        with tempfile.TemporaryFile(buffering=0) as file:
            while not self._ended.wait(_LOOK_S):
                if not self._awake.is_set():
                    self._awake.wait()
                elif time.monotonic() - self._due >= STALL_S - TICK_S and not self._seen:
                    self._seen = _stack(loop_thread, file)


def _stack(thread: int, file: IO[bytes]) -> str:
    """The innermost functions of a thread; "" if the dump lacks this thread. `file`: a temporary file for the dump,
    overwritten.
    """
    file.seek(0)
    file.truncate()
    faulthandler.dump_traceback(file, all_threads=True)
    file.seek(0)
    lines, ours = list[str](), False
    for line in file.read().decode("ascii", "replace").splitlines():
        if head := _THREAD.match(line):
            ours = int(head[1], 16) == thread
        elif ours and len(lines) < _FRAMES and (frame := _FRAME.match(line)):
            lines.append(f"{frame[3]} ({frame[1].rpartition('/')[2]}:{frame[2]})")
    return " < ".join(lines)

"""The service's time comes from its guarded clock alone: a wall clock that is set must not delete, end or stamp."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup_testing.suite.trees import nodes

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("psoup", "storage/psoup_storage", "service/psoup_service", "clients")

OF_TIME = {"time", "time_ns", "clock_gettime", "clock_gettime_ns", "gmtime", "localtime", "ctime", "asctime"}
"""Functions of the module `time` that tell the wall clock; `strftime` and `mktime` do so only by their arguments."""
OF_DATETIME = {"now", "utcnow", "today"}
"""Functions of `datetime` and `date` that tell the wall clock."""
OF_LIBRARIES = {("jwt", "decode"), ("datetime64", "now"), ("Timestamp", "now")}
"""Functions of libraries that ask the wall clock, if nothing is said."""

EXCEPTIONS = {
    "service/psoup_service/process/clock.py": "the guarded clock itself",
    "service/psoup_service/gate/oidc.py": "PyJWT is told not to look at the times; the gate does",
    "service/psoup_service/figures/call_notes.py": "steps of traces, which a collector compares with other machines",
    "service/psoup_service/gate/audit.py": "a line about a service that does not run",
    "storage/psoup_storage/durable/sqlite/database.py": "when a data directory was made, for people",
    "storage/psoup_storage/durable/first_token.py": "a token of a service that does not run",
    "storage/psoup_storage/durable/tools/setting_aside.py": "a note about a service that does not run",
    "storage/psoup_storage/durable/tools/backup.py": "when a backup was made, for people",
    "storage/psoup_storage/replica/takeover.py": "when a copy was taken over, for people; no service runs",
    "clients/psoup_client/copies/moments.py": "a client's own clocks, compared with each other",
    "clients/psoup_client/ingest/direct_pusher.py": "a producer's epoch: greater than the one of an earlier process",
    "clients/psoup_client/ingest/producer.py": "an epoch, as in direct_pusher.py",
    "clients/psoup_client/ingest/lost_batches.py": "an epoch, as in direct_pusher.py",
    "clients/psoup_spark/stand_job.py": "rows that a service will refuse: Spark has no clock of a service",
    "clients/psoup_recharge/store.py": "when a copy was asked for last, for people",
    "clients/psoup_recharge/entry.py": "how long ago that is",
    "clients/psoup_recharge/ledger.py": "a line of a log",
    "clients/psoup_cli/commands/access/token.py": "how long a token lasts, if a command says until when",
}
"""Files that ask the wall clock, and why they may.

Not seen here: lines of the log have the wall clock's time (structlog), and OpenSSL judges certificates by it.
"""

WORDS = ("import time", "from time", "datetime", "jwt", "Timestamp")
"""Texts without one of which a file cannot ask; parsing all files takes long."""


def clock_calls(source: str) -> Iterator[str]:
    """The places of a source that ask for the wall clock, as `line: text`."""
    tree = ast.parse(source)
    names = dict[str, str]()  # what `import a.b as c` and `from a import b as c` call c: a.b
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in nodes(tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            written = ast.unparse(node)
            first, dot, rest = written.partition(".")
            *owner, name = (names.get(first, first) + dot + rest).split(".")
            module = owner[-1] if owner else ""
            of_time = owner == ["time"] and name in OF_TIME
            if of_time or (module in ("datetime", "date") and name in OF_DATETIME) or (module, name) in OF_LIBRARIES:
                yield f"{node.lineno}: {written}"


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ("import time\nx = time.time()", True),
        ("import time as t\nx = t.time_ns()", True),
        ("from time import time_ns\nx = time_ns()", True),
        ("import time\nnow = time.time", True),
        ("import datetime as dt\nx = dt.datetime.now(dt.UTC)", True),
        ("from datetime import datetime\nx = datetime.utcnow()", True),
        ("from datetime import date\nx = date.today()", True),
        ("import numpy as np\nx = np.datetime64.now()", True),
        ("import time\nx = time.monotonic() + time.thread_time() + time.perf_counter()", False),
        ("import datetime\nx = datetime.time(), datetime.datetime(2026, 1, 1)", False),
        ("x = clock.now(), self.time, view.now(0)", False),
        ("import time\ndef f(time): return 1", False),
    ],
)
def test_what_asks_for_the_wall_clock(source: str, asks: bool) -> None:
    assert bool([*clock_calls(source)]) == asks


def test_only_files_with_a_reason_ask_for_the_wall_clock() -> None:
    found = dict[str, list[str]]()
    for path in (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))):
        text = path.read_text()
        if any(word in text for word in WORDS) and (calls := [*clock_calls(text)]):
            found[str(path.relative_to(ROOT))] = calls
    assert {file: calls for file, calls in found.items() if file not in EXCEPTIONS} == {}, "ask the guarded clock"
    assert EXCEPTIONS.keys() - found.keys() == set(), "these need no exception any more"

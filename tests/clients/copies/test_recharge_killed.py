"""T26: a process that is killed while it applies a change leaves the copy as it was, or as it is after the change.

One process imports everything, and forks those that are killed: each after another part of the processor time that a
whole change takes, by a signal that the kernel gives and nothing handles. They apply a reply that was asked for before,
so that no thread of gRPC is there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from psoup_client import Client
from psoup_client.copies.answer_copy import changes
from psoup_recharge import Store
from psoup_testing.suite.budget import places

MakeStream = Callable[[str], str]
FORKS = """
import os, resource, signal, sys
from pathlib import Path
from psoup_proto.v1 import sync_pb2
from psoup_recharge import Store

folder, parts = Path(sys.argv[1]), int(sys.argv[2])
want = sync_pb2.Want.FromString((folder / "want").read_bytes())
body = sync_pb2.SyncBody.FromString((folder / "body").read_bytes())

def apply(path, part, whole):
    with Store(path) as store:
        entry = store.entry("q")
        if part:
            signal.setitimer(signal.ITIMER_PROF, max(whole * part, 1e-4))
        before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        store.apply(entry, want, body.outcomes[0].change, body.streams, body.clock)
        return sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - before

whole = apply(folder / "whole.db", 0, 0)
for number in range(parts):
    child = os.fork()
    if not child:
        apply(folder / f"{number}.db", 1.3 * (number + 0.5) / parts, whole)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)
"""


@pytest.mark.long
def test_a_process_that_is_killed_at_any_moment_leaves_all_of_a_change_or_nothing(
    client: Client, make_stream: MakeStream, tmp_path: Path
) -> None:
    stream, parts = make_stream("(n BIGINT, t TEXT)"), len(places(1_000, 12))
    client.push(stream, {"n": range(5_000), "t": ["x" * 50] * 5_000})
    whole = tmp_path / "whole.db"
    with Store(whole) as store:
        store.add("q", sql=f"SELECT n, t FROM {stream} BEGIN (NOW - 5000 ROWS)")
        store.recharge(client)
        client.push(stream, {"n": range(5_000, 9_000), "t": ["y" * 50] * 4_000})
        want = store.want(store.entry("q"))
        body, _ = changes(client, [want], 3 * 2**20)
    (tmp_path / "want").write_bytes(want.SerializeToString())
    (tmp_path / "body").write_bytes(body.SerializeToString())
    for number in range(parts):
        shutil.copyfile(whole, tmp_path / f"{number}.db")
    ended = subprocess.run(
        [sys.executable, "-c", FORKS, tmp_path, str(parts)], check=True, capture_output=True, text=True
    ).stdout.split()
    met = Counter[str]()
    for number, status in enumerate(ended):
        path = tmp_path / f"{number}.db"
        met["half in the file"] += path.with_name(path.name + "-journal").exists()
        plain = apsw.Connection(str(path))
        least, most, rows = plain.execute("SELECT min(c2), max(c2), count(*) FROM rows_1").fetchone() or ()
        (token,) = plain.execute("SELECT token FROM queries").fetchone() or ()
        plain.close()
        after = token != want.token
        assert (least, most, rows) == ((4_000, 8_999, 5_000) if after else (0, 4_999, 5_000)), "half of a change"
        assert after or status != "0", "a change that was made is lost"
        met["killed"] += status != "0"
        met["after" if after else "before"] += 1
    assert len(ended) == parts and met["killed"] and met["before"], met
    with Store(tmp_path / "0.db") as store:
        assert store.recharge(client).copies[0].complete
        assert store.read("q").column("n").to_pylist() == list(range(4_000, 9_000))

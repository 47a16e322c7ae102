"""Changes by events: the accounts that are kept from them agree with the standing objects."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from psoup.events.change import change_of, rows_of
from psoup.events.commands import AlterStream, Register, RegisterMany
from psoup.events.events import RegisteredMany
from psoup.events.tags import Tag
from psoup_testing.engines.admission_gate import Gate


def test_the_sum_of_all_changes_is_what_stands() -> None:
    gate = Gate()
    gate.create("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t")
    gate.create("CREATE STREAM gone (x BIGINT)")
    gate.push("s", t=[3, 4], x=[1, None])
    gate.heartbeat("s", 5)
    gate.register("SELECT x FROM s")
    gate.send(RegisterMany(["SELECT x FROM s WHERE x > ?"], [[1], [2], [3]]))
    gate.send(RegisterMany(["SELECT x FROM s WHERE x > ?"], pa.table({"x": range(300)})))
    gate.unregister(3)
    gate.send(AlterStream("ALTER STREAM s ADD COLUMN y TEXT"))
    gate.send(Register("SELECT x FROM s", tag=Tag("k")))
    gate.send(Register("SELECT x FROM s WHERE x > 4", tag=Tag("k"), replace=True))
    gate.drop("gone")
    gate.push("s", t=[1, 6], x=[2, 3], y=["late", "taken"])
    streams, queries = dict[int, int](), dict[int, str]()
    for change in map(change_of, gate.events):
        if change.spec is not None:
            streams[change.stream] = len(change.spec.schema.attributes)
        streams.pop(change.dropped, None)
        queries.update((change.first + place, query.text) for place, query in enumerate(change.queries))
        for query_id in change.ended:
            del queries[query_id]
    assert streams == {1: 3}
    assert queries.keys() == set(range(1, 307)) - {3, 305}
    assert [rows_of(event) for event in gate.events] == [change_of(event).rows for event in gate.events]
    assert sum(map(rows_of, gate.events)) == 3


def test_a_block_that_comes_back_from_the_log_says_who_has_left_it() -> None:
    gate = Gate()
    gate.create("CREATE STREAM s (x BIGINT)")
    gate.send(RegisterMany(["SELECT x FROM s WHERE x > ?"], [[1], [2], [3]]))
    block = gate.events[-1]
    assert isinstance(block, RegisteredMany)
    assert change_of(replace(block, gone=[0, 2])).ended == [1, 3]

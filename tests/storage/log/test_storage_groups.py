"""Groups of followers in the log: the newest row of each group stays, and a replay leads to the same state."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from psoup.admission import Admission
from psoup.errors import Internal
from psoup.events.groups import ConfirmGroup, DropGroup, FormGroup, first_positions
from psoup_storage import DurableStore, MemoryStore, Store
from psoup_storage.durable.log.groups import decode_group, encode_group
from psoup_testing.engines.admission_gate import Gate


def history() -> Gate:
    """Three groups. One is dropped, and one is on a stream that is dropped."""
    gate = Gate(now=3)
    for name in ("s", "gone"):
        gate.create(f"CREATE STREAM {name} (x BIGINT)")
    for stream, name in (("s", "mailer"), ("s", "left"), ("gone", "mailer")):
        gate.send(FormGroup(stream, name, '{"labels":{"user":"ü"}}', 0))
    for start in range(1, 6):
        gate.send(ConfirmGroup(1, "mailer", 3, first_positions(start)))
    gate.send(ConfirmGroup(2, "mailer", 5, first_positions(9)))
    gate.send(DropGroup("s", "left"))
    gate.drop("gone")
    return gate


@pytest.mark.parametrize("kind", ["memory", "durable"])
def test_the_newest_row_of_each_group_leads_to_the_same_state(kind: str, tmp_path: Path) -> None:
    gate = history()
    store: Store = MemoryStore() if kind == "memory" else DurableStore(tmp_path)
    for event in gate.events:
        store.append([event])
    if isinstance(store, DurableStore):
        store.close()
        store = DurableStore(tmp_path)
    replayed = list(store.read())
    assert sum(type(event).__name__ == "GroupChanged" for event in replayed) <= 2, "one group, and at most one drop"
    admission = Admission()
    for event in replayed:
        admission.replay(event)
    assert admission.state()["groups"] == gate.admission.state()["groups"] != {}
    store.close()


def test_a_group_of_an_earlier_version_has_no_forming_event() -> None:
    row = encode_group(history().events[2])  # type: ignore[arg-type]
    facts = json.loads(row.body)
    group = decode_group(row, facts).group
    assert group is not None and group.formed == facts.pop("formed") == 3
    assert decode_group(row, facts).group == replace(group, formed=0)


def test_a_row_with_other_positions_is_damaged(tmp_path: Path) -> None:
    store = DurableStore(tmp_path)
    store.append(history().events[:3])
    store.close()
    (database,) = tmp_path.glob("*.db")
    with apsw.Connection(str(database)) as connection:
        connection.execute("UPDATE log SET refused = x'00' WHERE kind = 'group'")
    again = DurableStore(tmp_path)
    with pytest.raises(Internal, match="event 3 of the log is damaged"):
        list(again.read())
    again.close()


def test_rows_of_groups_are_found_apart_from_the_queries_of_their_stream(tmp_path: Path) -> None:
    store = DurableStore(tmp_path)
    store.append(history().events)
    store.close()
    (database,) = tmp_path.glob("*.db")
    with apsw.Connection(str(database)) as connection:
        rows = list(connection.execute("SELECT kind, stream FROM log WHERE kind IN ('group', 'ungroup')"))
        streams = {stream for (stream,) in connection.execute("SELECT stream FROM log WHERE kind NOT LIKE '%group'")}
    assert rows and not streams & {stream for _, stream in rows}, "a confirmation reads no row of a query"

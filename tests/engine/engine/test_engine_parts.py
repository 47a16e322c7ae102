"""The parts of a stream's state: each alone writes its fields, and what a part does not tell is found by `check`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import psoup.engine
from psoup.clauses.table import ClauseTable
from psoup.config import EngineConfig
from psoup.engine.stream.attention import Attention
from psoup.engine.stream.shelf import Shelf, Shelved
from psoup.engine.stream.state import StreamState
from psoup.errors import Corrupt
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.admission_gate import rows

SMALL = EngineConfig(chunk_rows=64, piece_rows=16)
MUTATORS = (
    {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop", "popitem", "popleft"}
    | {"remove", "setdefault", "sort", "update"}
)  # fmt: skip
"""Methods that change a list, a deque, a dict or a set."""


# Nobody writes another's field ---------------------------------------------------------------------------------


def own(target: ast.expr) -> bool:
    """Whether what is written belongs to whoever writes: a name, `self.field`, or what is inside one of these."""
    while isinstance(target, ast.Subscript | ast.Starred):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        return all(own(element) for element in target.elts)
    if isinstance(target, ast.Attribute):
        return isinstance(target.value, ast.Name) and target.value.id == "self"
    return True


def foreign_writes(source: str) -> Iterator[str]:
    """Places where a module writes, or changes in place, a field of something that is not `self`."""
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            targets = [node.func.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            targets = [ast.Attribute(node.args[0], "any")]
        for target in targets:
            if not own(target):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def test_no_module_of_the_engine_writes_a_field_of_another_part() -> None:
    folder = Path(psoup.engine.__file__).parent
    sources = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}
    assert len(sources) > 20
    assert not {f"{name} {write}" for name, source in sources.items() for write in foreign_writes(source)}


@pytest.mark.parametrize(
    "line",
    [
        "state.settled = False",
        "state.data.leaving.append(entry)",
        "self.open.gaps = gaps",
        "state.shelf.entries[0] = entry",
        "del state.shelf.entries[:2]",
        "state.queries -= 1",
        "told, state.news = state.news, []",
        "self.index.attributes.barred.discard(attribute)",
        "setattr(state, 'x', 1)",
    ],
)
def test_a_foreign_write_is_found(line: str) -> None:
    assert list(foreign_writes(line))


@pytest.mark.parametrize("line", ["self.x = 1", "self.x[3] = 1", "self.x.append(1)", "x = y.z", "x.append(1)"])
def test_an_own_write_is_none(line: str) -> None:
    assert not list(foreign_writes(line))


# What is not told is found -------------------------------------------------------------------------------------


def filled(pushed: int = 200) -> LocalPSoup:
    """Three chunks, all sealed, and an open one; two clauses."""
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 1000 ROWS")
    soup.register("SELECT x FROM s WHERE x > 5")
    soup.register("SELECT x FROM s WHERE x > 7")
    soup.push("s", rows(x=list(range(pushed))))
    soup.maintain()
    soup.check()
    return soup


def state_of(soup: LocalPSoup) -> StreamState:
    return soup.engine._streams[1]


CHANGES: dict[str, Callable[[LocalPSoup], object]] = {
    "push": lambda soup: soup.push("s", rows(x=[1, 2, 3])),
    "register": lambda soup: soup.register("SELECT x FROM s WHERE x > 90"),
    "another query of a clause": lambda soup: soup.register("SELECT x FROM s WHERE x > 5"),
    "unregister": lambda soup: soup.unregister(1),
    "alter": lambda soup: soup.execute("ALTER STREAM s ADD COLUMN y BIGINT"),
    "maintenance": lambda soup: soup.maintain(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_not_told_is_found_within_one_event(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    soup = filled()
    if name == "maintenance":
        soup.push("s", rows(x=list(range(64))))
    monkeypatch.setattr(Attention, "changed", lambda self: None)
    with pytest.raises(Corrupt, match=r"was not published|are not those of the streams"):
        CHANGES[name](soup)


def unregister_many(soup: LocalPSoup) -> None:
    """More clauses than are left; while they live, nothing is due."""
    ids = soup.register_many("SELECT x FROM s WHERE x > ?", [[number] for number in range(1_000, 1_200)])
    soup.maintain()
    soup.check()
    for query_id in ids:
        soup.unregister(query_id)


DUE: dict[str, Callable[[LocalPSoup], object]] = {
    "rules.seal_or_store": lambda soup: soup.push("s", rows(x=list(range(64)))),
    "cover.due": lambda soup: soup.register("SELECT x FROM s WHERE x > 90"),
    "tidy.due": unregister_many,
}


@pytest.mark.parametrize("name", DUE)
def test_work_that_is_due_and_not_told_is_found_within_one_event(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    soup = filled()
    monkeypatch.setattr(Attention, "look_after", lambda self: None)
    DUE[name](soup)
    with pytest.raises(Corrupt, match=f"the work .*{name}.* is overlooked"):
        soup.check()


def lose(shelf: Shelf) -> None:
    del shelf.entries[1]


def swap(shelf: Shelf) -> None:
    shelf.entries[0], shelf.entries[1] = shelf.entries[1], shelf.entries[0]


def repeat(shelf: Shelf) -> None:
    shelf.entries.append(shelf.entries[-1])


def count_as_archived(shelf: Shelf) -> None:
    shelf.archived += 1


def exchange_results(shelf: Shelf) -> None:
    for at in (0, 1):
        entry = shelf.entries[at]
        shelf.entries[at] = Shelved(entry.data, shelf.entries[2].results)


def miscount(shelf: Shelf) -> None:
    shelf.tuple_bytes += 1


def skip(shelf: Shelf) -> None:
    shelf.next_to_store += 9


@pytest.mark.parametrize("damage", [lose, swap, repeat, count_as_archived, exchange_results, miscount, skip])
def test_a_shelf_that_is_not_in_order_is_found(damage: Callable[[Shelf], None]) -> None:
    soup = filled()
    damage(state_of(soup).shelf)
    with pytest.raises(Corrupt):
        soup.check()


def forget_name(table: ClauseTable) -> None:
    table._names.forget(np.array([1]))


def lose_owner(table: ClauseTable) -> None:
    table._slots.sqc_of_slot[1] = 7


def release(table: ClauseTable) -> None:
    table._slots.release(np.array([1]))


def leave(table: ClauseTable) -> None:
    table._live.remove(np.array([2]))


def forget_next(table: ClauseTable) -> None:
    table.next_sqc = 2


@pytest.mark.parametrize("damage", [forget_name, lose_owner, release, leave, forget_next])
def test_a_clause_that_is_in_one_map_of_the_table_only_is_found(damage: Callable[[ClauseTable], None]) -> None:
    soup = filled()
    damage(state_of(soup).clauses.table)
    with pytest.raises(Corrupt):
        soup.check()


def test_an_open_chunk_that_does_not_follow_the_shelf_is_found() -> None:
    soup = filled()
    state_of(soup).data._begin(9, 640)
    with pytest.raises(Corrupt, match="the open chunk does not follow"):
        soup.check()


def test_a_feed_that_keeps_what_the_watermark_has_passed_is_found() -> None:
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM e (t TIMESTAMP, x BIGINT) TIMESTAMP BY t LATENESS 1 SECOND RETENTION 1000 ROWS")
    soup.push("e", rows(t=[0, 5, 9], x=[1, 2, 3]))
    soup.check()
    state_of(soup).feed._watermark = 10**9
    with pytest.raises(Corrupt, match="wait that the watermark has passed"):
        soup.check()


def test_an_open_chunk_that_is_closed_as_it_has_outlived_the_retention_is_stored_and_leaves() -> None:
    clock, stored = VirtualClock(0), list[int]()
    soup = LocalPSoup(SMALL, clock, keep=lambda stream_id, spec, chunk, oldest: stored.append(chunk.number))
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 10 SECONDS")
    soup.push("s", rows(x=[1, 2, 3]))
    soup.maintain()
    assert soup.engine.expire(60 * SECOND) == 0  # from the log they would come back
    soup.check()
    while (task := soup.engine.maintenance()) is not None:
        soup.engine.install(task.compute())
    assert stored == [0]
    assert soup.engine.expire(60 * SECOND) > 0
    soup.check()

"""Groups of followers in admission and in the engine: what is refused, and that positions only move forwards."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.admission import groups
from psoup.engine.engine import Engine
from psoup.errors import AlreadyExists, InvalidInput, NotFound, ResourceExhausted
from psoup.events.groups import (
    PARTITIONS,
    POSITION,
    ConfirmGroup,
    DropGroup,
    FormGroup,
    first_positions,
    later_positions,
    positions_array,
)
from psoup_testing.engines.admission_gate import Gate


@pytest.fixture
def gate() -> Gate:
    made = Gate(now=7)
    made.create("CREATE STREAM s (x BIGINT)")
    return made


def moved(**partitions: tuple[int, int]) -> bytes:
    """Positions with some partitions, such as p3, moved from (0, -1)."""
    positions = positions_array(first_positions(0)).copy()
    for name, position in partitions.items():
        positions[int(name[1:])] = position
    return positions.astype(POSITION).tobytes()


def test_positions_move_forwards_only(gate: Gate) -> None:
    gate.send(FormGroup("S", "mailer", "all", 0))
    gate.send(ConfirmGroup(1, "mailer", 2, moved(p0=(5, 2), p1=(4, -1))))
    gate.send(ConfirmGroup(1, "mailer", 2, moved(p0=(5, 1), p1=(4, 3), p2=(1, -1))))
    assert gate.send(ConfirmGroup(1, "mailer", 2, moved(p0=(2, 9)))).event is None, "nothing is further"
    engine = Engine()
    engine.apply(gate.events)
    group = engine.snapshot().groups[1, "mailer"]
    assert positions_array(group.positions)[:4].tolist() == [[5, 2], [4, 3], [1, -1], [0, -1]]
    assert (group.form, group.created, group.confirmed) == ("all", 7_000_000, 7_000_000)


@pytest.mark.parametrize("seed", range(20))
def test_the_later_position_is_the_greater_pair(seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = (random.integers(-1, 3, (PARTITIONS, 2)).astype(POSITION) for _ in range(2))
    later = positions_array(later_positions(left.tobytes(), right.tobytes())).tolist()
    assert later == [max(pair) for pair in zip(left.tolist(), right.tolist(), strict=True)]


def test_a_confirmation_of_a_removed_group_does_not_move_the_one_that_was_formed_again(gate: Gate) -> None:
    gate.send(FormGroup("s", "mailer", "all", 0))
    gate.send(DropGroup("s", "mailer"))
    gate.send(FormGroup("s", "mailer", "all", 0))
    with pytest.raises(NotFound, match=r"there is no group 'mailer' .* or it was removed"):
        gate.send(ConfirmGroup(1, "mailer", 2, moved(p0=(5, -1))))
    gate.send(ConfirmGroup(1, "mailer", 4, moved(p1=(3, -1))))
    engine = Engine()
    engine.apply(gate.events)
    group = engine.snapshot().groups[1, "mailer"]
    assert (group.formed, positions_array(group.positions)[:2].tolist()) == (4, [[0, -1], [3, -1]])


def test_an_equal_group_is_formed_once(gate: Gate) -> None:
    gate.send(FormGroup("s", "mailer", "all", 0))
    assert gate.send(FormGroup("s", "mailer", "all", 99)).event is None
    with pytest.raises(AlreadyExists, match="formed with all, and this worker asks for labels user"):
        gate.send(FormGroup("s", "mailer", "labels user", 0))


def test_a_dropped_group_and_the_groups_of_a_dropped_stream_are_gone(gate: Gate) -> None:
    for name in ("a", "b"):
        gate.send(FormGroup("s", name, "all", 0))
    gate.send(DropGroup("s", "a"))
    for command in (DropGroup("s", "a"), ConfirmGroup(1, "a", 2, moved(p0=(1, 1)))):
        with pytest.raises(NotFound, match="there is no group 'a'"):
            gate.send(command)
    with pytest.raises(NotFound, match="there is no group 'b'"):
        gate.send(ConfirmGroup(1, "b", 3, moved(p0=(1, 1)), tenant="acme"))
    gate.drop("s")
    engine = Engine()
    engine.apply(gate.events)
    assert (dict(engine.snapshot().groups), gate.admission.state()["groups"]) == ({}, {})


@pytest.mark.parametrize("name", ["", "-x", "a b", "ä", "x" * 65])
def test_names_are_bounded(gate: Gate, name: str) -> None:
    with pytest.raises(InvalidInput, match="not a valid name of a group"):
        gate.send(FormGroup("s", name, "all", 0))


def test_the_number_of_groups_is_bounded(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    gate.create("CREATE STREAM t (x BIGINT)")
    gate.create("CREATE STREAM of_acme (x BIGINT)", tenant="acme")
    monkeypatch.setattr(groups, "MOST_OF_STREAM", 2)
    monkeypatch.setattr(groups, "MOST_GROUPS", 4)
    monkeypatch.setattr(groups, "MOST_OF_TENANT", 1)
    gate.send(FormGroup("of_acme", "a", "all", 0, "acme"))
    with pytest.raises(ResourceExhausted, match="tenant 'acme' has 1 groups"):
        gate.send(FormGroup("of_acme", "b", "all", 0, "acme"))
    for stream, name in (("s", "a"), ("s", "b"), ("t", "a")):
        gate.send(FormGroup(stream, name, "all", 0))
    for stream, place in (("s", "this stream has 2 groups"), ("t", "the service has 4 groups")):
        with pytest.raises(ResourceExhausted, match=place):
            gate.send(FormGroup(stream, "c", "all", 0))
    assert gate.send(FormGroup("s", "a", "all", 0)).event is None, "an old group is not refused"

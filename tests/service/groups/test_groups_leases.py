"""Leases of a group, with the time as an argument: shares, deadlines, and workers that come and go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from psoup.answer.follow.told import FollowWanted
from psoup.errors import FailedPrecondition, NotFound, ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command
from psoup.events.groups import (
    PARTITIONS,
    DropGroup,
    FollowerGroup,
    FormGroup,
    GroupChanged,
    first_positions,
    positions_array,
)
from psoup_service.groups.confirmations import Confirmations
from psoup_service.groups.groups import Groups
from psoup_service.groups.leases import Worker, Workers
from psoup_testing.engines.admission_gate import Gate


@pytest.fixture
def workers() -> Workers:
    return Workers(FollowerGroup("default", 1, "mailer", "{}", first_positions(5), 0), FollowWanted())


def shares(workers: Workers) -> list[int]:
    """The numbers of partitions; no partition may have two workers."""
    owners = np.array([worker.partitions for worker in workers.all()])
    assert not len(owners) or owners.sum(axis=0).max() <= 1
    return [worker.count for worker in workers.all()]


def test_partitions_are_shared_equally_as_workers_come_and_go(workers: Workers) -> None:
    early = workers.join("one", 10, 0)
    workers.take(early, 0)
    assert shares(workers) == [64]
    two, three = (workers.join(name, 10, 0) for name in ("two", "three"))
    workers.take(two, 0)
    assert shares(workers) == [64, 0, 0], "nothing is free before the first worker calls"
    for worker in (early, two, three, early):
        workers.take(worker, 1)
    assert sorted(shares(workers)) == [20, 22, 22]
    workers.leave(two)
    for worker in (early, three):
        workers.take(worker, 2)
    assert shares(workers) == [32, 32]


def test_a_lease_ends_at_its_deadline_and_not_during_a_call(workers: Workers) -> None:
    slow, other = workers.join("slow", 10, 0), workers.join("other", 10, 0)
    workers.take(slow, 0)
    slow.calls = 1
    workers.take(other, 11)
    assert workers.has(slow) and not other.deadline > 11
    slow.calls = 0
    with pytest.raises(FailedPrecondition, match="the lease of this worker of group 'mailer' is over") as lost:
        workers.known(slow.lease, 12)
    assert lost.value.reason == "LEASE_LOST"


def test_lists_leave_out_a_worker_that_died(workers: Workers) -> None:
    async def listed() -> list[str]:
        host: Any = SimpleNamespace(submit=print)
        groups = Groups(host, lambda: 0)
        groups._groups[1, "mailer"] = workers
        now = asyncio.get_running_loop().time()
        workers.join("dead", 1, now - 10)
        workers.join("alive", 600, now - 10)
        leased = groups.leased(workers.group)
        return [worker.name for worker in ([] if leased is None else leased.all())]

    assert asyncio.run(listed()) == ["alive"]


def test_confirmations_of_two_lives_of_a_group_stay_apart() -> None:
    """A confirmation that is pending for a removed group fails. The group formed again keeps its positions."""
    gate = Gate()
    gate.create("CREATE STREAM s (x BIGINT)")

    async def submit(command: Command) -> Acknowledgement:
        return gate.send(command).acknowledgement

    def formed() -> FollowerGroup:
        event = gate.send(FormGroup("s", "mailer", "{}", 0)).event
        assert isinstance(event, GroupChanged) and event.group is not None
        return event.group

    async def body() -> list[int | BaseException]:
        confirmations, old = Confirmations(submit), formed()
        gate.send(DropGroup("s", "mailer"))
        pending = [confirmations.confirm(old, first_positions(9)), confirmations.confirm(formed(), first_positions(2))]
        return await asyncio.gather(*pending, return_exceptions=True)

    lost, sequence = asyncio.run(body())
    assert isinstance(lost, NotFound) and sequence == gate.admission.sequence
    (event,) = [event for event in gate.events if event.sequence == sequence]
    assert isinstance(event, GroupChanged) and event.group is not None
    assert event.group.positions == first_positions(2)


def test_what_was_not_confirmed_stays_at_its_position(workers: Workers) -> None:
    early = workers.join("one", 10, 0)
    workers.take(early, 0)
    delivery = workers.give(early, (9, 3), 0)
    assert positions_array(workers.after(delivery)).tolist() == [[9, 3]] * PARTITIONS
    workers.expire(11)
    assert workers.positions.tolist() == [[5, -1]] * PARTITIONS
    two = workers.join("two", 10, 11)
    workers.take(two, 11)
    again = workers.give(two, (9, 3), 11)
    workers.confirm(two, again)
    assert workers.positions.tolist() == [[9, 3]] * PARTITIONS
    assert workers.delivered(two, again.number) is None, "a repeated confirmation is harmless"
    for number in (0, again.number + 1):
        if number != two.confirmed:
            with pytest.raises(FailedPrecondition, match="over"):
                workers.delivered(two, number)


def test_positions_of_partitions_do_not_go_back(workers: Workers) -> None:
    early: Worker = workers.join("one", 10, 0)
    workers.take(early, 0)
    first = workers.give(early, (9, -1), 0)
    workers.confirm(early, first)
    workers.passed(early.partitions, (7, -1))
    assert workers.positions.tolist() == [[9, -1]] * PARTITIONS


def test_there_are_at_most_as_many_workers_as_partitions(workers: Workers) -> None:
    for number in range(PARTITIONS):
        workers.take(workers.join(f"w{number}", 10, 0), 0)
    with pytest.raises(ResourceExhausted, match="has 64 workers"):
        workers.join("more", 10, 0)
    assert workers.join("later", 10, 11).count == 0, "all other leases are over"

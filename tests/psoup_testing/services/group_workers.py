"""Workers of a group at random: each pair of a tuple and a query is told at least once, and not after its confirmation.

A worker joins, takes, confirms, takes with a confirmation, leaves, or dies without a word. The account knows which
pairs were told, and which confirmations were acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from psoup_client import Client, FailedPrecondition
from psoup_client.follow import tables_of
from psoup_proto.v1 import groups_pb2

Pair = tuple[int, str]


@dataclass
class Account:
    """All pairs that were told, those whose confirmation was acknowledged, and those whose confirmation is unsure."""

    given: set[Pair] = field(default_factory=set)
    confirmed: set[Pair] = field(default_factory=set)
    unsure: set[Pair] = field(default_factory=set)

    def tell(self, pairs: set[Pair]) -> None:
        """Note a batch. Raises AssertionError if a confirmed pair comes again."""
        again = pairs & self.confirmed
        assert not again, f"told again after an acknowledged confirmation: {sorted(again)[:5]}"
        self.given |= pairs


@dataclass
class GroupMember:
    """A worker of group `mailer`. `wait`: the most seconds of a call."""

    client: Client
    stream: str
    account: Account
    lease_s: int = 1
    lease: str = ""
    batch: int = 0
    pairs: set[Pair] = field(default_factory=set)

    def take(self, *, confirm: bool, wait: int = 0, limit: int = 7) -> bool:
        """Take a batch. Returns whether there was one; False too if the lease was over."""
        request = groups_pb2.TakeBatchRequest(
            stream=self.stream,
            group="mailer",
            lease=self.lease,
            confirm=self.batch if confirm else 0,
            after="start",
            max_rows=limit,
            wait_seconds=wait,
            lease_seconds=self.lease_s,
        )
        try:
            reply = self.client.connection.call(self.client.connection.groups.TakeBatch, request)
        except FailedPrecondition as problem:
            assert problem.reason == "LEASE_LOST"
            self.lease, self.batch, self.pairs = "", 0, set()
            return False
        if confirm:
            self.account.confirmed |= self.pairs
        self.lease, self.batch = reply.lease, reply.batch
        matches = tables_of(reply)[1]
        self.pairs = set(zip(matches["tuple_id"].to_pylist(), matches["query_id"].to_pylist(), strict=True))
        self.account.tell(self.pairs)
        return bool(reply.batch)

    def confirm(self) -> None:
        """Confirm the batch, if there is one."""
        request = groups_pb2.ConfirmBatchRequest(stream=self.stream, group="mailer", lease=self.lease, batch=self.batch)
        if not self.batch:
            return
        try:
            self.client.connection.call(self.client.connection.groups.ConfirmBatch, request)
        except FailedPrecondition as problem:
            assert problem.reason == "LEASE_LOST"
            self.lease = ""
        else:
            self.account.confirmed |= self.pairs
        self.batch, self.pairs = 0, set()

    def leave(self) -> None:
        """Give the lease back."""
        request = groups_pb2.LeaveGroupRequest(stream=self.stream, group="mailer", lease=self.lease)
        self.client.connection.call(self.client.connection.groups.LeaveGroup, request)
        self.lease, self.batch, self.pairs = "", 0, set()


def drain(members: list[GroupMember], wanted: set[Pair]) -> None:
    """Let all workers leave, and one go on, until all wanted pairs are confirmed."""
    member = GroupMember(members[0].client, members[0].stream, members[0].account, lease_s=30)
    for other in members:
        if other.lease:
            other.leave()
    for _ in range(1_000):
        member.take(confirm=member.batch != 0, wait=1, limit=1_000)  # at most the leases of dead workers are waited for
        account = members[0].account
        if wanted <= account.confirmed | account.unsure:
            return
    raise AssertionError(f"never told: {sorted(wanted - account.confirmed - account.unsure)[:5]}")

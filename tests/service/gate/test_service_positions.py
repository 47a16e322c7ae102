"""Positions of followers from outside: damaged bit by bit, of another tenant, of other data, of a later format."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest

from psoup.answer.follow.kept_entries import FollowPlace
from psoup.config import EngineConfig
from psoup.errors import InvalidInput
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_proto.v1 import follow_pb2
from psoup_service.following.positions import PositionLost, Positions
from psoup_service.sync.tokens import ClientRows, Tokens
from psoup_storage import MemoryStore

PLACE = FollowPlace(3, 7)


@pytest.fixture
def soup() -> LocalPSoup:
    """An engine with ten tuples."""
    made = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(10**9))
    made.execute("CREATE STREAM s (n BIGINT)")
    made.push("s", pa.table({"n": range(10)}))
    return made


def outcome(positions: Positions, soup: LocalPSoup, text: str, tenant: str = "default") -> object:
    """The place that a position is read as, or the reason of its refusal."""
    snapshot = soup.engine.snapshot()
    try:
        return positions.read(text, tenant, snapshot, snapshot.stream("s", "default"), 10**9)
    except PositionLost as lost:
        return follow_pb2.FollowResetReason.Name(lost.reset.reason).removeprefix("FOLLOW_RESET_REASON_")
    except InvalidInput as refused:
        return refused.reason


def test_no_bit_of_a_position_can_be_changed(soup: LocalPSoup) -> None:
    tokens = Tokens(MemoryStore(), "00000001")
    positions = Positions(tokens)
    text = positions.write(PLACE, 1, "default", 2)
    assert outcome(positions, soup, text) == PLACE and len(text) < 100
    raw, seen = base64.urlsafe_b64decode(text[3:] + "=" * (-len(text[3:]) % 4)), set[object]()
    for bit in range(8 * len(raw)):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        seen.add(outcome(positions, soup, f"p1-{base64.urlsafe_b64encode(damaged).decode().rstrip('=')}"))
    assert seen == {"KEY", "INCARNATION", "ROLLED_BACK", "POSITION_INVALID"}
    for length in range(len(text)):
        assert outcome(positions, soup, text[:length]) == "POSITION_INVALID"


def test_a_position_belongs_to_its_tenant_its_data_and_its_stream(soup: LocalPSoup) -> None:
    tokens = Tokens(MemoryStore(), "00000001")
    positions = Positions(tokens)
    text = positions.write(PLACE, 1, "default", 2)
    assert outcome(positions, soup, text, "acme") == "POSITION_INVALID"
    assert outcome(Positions(Tokens(MemoryStore(), "00000001")), soup, text) == "ROLLED_BACK"
    assert outcome(Positions(Tokens(MemoryStore(), "00000002")), soup, text) == "INCARNATION"
    assert outcome(positions, soup, text.replace("p1-", "p2-")) == "FORMAT"
    assert outcome(positions, soup, positions.write(PLACE, 9, "default", 2)) == "OTHER_STREAM"
    soup.execute("CREATE STREAM t (n BIGINT)")
    other = positions.write(PLACE, 2, "default", 2)
    assert outcome(positions, soup, other) == "POSITION_OF_ANOTHER_STREAM"
    assert outcome(positions, soup, positions.write(FollowPlace(11), 1, "default", 2)) == "ROLLED_BACK"
    assert outcome(positions, soup, positions.write(PLACE, 1, "default", 99)) == "ROLLED_BACK"
    assert outcome(positions, soup, positions.write(FollowPlace(-1), 1, "default", 2)) == "NOT_KEPT"
    assert outcome(positions, soup, "start") == FollowPlace(0)


def test_a_token_of_a_copy_is_not_a_position(soup: LocalPSoup) -> None:
    tokens = Tokens(MemoryStore(), "00000001")
    token = tokens.write(ClientRows(7, bytes(4), ((0, 3),)), "default", 2)
    text = f"p1-{base64.urlsafe_b64encode(token).decode().rstrip('=')}"
    assert outcome(Positions(tokens), soup, text) == "POSITION_INVALID"

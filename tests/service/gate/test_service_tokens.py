"""Tokens of copies, and lives of data directories: what is damaged is refused, what is of other data begins anew."""

from __future__ import annotations

import pytest

from psoup.answer.copies.answer_again import Earlier
from psoup.errors import InvalidInput
from psoup_proto.v1 import sync_pb2
from psoup_service.sync.lives import LIFE_BYTES, Lives
from psoup_service.sync.tokens import MOST_BYTES, Again, ClientRows, Tokens, digest, digest_of_window
from psoup_storage import MemoryStore

INCARNATION = "0badcafe"
RESETS = ((1, "RESET_FORMAT"), (2, "RESET_KEY"), (6, "RESET_INCARNATION"), (6 + LIFE_BYTES, "RESET_ROLLED_BACK"))
"""What it means that a byte of a token below the number is another one."""
RANGES = ClientRows(7, bytes(4), ((-9, 3), (5, 2**62), (2**62 + 5, 2**63 - 1)))
WHOLE = ClientRows(2**40 + 3, digest_of_window("BEGIN (START)", True), digest=digest(b"rows"))

EIGHT = tuple((-place, 2**62 + place) for place in range(8))
AGAIN = ClientRows(9, bytes(4), earlier=Earlier(EIGHT, -5, 2**40, digest(b"rows"), True))
UNSEEN = ClientRows(9, bytes(4), earlier=Earlier(((0, 0),), None, 0, digest(b"")))


def why(tokens: Tokens, token: bytes, tenant: str = "t", newest: int = 10) -> str:
    """What reading a token ends with."""
    try:
        tokens.read(token, tenant, newest)
    except Again as again:
        return sync_pb2.Reset.Name(again.reset)
    except InvalidInput as refused:
        return refused.reason
    return "read"


@pytest.mark.parametrize("held", [RANGES, WHOLE, AGAIN, UNSEEN, ClientRows(1, bytes(4))])
def test_a_token_says_what_was_written(held: ClientRows) -> None:
    tokens = Tokens(MemoryStore(), INCARNATION)
    token = tokens.write(held, "t", 10)
    assert tokens.read(token, "t", 10) == held
    assert len(token) <= min(MOST_BYTES, 80 + 32 * 8)


@pytest.mark.seeded("a token of a copy is not bound to a tenant")
def test_every_damage_is_noticed() -> None:
    tokens = Tokens(MemoryStore(), INCARNATION)
    for held in (RANGES, WHOLE, AGAIN):
        token = tokens.write(held, "t", 10)
        for bit in range(8 * len(token)):
            changed = bytearray(token)
            changed[bit // 8] ^= 1 << bit % 8
            wanted = next((reset for end, reset in RESETS if bit // 8 < end), "TOKEN_INVALID")
            assert why(tokens, bytes(changed)) == wanted
        assert {why(tokens, token[:size]) for size in range(1, len(token))} == {"TOKEN_INVALID"}
        assert why(tokens, token + b"x") == why(tokens, token + bytes(99)) == "TOKEN_INVALID"
        assert why(tokens, token, tenant="u") == "TOKEN_INVALID", "a token of another tenant"
    assert why(tokens, b"") == "RESET_FIRST"


def test_tokens_of_other_data_begin_anew() -> None:
    store = MemoryStore()
    tokens = Tokens(store, INCARNATION)
    token = tokens.write(RANGES, "t", 10)
    assert why(tokens, token, newest=9) == "RESET_ROLLED_BACK", "an event that has not happened"
    assert why(Tokens(store, "00000001"), token) == "RESET_INCARNATION"
    assert why(Tokens(MemoryStore(), INCARNATION), token) == "RESET_ROLLED_BACK", "a life of another directory"


class Kept(MemoryStore):
    """A store with notes, whose events are only counted."""

    def __init__(self, notes: dict[str, str], sequence: int) -> None:
        super().__init__()
        self._notes, self._sequence_ = notes, sequence

    @property
    def sequence(self) -> int:
        return self._sequence_


def test_a_life_ends_where_the_next_begins() -> None:
    notes = dict[str, str]()
    first = Lives(Kept(notes, 0))
    assert first.has(first.present, 120, 120) and not first.has(first.present, 121, 120)
    snapshot = dict(notes)
    second = Lives(Kept(notes, 120))
    assert second.has(first.present, 120, 150) and not second.has(first.present, 121, 150)
    assert second.has(second.present, 150, 150)
    back = Lives(Kept(snapshot, 90))  # the directory as it was in the first life
    assert back.has(first.present, 90, 200) and not back.has(first.present, 100, 200)
    assert not back.has(second.present, 1, 200), "a life of the directory that was not put back"
    assert back.has(back.present, 200, 200)


@pytest.mark.parametrize("note", ["nonsense", "zz:1", "00:1:2", ",", "00"])
def test_notes_that_cannot_be_read_are_as_none(note: str) -> None:
    notes = {"lives": note, "sync-keys": note}
    tokens = Tokens(Kept(notes, 5), INCARNATION)
    token = tokens.write(RANGES, "t", 10)
    assert Tokens(Kept(notes, 10), INCARNATION).read(token, "t", 10) == RANGES

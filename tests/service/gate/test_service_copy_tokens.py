"""Tokens of copies from outside: damaged bit by bit, made up with the right signature, of other keys and tenants."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.config import EngineConfig
from psoup.errors import InvalidInput
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_cli.app import app
from psoup_proto.v1 import sync_pb2
from psoup_service.host.ids import Ids
from psoup_service.sync import tokens as module
from psoup_service.sync.changes import Copies
from psoup_service.sync.keys import rotate
from psoup_service.sync.tokens import Again, ClientRows, Tokens
from psoup_storage import DurableStore, MemoryStore
from psoup_testing.suite.budget import SEED, places

HELD = ClientRows(7, bytes(4), ((-5, 3), (9, 2**40)))


def signed(tokens: Tokens, token: bytes, change: Callable[[bytearray], object], tenant: str = "default") -> bytes:
    """A token whose body was changed by one who knows the key."""
    body = bytearray(token[:-16])
    change(body)
    return bytes(body) + module._signature(next(iter(tokens.keys.values())), tenant, bytes(body))


def outcome(tokens: Tokens, token: bytes, tenant: str = "default", newest: int = 100) -> str:
    try:
        return str(tokens.read(token, tenant, newest))
    except Again as again:
        return str(again)
    except InvalidInput as refused:
        return refused.reason


def test_no_bit_of_a_token_can_be_changed() -> None:
    tokens = Tokens(MemoryStore(), "00000001")
    token = tokens.write(HELD, "default", 100)
    said = set()
    for bit in range(8 * len(token)):
        damaged = bytearray(token)
        damaged[bit // 8] ^= 1 << bit % 8
        said.add(outcome(tokens, bytes(damaged)))
    assert said == {"RESET_FORMAT", "RESET_KEY", "RESET_INCARNATION", "RESET_ROLLED_BACK", "TOKEN_INVALID"}


def test_tokens_of_any_length_and_content_are_refused_or_begin_anew() -> None:
    tokens, draw = Tokens(MemoryStore(), "00000001"), random.Random(3)
    token = tokens.write(HELD, "default", 100)
    allowed = {"RESET_FIRST", "RESET_FORMAT", "RESET_KEY", "RESET_INCARNATION", "RESET_ROLLED_BACK", "TOKEN_INVALID"}
    for size in range(len(token)):
        assert outcome(tokens, token[:size]) in allowed
        assert outcome(tokens, token + token[: size + 1]) in allowed
        assert outcome(tokens, b"\x01" + draw.randbytes(size)) in allowed


@pytest.mark.seeded("the signature of a token leaves the tenant out")
def test_a_token_is_of_one_tenant_and_one_query() -> None:
    tokens = Tokens(MemoryStore(), "00000001")
    assert outcome(tokens, tokens.write(HELD, "default", 1), tenant="other") == "TOKEN_INVALID"
    assert outcome(tokens, tokens.write(HELD, "other", 1)) == "TOKEN_INVALID"
    assert outcome(tokens, tokens.write(HELD, "default", 101)) == "RESET_ROLLED_BACK"
    assert outcome(tokens, tokens.write(HELD, "default", 100)) == str(HELD)


def test_no_token_that_was_changed_is_accepted() -> None:
    """T27: changed, cut, put together of two, or of another tenant: what is read is what was written, or nothing."""
    tokens, draw = Tokens(MemoryStore(), "00000001"), random.Random(SEED)
    written = dict[tuple[bytes, str], ClientRows]()
    for number in range(40):
        ends = sorted(draw.sample(range(-500, 500), 2 * draw.randrange(1, 5)))
        held = ClientRows(number % 7, bytes([number % 3]) * 4, tuple(zip(ends[::2], ends[1::2], strict=True)))
        tenant = f"t{number % 4}"
        written[tokens.write(held, tenant, draw.randrange(100)), tenant] = held
    known = [token for token, _ in written]

    def changed(token: bytes, other: bytes) -> bytes:
        at, to = draw.randrange(len(token)), draw.randrange(len(other))
        return (
            token,
            token[:at] + other[to:],
            token[:at] + bytes([draw.randrange(256)]) + token[at + 1 :],
            token[:at] + token[at + 1 :],
            token[:-16] + other[-16:],
            token[: module._HEAD.size] + other[module._HEAD.size :],
            token + draw.randbytes(8),
        )[draw.randrange(7)]

    accepted = 0
    for _ in places(100_000, 5_000):
        token, tenant = changed(draw.choice(known), draw.choice(known)), f"t{draw.randrange(4)}"
        try:
            held = tokens.read(token, tenant, 100)
        except (Again, InvalidInput):
            assert (token, tenant) not in written
            continue
        accepted += 1
        assert held == written[token, tenant]
    assert accepted, "none was left as it was"


def interval(*pairs: tuple[int, int]) -> Callable[[bytearray], object]:
    def put(body: bytearray) -> None:
        body[module._HEAD.size :] = b"".join(struct.pack("<qq", *pair) for pair in pairs)

    return put


def kind(number: int) -> Callable[[bytearray], object]:
    def put(body: bytearray) -> None:
        body[module._HEAD.size - 1] = number

    return put


@pytest.mark.parametrize(
    "change",
    [
        interval((0, 5), (3, 9)),
        interval((5, 0)),
        interval((3, 3)),
        interval((0, 2), (2, 4)),
        interval((9, 12), (0, 4)),
        interval(*[(10 * n, 10 * n + 5) for n in range(5)]),
        interval((-(2**63), 2**63 - 1)),
        interval((0, 2**62)),
        lambda body: body.extend(b"123"),
        kind(4),
        kind(255),
        kind(3),
        kind(2),
        kind(1),
    ],
    ids=["overlap", "reversed", "empty", "touch", "order", "five", "all", "far", "odd", "4", "255", "3", "2", "1"],
)
def test_what_a_signature_covers_still_has_to_make_sense(change: Callable[[bytearray], object]) -> None:
    """Nobody without the key makes such tokens; a defect might. No answer is wrong, and nothing breaks."""
    soup, store = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(10**15)), MemoryStore()
    soup.execute("CREATE STREAM s (n BIGINT)")
    query = soup.register("SELECT n FROM s BEGIN (START)")
    soup.push("s", pa.table({"n": range(200)}))
    tokens = Tokens(store, "00000001")
    snapshot = soup.engine.snapshot()
    right = tokens.write(HELD._replace(query_id=query, intervals=((0, 50),)), "default", snapshot.sequence)
    copies = Copies(snapshot, tokens, Ids("00000001"), "default", 10**15, ReadBudget(), sync_pb2.ENCODING_ARROW)
    want = sync_pb2.Want(token=signed(tokens, right, change))
    try:
        told = copies.change(None, want, None, 10**6, 10**6)
    except InvalidInput as refused:
        assert refused.reason == "TOKEN_INVALID"
    else:
        assert told is not None and told.complete


def key_of(path: Path) -> Tokens:
    store = DurableStore(path)
    try:
        return Tokens(store, "00000001")
    finally:
        store.close()


def test_keys_are_changed_between_two_lives(tmp_path: Path) -> None:
    path = tmp_path / "data"
    given = [key_of(path)]
    held = [given[0].write(HELD, "default", 0)]
    for _ in range(2):
        ran = CliRunner().invoke(app, ["doctor", str(path), "--rotate-key"])
        assert ran.exit_code == 0 and "new key" in ran.output, ran.output
        given.append(key_of(path))
        held.append(given[-1].write(HELD, "default", 0))
    assert [outcome(given[-1], token, newest=0) for token in held] == ["RESET_KEY", str(HELD), str(HELD)]
    assert outcome(given[1], held[0], newest=0) == str(HELD)
    store = DurableStore(path)
    refused = CliRunner().invoke(app, ["doctor", str(path), "--rotate-key"])
    assert refused.exit_code == 2 and "in use" in refused.output.replace("\n", " "), refused.output
    store.close()
    assert CliRunner().invoke(app, ["doctor", str(path), "--rotate-key", "--repair"]).exit_code == 2
    assert CliRunner().invoke(app, ["doctor", str(tmp_path / "none"), "--rotate-key"]).exit_code == 2


@pytest.mark.seeded("the number of a key is given again after data were put back")
def test_a_key_of_a_life_that_was_put_back_is_not_taken_for_another(tmp_path: Path) -> None:
    """Put back and rotated again, a directory gives the number of a key that is gone to another key."""
    path, before = tmp_path / "data", tmp_path / "before"
    key_of(path)
    shutil.copytree(path, before)
    rotate(path)
    token = key_of(path).write(HELD, "default", 0)
    shutil.rmtree(path)
    shutil.copytree(before, path)
    rotate(path)
    assert outcome(key_of(path), token, newest=0) == "RESET_ROLLED_BACK"


def test_lives_end_where_any_later_one_began(tmp_path: Path) -> None:
    """Also if the database alone was put back, and the note beside it tells of more."""
    store = MemoryStore()
    store.note("lives", "00000000000000aa:0,00000000000000bb:120")
    lives = module.Lives(store)  # which has no event
    assert not lives.has(bytes.fromhex("00000000000000aa"), 100, 0)
    assert lives.has(bytes.fromhex("00000000000000aa"), 0, 0)
    assert not lives.has(bytes.fromhex("00000000000000bb"), 120, 0)

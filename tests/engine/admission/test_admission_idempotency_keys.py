"""Idempotency keys: each request is taken once, until its key is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from psoup.admission.rows.idempotency_keys import KEY_BYTES, is_key, key_name
from psoup.admission.rows.producers import ACKNOWLEDGEMENT_BYTES, PRODUCER_BYTES
from psoup.config import EngineConfig
from psoup.errors import Conflict, InvalidInput, NotFound, PSoupError, ResourceExhausted
from psoup.events.commands import Locate, Push
from psoup.events.tenants import AlterTenant
from psoup.model import DEFAULT_TENANT, SECOND
from psoup_testing.engines.admission_gate import Gate, rows


def make(**settings: int) -> Gate:
    gate = Gate(EngineConfig(**{"key_idle": 60 * SECOND, **settings}))  # type: ignore[arg-type]
    gate.create("CREATE STREAM s (x BIGINT)")
    return gate


def push(gate: Gate, key: str, digest: bytes = b"body", **more: Any) -> Any:
    command = Push("s", rows(x=[1, 2]), key_name(key), digest=digest, **more)
    return gate.send(command).acknowledgement


def refused(kind: type[PSoupError], reason: str, gate: Gate, key: str, **more: Any) -> None:
    with pytest.raises(kind) as caught:
        push(gate, key, **more)
    assert caught.value.reason == reason


def test_names_of_keys_have_a_form_of_their_own() -> None:
    assert is_key(key_name("a")) and key_name("a") != key_name("b")
    assert not is_key("idempotency-key:a") and not is_key(key_name("a").upper()) and not is_key(key_name("a") + "\n")


def test_a_repeat_is_acknowledged_and_another_body_is_refused() -> None:
    gate = make()
    first = push(gate, "a")
    again = push(gate, "a")
    assert (again.duplicate, again.sequence, again.accepted) == (True, first.sequence, 2)
    refused(Conflict, "KEY_REUSED", gate, "a", digest=b"other")
    refused(InvalidInput, "INVALID_INPUT", gate, "b", number=1)
    refused(InvalidInput, "INVALID_INPUT", gate, "b", epoch=1)
    assert len(gate.events) == 2
    with pytest.raises(NotFound):
        gate.send(Locate("s", key_name("a")))


@pytest.mark.seeded("a key is not forgotten, or before its time")
def test_a_key_is_forgotten_after_its_time() -> None:
    gate = make()
    push(gate, "a")
    gate.now = 60
    assert push(gate, "a").duplicate
    gate.now = 61
    assert not push(gate, "a").duplicate
    assert gate.admission.producer_bytes == KEY_BYTES


def test_too_many_keys_are_refused_until_some_are_forgotten() -> None:
    gate = make(idempotency_keys=2)
    push(gate, "a")
    gate.now = 30
    push(gate, "b")
    refused(ResourceExhausted, "TOO_MANY_KEYS", gate, "c")
    assert push(gate, "a").duplicate
    gate.now = 61
    assert not push(gate, "c").duplicate


def test_keys_take_no_place_of_producers() -> None:
    gate = make(producers=1, producer_rest=0)
    gate.send(AlterTenant(DEFAULT_TENANT, {"producers": 1}))
    gate.produce(0, rows(x=[1]))
    for key in "abc":
        push(gate, key)
    assert gate.admission.producer_bytes == PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES + 3 * KEY_BYTES
    gate.now = 1
    gate.produce(0, rows(x=[1]), producer="other", since=gate.admission.sequence)
    assert push(gate, "a").duplicate, "a producer that makes way takes no key with it"
    assert not push(gate, "d").duplicate

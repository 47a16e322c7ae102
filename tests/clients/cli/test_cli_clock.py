"""psoup clock and psoup status of a service whose machine's wall clock was set."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest

from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_testing.services.command import Psoup
from psoup_testing.services.machine_clocks import Machine
from psoup_testing.services.threaded_service import serving


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, psoup: Psoup) -> Iterator[Machine]:
    """A machine with a service, to which commands talk."""
    machine = Machine()
    with serving(Settings(port=0), machine.clock) as service:
        monkeypatch.setenv("PSOUP_ADDRESS", service.address)
        yield machine


def lines(text: str) -> dict[str, str]:
    """Pairs that a command printed."""
    return dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in text.splitlines())


def test_a_clock_that_is_followed(psoup: Psoup, machine: Machine) -> None:
    ran = psoup("clock")
    assert (ran.code, ran.err) == (0, "")
    assert lines(ran.out) == {
        "wall clock": "2026-09-21 14:13:20Z",
        "service time": "2026-09-21 14:13:20Z",
        "difference": "0:00:00",
        "steps since the start": "0",
    }
    assert lines(psoup("status").out)["clock"] == "the wall clock"
    ran = psoup("clock", "accept")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "The service follows the wall clock already: it is 2026-09-21 14:13:20Z.\n"


def test_a_step_is_shown_and_accepted(psoup: Psoup, machine: Machine) -> None:
    machine.set_forward(7_200)
    machine.pass_seconds(60)
    ran = psoup("clock")
    assert lines(ran.out) == {
        "wall clock": "2026-09-21 16:14:20Z",
        "service time": "2026-09-21 14:14:20Z",
        "difference": "2:00:00",
        "set forward at": "2026-09-21 14:13:21Z",
        "followed in": "0:09:01",
        "steps since the start": "1",
    }
    assert ran.err.startswith("If the wall clock is right, accept it now: psoup clock accept.")
    assert (
        lines(psoup("status").out)["clock"] == "the wall clock is 2:00:00 ahead, followed in 0:09:01; see psoup clock"
    )
    (row,) = psoup("clock", "--json").rows
    assert row == {
        "wall": "2026-09-21T16:14:20Z",
        "time": "2026-09-21T14:14:20Z",
        "pending_since": "2026-09-21T14:13:21Z",
        "followed_in": 541.0,
        "steps": 1,
        "last_time": "2026-09-21T14:14:20Z",
        "ahead": 7_200.0,
        "behind": 0.0,
    }
    ran = psoup("clock", "accept")
    assert (ran.code, ran.err) == (0, "The wall clock is accepted: it is 2026-09-21 16:14:20Z.\n")
    assert lines(psoup("clock").out)["difference"] == "0:00:00"


def test_a_clock_before_the_greatest_time(psoup: Psoup, machine: Machine) -> None:
    machine.set_forward(-7_200)
    machine.pass_seconds(60)
    shown = lines(psoup("clock").out)
    assert (shown["greatest time so far"], shown["reached in"]) == ("2026-09-21 14:13:20Z", "1:59:00")
    assert lines(psoup("status").out)["clock"] == "1:59:00 before the last time that the service had; see psoup clock"


def test_a_service_that_does_not_tell_its_clock(
    psoup: Psoup, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = Client.info
    monkeypatch.setattr(Client, "info", lambda client: dataclasses.replace(info(client), clock=None))
    ran = psoup("clock")
    assert (ran.code, ran.err) == (1, "The service does not report its time, because it has an earlier version.\n")
    assert lines(psoup("status").out)["clock"] == "unknown"

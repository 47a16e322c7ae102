"""Turns of the interpreter are short while somebody asks for it, and as they were before and afterwards."""

from __future__ import annotations

import sys

import pytest

from psoup_service.turns import SHORT_SECONDS, ShortTurns


def test_turns_are_short_until_the_last_one_has_ended() -> None:
    usual = sys.getswitchinterval()
    with ShortTurns():
        with ShortTurns():
            assert sys.getswitchinterval() == pytest.approx(SHORT_SECONDS)
        assert sys.getswitchinterval() == pytest.approx(SHORT_SECONDS)
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_what_raises_gives_its_turn_back() -> None:
    usual = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError), ShortTurns():
        _ = 1 / 0
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_turns_that_were_shorter_stay_so() -> None:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SHORT_SECONDS / 2)
    try:
        with ShortTurns():
            assert sys.getswitchinterval() <= SHORT_SECONDS / 2
    finally:
        sys.setswitchinterval(usual)

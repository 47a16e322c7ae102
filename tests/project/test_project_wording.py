"""Counts in messages read as a person writes them, the same in the engine and in the clients, which share no code."""

from __future__ import annotations

import pytest

import psoup.wording
import psoup_client.wording


@pytest.mark.parametrize("noun", ["row", "query", "batch", "match", "day", "process", "box", "byte", "older tuple"])
@pytest.mark.parametrize("count", [0, 1, 2, 1_200])
def test_both_say_the_same(count: int, noun: str) -> None:
    said = psoup.wording.counted(count, noun)
    assert said == psoup_client.wording.counted(count, noun)
    assert said.endswith(noun) == (count == 1)
    assert psoup.wording.verb(count, "is", "are") == psoup_client.wording.verb(count, "is", "are")


def test_plurals() -> None:
    nouns = ["row", "query", "batch", "match", "day", "process", "box"]
    said = [psoup.wording.counted(2, noun) for noun in nouns]
    assert said == ["2 rows", "2 queries", "2 batches", "2 matches", "2 days", "2 processes", "2 boxes"]
    assert psoup.wording.counted(2, "index", "indices") == "2 indices"

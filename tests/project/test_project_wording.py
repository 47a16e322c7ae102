"""Counts in messages read as a person writes them, the same in the engine and in the clients, which share no code."""

from __future__ import annotations

import pytest

import psoup.phrases
import psoup_client.phrases


@pytest.mark.parametrize("noun", ["row", "query", "batch", "match", "day", "process", "box", "byte", "older tuple"])
@pytest.mark.parametrize("count", [0, 1, 2, 1_200])
def test_both_say_the_same(count: int, noun: str) -> None:
    said = psoup.phrases.counted(count, noun)
    assert said == psoup_client.phrases.counted(count, noun)
    assert said.endswith(noun) == (count == 1)
    assert psoup.phrases.verb(count, "is", "are") == psoup_client.phrases.verb(count, "is", "are")


def test_plurals() -> None:
    nouns = ["row", "query", "batch", "match", "day", "process", "box"]
    said = [psoup.phrases.counted(2, noun) for noun in nouns]
    assert said == ["2 rows", "2 queries", "2 batches", "2 matches", "2 days", "2 processes", "2 boxes"]
    assert psoup.phrases.counted(2, "index", "indices") == "2 indices"

"""Questions asked again over near and far values: the answers stay, and come from every structure that is kept.

A directed sweep over the types of columns that have key indexes. What is kept is observed where the product reads it
(`psoup_testing.suite.kept_structures`); a structure from which no compared answer came fails.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from psoup.data.key_index import text_numbers
from psoup.model import BIGINT, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, decimal
from psoup_testing.engines.restarts import making
from psoup_testing.histories.near_far import COLLIDING, NEIGHBOURS
from psoup_testing.oracles.repeated_questions import AskedAgain
from psoup_testing.suite.budget import SEED, replayable, scaled
from psoup_testing.suite.kept_structures import KEPT
from psoup_testing.suite.sweeps import swept

TYPES = (BIGINT, DOUBLE, decimal(18, 4), TEXT, TIMESTAMP, DATE)
MANY = 20
MOST_ROUNDS = 4
"""Rounds over all types in which every structure must have been met; one is needed."""


def sweep(data_type: DataType, seed: int) -> None:
    """All kinds of questions over columns of a type."""
    with replayable(seed), closing(AskedAgain(data_type, seed)) as asked:
        wheres = list(asked.conditions())
        for where, duck in wheres:
            asked.single(where, duck)
        asked.joined(*wheres[seed % len(wheres)])
        asked.together(MANY)


def sweep_archive(data_type: DataType, seed: int, path: Path) -> None:
    """Some of the questions before a start and after it, when folds of chunks are on the disk."""
    ends = " RETENTION 70 ROWS ARCHIVE 10000 ROWS"
    with replayable(seed), making(path) as made, closing(AskedAgain(data_type, seed, made, ends)) as asked:
        wheres = list(asked.conditions())[1:5]
        for _ in range(2):
            for where, duck in wheres:
                asked.single(where, duck)
            asked.joined(*wheres[0])
            asked.together(MANY)
            made.soup.maintain()
            assert made.soup.store.archive_reads > 0
            made.soup.restart()
            asked.stand()


@pytest.mark.seeded("two intervals of keys that share a code of an index both give its rows")
@pytest.mark.parametrize("data_type", swept(TYPES, fast=3), ids=str)
def test_questions_that_are_asked_again_have_the_same_answers(data_type: DataType) -> None:
    for seed in range(SEED, SEED + scaled(4)):
        sweep(data_type, seed)


@pytest.mark.long
@pytest.mark.parametrize("data_type", swept([TEXT, BIGINT], fast=1), ids=str)
def test_questions_to_an_archive_have_the_same_answers_again(data_type: DataType, tmp_path: Path) -> None:
    sweep_archive(data_type, SEED + 1, tmp_path)


def test_compared_answers_came_from_everything_that_is_kept(tmp_path: Path) -> None:
    """The tests above met all of it; run alone, this one has to meet it by itself."""
    for seed in range(SEED, SEED + MOST_ROUNDS):
        if KEPT.missing():
            sweep_archive(BIGINT, seed, tmp_path / str(seed))
        for data_type in TYPES if KEPT.missing() else ():
            sweep(data_type, seed)
    assert KEPT.missing() == []


def test_texts_have_equal_numbers_and_near_ones() -> None:
    """Otherwise they would say nothing of key indexes of texts."""
    for pairs, most in ((COLLIDING, 0), (NEIGHBOURS, 2)):
        for pair in pairs:
            texts = [text.encode() for text in pair]
            ends = np.cumsum([0, *map(len, texts)]).astype(np.int64)
            one, other = text_numbers(ends, np.frombuffer(b"".join(texts), np.uint8).copy()).tolist()
            assert abs(one - other) <= most and texts[0] != texts[1]
            assert (one == other) == (most == 0)

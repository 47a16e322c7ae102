"""T25: copies over a line that is cut at any byte go on with what they hold, and no row comes twice."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from psoup_client import Client, ClientOptions, PSoupError, RetryOptions
from psoup_testing.oracles.questions import again
from psoup_testing.services.proxy import Cut, cutting
from psoup_testing.services.threaded_service import Serving
from psoup_testing.suite.budget import SEED, places
from psoup_testing.suite.sweeps import swept

MakeStream = Callable[[str], str]
OPTIONS = ClientOptions(retry=RetryOptions(attempts=1, first_pause_seconds=0.01, longest_pause_seconds=0.01))
ROWS = 40


def cuts(count: int, most: int, up: int) -> list[Cut]:
    """Where connections are cut: most of them within a reply, some within what is sent."""
    draw = random.Random(SEED)
    ways = [draw.randrange(5) == 0 for _ in places(5_000, count)]
    return [Cut(draw.randrange(1, up if way else most), way) for way in ways]


@pytest.mark.parametrize("count", swept([8, 30], fast=1))
def test_copies_go_on_after_a_line_that_is_cut(
    running: Serving, client: Client, make_stream: MakeStream, count: int
) -> None:
    """One row comes between two syncs; a sync brings what has come since the last that arrived, and nothing twice."""
    stream = make_stream("(n BIGINT, t TEXT)")
    query = client.register(f"SELECT n, t FROM {stream} BEGIN (START)")
    some = cuts(count, 1_500, 1_500)
    with cutting(running.address, some) as proxy, Client(proxy.address, options=OPTIONS) as lossy:
        copy, failed, came, number, begun = lossy.copy(query), 0, 0, 0, False
        while proxy.connections <= len(some):
            client.push(stream, {"n": range(number, number + ROWS), "t": [f"row {number}"] * ROWS})
            number += ROWS
            before = copy.rows() if begun else []
            try:
                synced = copy.sync(max_bytes=64_000)  # one reply, as it has room for all
            except PSoupError:
                failed += 1
                assert (copy.rows() if begun else []) == before, "half of a reply was taken"
                continue
            assert not (synced.reset and begun), "it went on with its token"
            begun = True
            came += synced.came
        client.wait_for(client.last_sequence)
        came += copy.sync().came
    assert came == number, "a row came twice"
    assert failed > len(some) // 4 and copy.complete
    assert copy.rows() == again(query.invoke).rows()
    assert len(copy) == number


@pytest.mark.long
def test_a_watch_goes_on_after_a_line_that_is_cut(running: Serving, client: Client, make_stream: MakeStream) -> None:
    """Each row comes once, whatever is cut."""
    stream = make_stream("(n BIGINT, t TEXT)")
    query = client.register(f"SELECT n, t FROM {stream} BEGIN (START)")
    some = cuts(30, 3_000, 300)
    with cutting(running.address, some) as proxy, Client(proxy.address, options=OPTIONS) as lossy:
        copy, came, number = lossy.copy(query), 0, 0
        with lossy.watch([copy], patience=60) as changes:
            while proxy.connections <= len(some):
                client.push(stream, {"n": range(number, number + ROWS), "t": [f"row {number}"] * ROWS})
                number += ROWS
                while len(copy) < number:
                    _, synced = next(changes)
                    came += synced.came
    assert came == number and copy.rows() == again(query.invoke).rows()

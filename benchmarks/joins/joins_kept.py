"""Rows `join.pairs.*`: a join of wide sides and few rows, whose pairs are kept, beside the same without.

join.pairs.w1m        2**20 tuples of each stream, nine of ten selected, one in a thousand has a partner; kept pairs
                      beside the sides alone, DuckDB and Polars
join.pairs.w1m.open   the same, and a quarter of a chunk more that is open: its tuples are joined as ever
join.pairs.bytes      bytes of the kept pairs, for each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.joins.joins import OPEN, WINDOW, Case, check
from benchmarks.peers.sides import Frames
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run

MILLION = 1_048_576
RARE = 1_000
SELECTED = 900
FASTER, MOST_BYTES = 20, 8


def rows(run: Run) -> Iterator[Row]:
    """All rows."""
    tuples, repeats = run.of(MILLION, MILLION, WINDOW), run.of(15, 5, 1)
    names = ("join.pairs.w1m", "join.pairs.bytes")
    yield from run.part(partial(_kept, names[0], tuples, 0, repeats), *names)
    name = "join.pairs.w1m.open"
    yield from run.part(partial(_kept, name, tuples, OPEN, repeats), name)


def _streams(tuples: int, more: int) -> dict[str, dict[str, Any]]:
    """Keys that are odd in one stream and even in the other, but for one in a thousand."""
    rng = np.random.default_rng(17)
    shared = 2 * rng.permutation(tuples)[: (tuples + more) // RARE]
    streams = {}
    for odd, name in enumerate(("r", "s")):
        keys = 2 * rng.integers(0, 1_000 * tuples, tuples + more) + odd
        keys[rng.permutation(tuples + more)[: len(shared)]] = shared
        streams[name] = {"k": keys, "ab"[odd]: rng.integers(0, 1_000, tuples + more)}
    return streams


def _kept(name: str, tuples: int, more: int, repeats: int) -> Iterator[Row]:
    """The answer with kept pairs, without, and of engines, in turns."""
    where = f"r.k = s.k AND r.a < {SELECTED} AND s.b < {SELECTED}"

    def joined(frames: Frames) -> pl.DataFrame:
        left, right = frames["r"].filter(pl.col("a") < SELECTED), frames["s"].filter(pl.col("b") < SELECTED)
        return left.join(right, on="k")

    case, sides = (Case(tuples, _streams(tuples, more), "r.k, r.a, s.b", where, joined) for _ in range(2))
    case.keep_pairs = True
    query, same = case.load(), sides.load()
    peers = case.peers()
    check(case, query, peers)

    def ours() -> pa.Table:
        return case.local.invoke(query).to_table()

    def alone() -> pa.Table:
        return sides.local.invoke(same).to_table()

    if not ours().equals(alone()):
        raise AssertionError(f"{name}: the answers differ")
    calls: list[Callable[[], object]] = [ours, alone, *(peer.join for peer in peers)]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for spent, call in zip(times, calls, strict=True):
            call()
            spent.append(1e6 * seconds(call))
    mine, *theirs = map(Sample.of, times)
    details = {"answer_rows": ours().num_rows}
    target = None if more else Target(at_least=FASTER)
    yield Row(name, mine, "us", "PSoup, its sides alone", theirs[0], target, "", details)
    for peer, sample in zip(peers, theirs[1:], strict=True):
        yield Row(name, mine, "us", peer.name, sample, None, "", details)
        peer.close()
    if not more:
        pairs = case.local.engine.snapshot().pairs
        pair_count = sum(table.pairs for table in pairs.tables.values())
        size = Sample.of([pairs.nbytes / max(pair_count, 1)])
        most = Target(value_at_most=MOST_BYTES)
        yield Row("join.pairs.bytes", size, "bytes", "-", None, most, "", {"pairs": pair_count})

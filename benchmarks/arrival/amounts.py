"""Arrival beside idle queries: with amount NONE, or inactive. The bytes of a query by its amount.

amount.arrival     a chunk, joined with 1,024 queries beside 100,000 idle ones; in turns with an engine without these.
amount.bytes       100,000 queries of one template over an open chunk: the bytes that the engine counts for each.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.arrival import parked_queries
from benchmarks.arrival.arrival import BATCH, CHUNK, KEPT, Loaded
from benchmarks.tool.measure import Row, Sample, Target, in_turns
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, DOMAIN, STREAM, batches, make_columns, make_queries
from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, Amount, Keeping

IDLE = (Keeping(Amount.NONE), Keeping(active=False))
"""The keeping of the idle queries, half of them each."""
TEMPLATE = f"SELECT * FROM {STREAM} WHERE a0 BETWEEN ? AND ? AND a1 < ?"
COUNTED = ("query_blocks_bytes", "clause_names_bytes", "open_results_bytes")
"""The counters of the engine's bill that grow with queries, besides the counters of the predicate index."""


def rows(run: Run) -> Iterator[Row]:
    """The rows of the table."""
    count = run.of(100_000, 100_000, 400)
    yield from run.part(lambda: _arrival(run.of(1_024, 1_024, 16), count, run.of(7, 3, 1)), "amount.arrival")
    yield from run.part(lambda: _bytes(count), "amount.bytes")
    yield from parked_queries.rows(run)


def _values(count: int) -> list[tuple[int, int, int]]:
    return [(n % DOMAIN, n % DOMAIN + n % 7, n) for n in range(count)]


def _arrival(queries: int, count: int, samples: int) -> Iterator[Row]:
    chunk = batches(make_columns(CHUNK), BATCH)
    alone, beside = (Loaded(make_queries(queries, 4), chunk) for _ in range(2))
    values = _values(count)
    for place, keeping in enumerate(IDLE):
        beside.local.register_many(TEMPLATE, values[place :: len(IDLE)], keeping=keeping)

    def maintain() -> None:
        alone.local.maintain()
        beside.local.maintain()

    for _ in range(KEPT // CHUNK):  # both engines keep as many chunks as they will
        beside.arrive()
        alone.arrive()
        maintain()
    rates = in_turns([beside.arrive, alone.arrive], [CHUNK, CHUNK], samples, maintain)
    note = (
        f"amount.arrival: {rates[0].cpu / rates[1].cpu:.3f} times the rate by the processor time of the pushing thread"
    )
    target = Target(at_least=0.98) if count == 100_000 else None
    yield Row("amount.arrival", rates[0].wall, "tuples/s", "without idle queries", rates[1].wall, target, note)


def _bytes(count: int) -> Iterator[Row]:
    partial_bytes = _bytes_of(AS_USUAL, count)
    for name, keeping in (("none", IDLE[0]), ("inactive", IDLE[1]), ("complete", Keeping(Amount.COMPLETE))):
        sample = Sample.of([_bytes_of(keeping, count)])
        yield Row(f"amount.bytes.{name}", sample, "bytes", "amount PARTIAL", Sample.of([partial_bytes]), None)


def _bytes_of(keeping: Keeping, count: int) -> float:
    """The bytes that the engine's bill counts for a query."""
    soup = LocalPSoup()
    soup.execute(CREATE)
    for table in batches(make_columns(CHUNK - BATCH), BATCH):
        soup.push(STREAM, table)
    before = _counted(soup)
    soup.register_many(TEMPLATE, _values(count), keeping=keeping)
    return (_counted(soup) - before) / count


def _counted(soup: LocalPSoup) -> int:
    bill = soup.engine.bill()
    return sum(size for name, size in bill.items() if name in COUNTED or name.startswith("query_stem."))

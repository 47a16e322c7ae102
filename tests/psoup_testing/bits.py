"""The bits of queries over tuples, held against `matches` of the same tuples."""

from __future__ import annotations

from collections.abc import Iterable

from psoup.local import LocalPSoup

_TOGETHER = 80
"""Tuples whose matches are compared together."""


def compare_bits(psoup: LocalPSoup, stream: str, first: int, standing: Iterable[int]) -> None:
    """Check that the bits of all standing queries say of some tuples from `first` on what `matches` says of them."""
    end = psoup.engine.snapshot().stream(stream, psoup.tenant).next_id
    ids = range(first, min(end, first + _TOGETHER))
    found, together = psoup.results(stream, ids=ids), psoup.matches_between(stream, ids.start, len(ids))
    bits = {record.query_id: found.of(record.query_id) for record in found.queries}
    assert list(bits) == sorted(standing)
    for at, tuple_id in enumerate(ids):
        of_tuple = [query_id for query_id in bits if bits[query_id][at]]
        assert of_tuple == together.of(at), f"tuple {tuple_id}: bits {of_tuple}, matches {together.of(at)}"

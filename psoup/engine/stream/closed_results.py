"""The results of a stream's closed chunks, and which clauses have died since each was last compacted.

    entries   chunk 3   chunk 4   chunk 5          results are replaced as values, by what maintenance has computed
    deaths    clause 7 | 2  9 | 4                  chunk 3 still has columns of 2, 9, 4; chunk 5 of 4 alone

Owned by the engine's writer; readers get the entries.
"""

from __future__ import annotations

from psoup.columns import Array
from psoup.invariants import ensure
from psoup.published.snapshot import ChunkEntry
from psoup.results.chunk_results import ChunkResults

Packed = list[tuple[Array, Array]]
"""SQC IDs and matches of each pack that is given up, for whoever counts what queries cost."""


class ClosedResults:
    """See the module."""

    def __init__(self) -> None:
        self.entries: list[ChunkEntry] = []
        self.nbytes = 0
        """Bytes of the results."""
        self.deaths: list[int] = []
        """SQC IDs unregistered since the stream began; a chunk's `compacted` counts into it."""
        self.deaths_before = 0

    @property
    def died(self) -> int:
        """How many clauses have died since the stream began."""
        return self.deaths_before + len(self.deaths)

    def bury(self, sqc_id: int) -> None:
        """A clause is gone: chunks that are there may have a column of it."""
        if self.entries:
            self.deaths.append(sqc_id)

    def add(self, entry: ChunkEntry) -> None:
        """The chunk that was closed last."""
        self.entries.append(entry)
        self.nbytes += entry.results.nbytes

    def replace(self, number: int, seen: ChunkResults, results: ChunkResults) -> bool:
        """Put `results` in the place of `seen`; False if the chunk is gone or has other results by now."""
        at = number - self.entries[0].data.number if self.entries else -1
        if not 0 <= at < len(self.entries) or self.entries[at].results is not seen:
            return False
        self._put(at, results)
        if results.compacted != seen.compacted:
            self._trim_deaths()
        return True

    def leave(self) -> Packed:
        """The results of the oldest chunk are no longer there."""
        results = self.entries.pop(0).results
        self.nbytes -= results.nbytes
        self._trim_deaths()
        return _packed(results)

    def give_up(self, wanted: int) -> tuple[int, Packed]:
        """Evict results of the oldest sealed chunks until `wanted` bytes are free; returns how many were, and which."""
        freed, gone = 0, Packed()
        for at, entry in enumerate(self.entries):
            if freed >= wanted:
                break
            if entry.results.open is None and entry.results.nbytes:
                freed += entry.results.nbytes
                gone += _packed(entry.results)
                self._put(at, entry.results.give_up())
        return freed, gone

    def _put(self, at: int, results: ChunkResults) -> None:
        entry = self.entries[at]
        self.nbytes += results.nbytes - entry.results.nbytes
        self.entries[at] = ChunkEntry(entry.data, results)

    def _trim_deaths(self) -> None:
        upto = min((entry.results.compacted for entry in self.entries), default=self.died)
        del self.deaths[: upto - self.deaths_before]
        self.deaths_before = upto

    def check(self, list_limit: int) -> None:
        """Every chunk's results are sound, and the bytes add up."""
        held = sum(entry.results.nbytes for entry in self.entries)
        ensure(self.nbytes == held, self, "bytes of results are miscounted", counted=self.nbytes, held=held)
        for entry in self.entries:
            upto, died = entry.results.compacted, self.died
            known = self.deaths_before <= upto <= died
            ensure(
                known,
                self,
                "a chunk is compacted further than clauses died",
                chunk=entry.data.number,
                upto=upto,
                died=died,
            )
            entry.results.check(len(entry.data), list_limit)


def _packed(results: ChunkResults) -> Packed:
    return [(pack.ids, pack.counts) for pack in results.packs]

"""A seeded trace in place of LBL-CONN-7, with which the update-pattern paper (SIGMOD 2005) measured its queries.

That trace is not available here. Five facts that the paper states about it hold within 20 % in a window of 200,000
units. Each link has a tuple in each unit of time, with its source, destination and protocol. Sources have popularities
by Zipf's law with exponent 1/2, in another order on each link, and ten destinations each. The share COMMON of the
sources of a link is on all links, the rest on no other link.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LINKS = 3
WINDOW = 200_000
"""The paper's greatest window, units of time, for which the facts hold."""
SOURCES = 2_000
PAIRS = 20_000
COMMON = 0.41
"""The share of the sources of a link that are on all links."""
FTP_CODE, TELNET_CODE, REST_CODE = range(3)
FTP, TELNET = 0.0536, 0.1694
"""Shares of the tuples."""
TUPLE_BYTES = 50
"""Bytes of a tuple of the paper: a window of 2,000 units has 100 KB, one of 200,000 units 10 MB."""
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trace:
    """`sources`, `destinations`: int64[links, units]; `protocols`: 0 ftp, 1 telnet, 2 the rest."""

    sources: Integers
    destinations: Integers
    protocols: Integers

    @property
    def pairs(self) -> Integers:
        """A number for each pair of source and destination."""
        return self.sources * (PAIRS // SOURCES) + self.destinations


def trace(units: int, *, common: float = COMMON, seed: int = 5) -> Trace:
    """The tuples of some units of time."""
    random = np.random.default_rng(seed)
    shared = round(common * SOURCES)
    chances = 1 / np.sqrt(np.arange(1, SOURCES + 1))
    chances /= chances.sum()
    sources = np.empty((LINKS, units), np.int64)
    for link in range(LINKS):
        names = np.arange(SOURCES)
        names[shared:] += link * (SOURCES - shared)
        sources[link] = random.permutation(names)[random.choice(SOURCES, units, p=chances)]
    destinations = random.integers(0, PAIRS // SOURCES, sources.shape)
    protocols = np.searchsorted(np.cumsum([FTP, TELNET]), random.random(sources.shape), side="right")
    return Trace(sources, destinations, protocols)


def join_size(trace: Trace, protocol: int, units: int) -> tuple[int, int]:
    """The results of query 1 over the last units of links 0 and 1, and its inputs in these windows."""
    chosen = [trace.sources[link, -units:][trace.protocols[link, -units:] == protocol] for link in range(2)]
    counts = [np.bincount(sources, minlength=int(trace.sources.max()) + 1) for sources in chosen]
    return int((counts[0] * counts[1]).sum()), sum(map(len, chosen))

"""The state of the registered queries after the last event, on which decisions about queries depend."""

from __future__ import annotations

from typing import NamedTuple

from psoup.admission.budget import MemoryBudget
from psoup.admission.queries.known_keepings import KnownKeepings
from psoup.admission.queries.query_streams import Owners
from psoup.admission.queries.tags import KnownTags
from psoup.admission.quotas import Judge


class RegistryState(NamedTuple):
    """The registered queries, their keys and labels, the memory budget, how the queries are kept, and the quotas.

    `parks`: whether there is a log to read parked queries from.
    """

    owners: Owners
    tags: KnownTags
    budget: MemoryBudget
    keepings: KnownKeepings
    judge: Judge
    parks: bool

"""Two streams to write aggregates over, and what a statement over them is bound to."""

from __future__ import annotations

import pytest

from psoup.errors import SqlError
from psoup.model import StreamSpec
from psoup.plan.nodes import Aggregate, walk
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, standing_query

TRADES = create_stream(
    "CREATE STREAM trades (sym TEXT, price DECIMAL(9,2), qty BIGINT NOT NULL, rate DOUBLE, bought BOOLEAN,"
    " at TIMESTAMP, day DATE)"
)
QUOTES = create_stream("CREATE STREAM quotes (sym TEXT, bid DOUBLE)")
STREAMS = {"trades": TRADES, "quotes": QUOTES}


def lookup(name: str) -> StreamSpec | None:
    return STREAMS.get(name.lower())


def bind(text: str) -> StandingQuery:
    return standing_query(text, lookup, list(STREAMS))


def table(query: StandingQuery) -> Aggregate:
    """The table of groups of a query."""
    (aggregate,) = [node for _, node in walk(query.plan) if isinstance(node, Aggregate)]
    return aggregate


def refusal(text: str) -> SqlError:
    """The error of a statement."""
    with pytest.raises(SqlError) as caught:
        bind(text)
    return caught.value

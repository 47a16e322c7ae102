"""The aggregates whose folds a job writes with its chunks: registered ones, and further ones that the job is given.

    registered queries ──aggregates over the stream alone──> at most 1,024 ─┐
    statements of the job (--fold), for queries that are registered later ──┴─> folded on the workers, chunk by chunk

A service that attaches the chunks answers such an aggregate from the folds, and reads no tuple of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from psoup.errors import PSoupError as EngineError
from psoup.execution.ahead.folds_outside import FoldsOutside
from psoup.model import StreamSpec
from psoup.sql import create_stream
from psoup.sql.templates.forms import Forms
from psoup_client import InvalidData
from psoup_storage.formats.history import SERVICE_IDS

Statements = tuple[tuple[int, str], ...]
"""Queries as pairs of number and statement."""

_MOST = 1_024
"""The most registered aggregates whose folds a job writes. A service folds as many ahead of its readers."""


def numbered(spec: StreamSpec, texts: Sequence[str], services: int = 1) -> Statements:
    """Give IDs, above the IDs of all services, to the statements that a job folds for queries of later.

    Raises InvalidData, with the reason, for a statement that is refused or has no folds.
    """
    statements = tuple((services * SERVICE_IDS + place, text) for place, text in enumerate(dict.fromkeys(texts)))
    for statement in statements:
        text = statement[1]
        try:
            Forms().query(text, lambda name: spec if name.lower() == spec.name.lower() else None)
        except EngineError as problem:
            raise InvalidData(f"no folds can be written for {text!r}: {problem.message}") from problem
        if not FoldsOutside(spec, [statement]).aggregates:
            raise InvalidData(
                f"no folds can be written for {text!r}: a job can fold an aggregate over stream {spec.name!r} alone,"
                " with states of bounded size, which neither reads _id nor calls a function of the operator; leave the"
                " statement out"
            )
    return statements


def chosen(spec: StreamSpec, registered: Statements, later: Statements = ()) -> Statements:
    """Select the statements that workers fold: one for each aggregate and service. O(queries).

    `later`: the result of `numbered`. All its statements are selected.
    """
    texts, selected = dict(registered), Statements()
    for aggregate in FoldsOutside(spec, registered).aggregates[:_MOST]:
        of_service = {query_id // SERVICE_IDS: query_id for query_id in reversed(aggregate.query_ids)}
        selected += tuple((query_id, texts[query_id]) for query_id in of_service.values())
    return selected + later


def stream_number(identity: str) -> int:
    """Return the number part of a stream's ID on the wire."""
    return int(identity.rpartition("-")[2])


@lru_cache(maxsize=1)
def folded(statement: str, folds: Statements) -> FoldsOutside:
    """Bind the statements to fold, of the stream that `statement` creates. One task at a time may use the result."""
    return FoldsOutside(create_stream(statement), folds)

"""Queries that each Spark worker process binds once for all its tasks, and a check whether a job can bind a query.

A job calls the operator's functions in its own processes, from the modules of its option `functions`. A service may
have different functions under the same names. So a job evaluates only queries whose functions have exactly the same
signatures; the canonical text of a query's WHERE has these. The service evaluates all other queries at their
invocation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from psoup.errors import InvalidInput
from psoup.functions import load
from psoup.matching.outside import Beforehand
from psoup.sql import create_stream
from psoup.sql.supplied_names import make_known
from psoup_client import InvalidData

_CALLED = re.compile(r"[a-z][a-z0-9_]*@[0-9]+\[[^\]]*\]")


def signatures_of(functions: Sequence[str]) -> frozenset[str]:
    """The texts of the signatures that modules of functions declare. Raises InvalidData for an invalid module."""
    try:
        return frozenset(str(function.signature) for function in load(functions))
    except InvalidInput as problem:
        raise InvalidData(problem.message) from problem


def lacking(clause: str, signatures: frozenset[str]) -> list[str]:
    """The signatures of functions that a canonical WHERE calls and the job does not have."""
    return sorted({*_CALLED.findall(clause)} - signatures)


@lru_cache(maxsize=1)
def known(statement: str, queries: tuple[tuple[int, str], ...], functions: tuple[str, ...] = ()) -> Beforehand:
    """Bind the queries (number, statement) of the stream that `statement` creates. Only one task at a time may use the
    result.
    """
    make_known(load(functions))
    return Beforehand(create_stream(statement), queries)

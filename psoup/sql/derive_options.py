"""The options of CREATE STREAM … AS: which rows a derived stream gets, and its limits.

AS RSTREAM (SELECT …) EVERY 1 MINUTE LAG AT MOST 1 DAY STATE AT MOST 64 MB ──> DeriveOptions
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from psoup.derivation import Derivation, StreamOperator
from psoup.plan.canonical import describe_duration
from psoup.sql.parser.syntax import DeriveNode
from psoup.sql.source import StatementText
from psoup.sql.windows import duration

MB = 1_000_000
"""The bytes of the unit of STATE AT MOST."""
_MOST_MB = 10**12
_LEAST_EVERY = 1_000
"""The least microseconds between two ticks: RSTREAM pushes at each, and a clock closes them as fast as it goes."""


class DeriveOptions(NamedTuple):
    """The options, as in `psoup.derivation.Derivation`."""

    operator: StreamOperator
    every: int | None
    lag_limit: int | None
    state_limit: int | None


def derive_options(source: StatementText, node: DeriveNode) -> DeriveOptions:
    """The options of a statement. Raises SqlError for one that has no meaning, and NotSupported."""
    word, every, lag, state = [node.args.get(key) for key in ("operator", "every", "lag", "state")]
    operator = StreamOperator.ISTREAM if word is None else StreamOperator(word.name)
    options = DeriveOptions(
        operator,
        None if every is None else _span(source, every, "EVERY"),
        None if lag is None else _span(source, lag, "LAG AT MOST"),
        None if state is None else _size(source, state),
    )
    if word is not None and operator is StreamOperator.RSTREAM and every is None:
        hint = "say how often: CREATE STREAM name AS RSTREAM (SELECT …) EVERY 1 MINUTE"
        raise source.error("RSTREAM needs EVERY: it pushes the whole answer at each instant", word, hint=hint)
    if every is not None and (options.every or 0) < _LEAST_EVERY:
        hint = "write EVERY 1 MILLISECOND, or leave EVERY out: the stream then has each change at its own instant"
        raise source.error("EVERY is shorter than a millisecond", every, hint=hint)
    return options


def option_texts(derived: Derivation) -> list[str]:
    """The options of a derivation as they stand in a statement after the SELECT, apart from RETENTION."""
    every = [] if derived.every is None else [f"EVERY {describe_duration(derived.every)}"]
    lag = [] if derived.lag_limit is None else [f"LAG AT MOST {describe_duration(derived.lag_limit)}"]
    state = [] if derived.state_limit is None else [f"STATE AT MOST {derived.state_limit // MB} MB"]
    return [*every, f"FROM {'NOW' if derived.from_now else 'START'}", *lag, *state]


def _span(source: StatementText, node: exp.Expr, clause: str) -> int:
    """The microseconds of a duration, which has a unit. At least 1."""
    amount = str(node.this)
    if not node.args.get("unit") and amount.strip("0."):
        hint = f"write {clause} {amount} MINUTES or {clause} {amount} SECONDS"
        raise source.error(f"{clause} {amount} has no unit", node, hint=hint)
    micros = duration(source, node, clause)
    if not micros:
        raise source.error(f"{clause} must be longer than 0", node)
    return micros


def _size(source: StatementText, node: exp.Expr) -> int:
    """The bytes of a size in MB, at least 1 MB."""
    amount, unit = str(node.this), node.args.get("unit")
    if unit != "MB" or not (amount.isascii() and amount.isdigit()) or not 0 < int(amount) <= _MOST_MB:
        written = f"{amount[:40]} {unit or ''}".strip()
        hint = "write the size in MB, as in STATE AT MOST 64 MB; 1 MB is 1,000,000 bytes"
        raise source.error(f"STATE AT MOST {written} is not a whole number from 1 to {_MOST_MB:,} MB", node, hint=hint)
    return int(amount) * MB

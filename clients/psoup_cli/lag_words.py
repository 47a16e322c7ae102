"""The lag of a derived stream in words."""

from __future__ import annotations

import datetime as dt

from psoup_client import DerivationInfo


def lag_cause(derived: DerivationInfo) -> str:
    """Say why a derived stream is behind, after a comma. Returns "" if it is not behind, or does not run."""
    if derived.held_by:
        return f", held back by {derived.held_by}"
    behind = derived.state == "running" and derived.lag > (derived.every or dt.timedelta())
    return ", catching up" if behind else ""

"""Figures of the kept answers of COMPLETE queries, for the operator."""

from __future__ import annotations

from psoup.published.snapshot import Snapshot


def kept_figures(snapshot: Snapshot) -> dict[str, int]:
    """The number of kept answers, their bytes, the answers given up since the start, and the updates of eager answers.

    O(kept answers).
    """
    room = snapshot.answers
    return {
        "kept_answers": room.answers,
        "kept_answers_bytes": room.held,
        "kept_answers_given_up": room.given_up,
        "eager_queries": len(snapshot.eager.facts),
        "eager_updates": snapshot.eager.updates,
        "eager_updates_refused": snapshot.eager.refused,
    }

"""The options of a producer: `Client.producer(stream, **options)`, and the sizes of its window."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from psoup_client.columns.casts import TimeUnit
from psoup_client.errors import PSoupError
from psoup_client.ingest.lost_batches import Rewind
from psoup_client.ingest.push import PushResult
from psoup_client.ingest.refused_rows import OnRefused

WINDOW_BATCHES = 64
"""The greatest number of unacknowledged batches."""

WINDOW_BYTES = 64 * 1024 * 1024
"""The greatest number of unacknowledged bytes. A single batch may be larger."""


class ProducerOptions(TypedDict, total=False):
    """The options of a producer, all optional; see `Producer`."""

    name: str | None
    epoch: int | None
    number: int
    since: int | None
    batch_rows: int
    window_batches: int
    window_bytes: int
    retry_seconds: float | None
    on_reply: Callable[[PushResult], None] | None
    on_refused: OnRefused | None
    on_wait: Callable[[PSoupError, float], None] | None
    time_unit: TimeUnit | None
    rewind: Rewind | None

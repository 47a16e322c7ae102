"""The stream of an attachment as admission knows it, for `psoup.admission.attachment`."""

from __future__ import annotations

from psoup.admission.attachment import AttachTarget, check_stored
from psoup.admission.catalog import KnownStream, KnownTenant
from psoup.admission.derivations import pin_of
from psoup.admission.rows.push_times import latest_time
from psoup.config import EngineConfig


def target_on(
    stream: KnownStream, tenant: KnownTenant, config: EngineConfig, archive: bool, sequence: int, now: int
) -> AttachTarget:
    """The target of an attachment whose event gets `sequence`. `archive`: whether the service stores closed chunks.

    `tenant`: the owner of the stream.

    Raises FailedPrecondition if the stream cannot keep history.
    """
    check_stored(stream.spec, archive)
    latest = latest_time(stream.spec, config, now) if stream.spec.event_time else now
    past = stream.past, stream.watermark, sequence, now, latest, stream.closed, pin_of(stream, tenant)
    return AttachTarget(stream.stream_id, stream.spec, *past)

"""Whether a window can ever be answered from what its stream keeps, and whether that can be kept.

    RETENTION 1 HOUR   |--- kept ---| NOW
    BEGIN (NOW - 2 HOURS)   refused here, for every registration alike
    BEGIN TIMESTAMP '…'     depends on when it is asked: judged at invocation

Only the statement and the stream's definition decide, never the moment: rows are compared with rows, time with time.
"""

from __future__ import annotations

from psoup.errors import FailedPrecondition, OutOfRange
from psoup.model import SECOND, Anchor, StreamSpec, WindowClause
from psoup.wording import counted, verb


def check_window(window: WindowClause, spec: StreamSpec) -> None:
    """Raise OutOfRange if `window` is wider than the retention of `spec`. O(1)."""
    rows, duration = spec.retention.rows, spec.retention.duration
    begin, end = window.begin, window.end
    if begin.anchor is Anchor.NOW:
        if rows is not None and begin.rows is not None and begin.rows > rows:
            raise _too_wide(spec, counted(begin.rows, "row"), counted(rows, "row"), "ROWS")
        if duration is not None and begin.rows is None and begin.offset > duration:
            raise _too_wide(spec, _seconds(begin.offset), _seconds(duration), "DURATION")
        return
    absolute = begin.anchor is Anchor.ABSOLUTE and end.anchor is Anchor.ABSOLUTE
    if absolute and duration is not None and end.at - begin.at > duration:
        raise _too_wide(spec, _seconds(end.at - begin.at), _seconds(duration), "DURATION")


def check_archive(spec: StreamSpec, stored: bool) -> None:
    """Raise FailedPrecondition if `spec` asks for an archive, and closed chunks are not `stored`."""
    if spec.retention.archive and not stored:
        raise FailedPrecondition(
            f"stream {spec.name!r} asks for an ARCHIVE, and nothing is kept on disk here; leave ARCHIVE out, or run the"
            " service with a data directory",
            reason="NO_ARCHIVE",
            stream=spec.name,
        )


def _seconds(duration: int) -> str:
    text = f"{duration / SECOND:,.6f}".rstrip("0").rstrip(".")
    return f"{text} {verb(duration // SECOND if duration % SECOND == 0 else 0, 'second', 'seconds')}"


def _too_wide(spec: StreamSpec, wanted: str, kept: str, unit: str) -> OutOfRange:
    return OutOfRange(
        f"the window reaches back {wanted}, but stream {spec.name!r} keeps {kept}; narrow the window, begin at START,"
        " or create the stream with a longer RETENTION",
        reason=f"WINDOW_WIDER_THAN_RETENTION_{unit}",
        stream=spec.name,
        window=wanted,
        retention=kept,
    )

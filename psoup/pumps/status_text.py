"""The status of a derived stream in words, for explanations: its pump and its lag, its counts, and its pins."""

from __future__ import annotations

from psoup.derivation import Gap
from psoup.model import SECOND, time_text
from psoup.phrases import counted
from psoup.plan.canonical import describe_duration
from psoup.pumps.status import DerivedStatus, SourcePin


def status_lines(status: DerivedStatus) -> tuple[str, ...]:
    """The lines about a derived stream: its pump, its lag, its counts, and what its sources keep."""
    since = "" if status.since is None else f" since {time_text(status.since)}"
    reason = f" ({status.reason})" if status.reason else ""
    progress, limit = status.progress, status.derived.state_limit
    bound = "" if limit is None else f", at most {counted(limit, 'byte')}"
    state = f"{counted(progress.state_rows, 'row')}, {counted(progress.state_bytes, 'byte')}{bound}"
    return (
        f"{status.state}{since}{reason}; {_position(status)}",
        f"{counted(progress.tuples, 'tuple')} read, {counted(progress.rows, 'row')} derived; state of {state}",
        *_shared(progress.equal),
        *map(_gap, status.gaps),
        *map(_pin, status.pins),
    )


def _position(status: DerivedStatus) -> str:
    reached = "nothing derived yet" if status.reached is None else f"derived up to {time_text(status.reached)}"
    cause = f", held back by {status.held_by}" if status.held_by else ""
    cause = ", catching up" if status.catches_up else cause
    late = f", late, as LAG AT MOST is {describe_duration(status.limit)}" if status.late else ""
    return f"{reached}, {status.lag / SECOND:,.1f} s behind{cause}{late}"


def _shared(streams: int) -> tuple[str, ...]:
    return (f"shares steps and state with {counted(streams, 'stream')} of an equal plan",) if streams else ()


def _gap(gap: Gap) -> str:
    begin = "the beginning" if gap.begin is None else time_text(gap.begin)
    return f"lacks rows from {begin} {'on' if gap.end is None else f'to {time_text(gap.end)}'}"


def _pin(pin: SourcePin) -> str:
    span = "all its tuples" if pin.time is None else f"its tuples from {time_text(pin.time)} on"
    return f"{pin.source} keeps {'nothing for it' if pin.released else span}, {pin.unread:,} not read"

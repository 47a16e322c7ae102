"""NOW while the service is out of reach, for this program and for any tool that reads the file.

    reply ─> clock: now, greatest = the service's; wall, boot = the clocks here         a view, in any tool,
    later    NOW = now + time since boot, or by the wall clock, not before greatest     hides rows by the wall clock

If the wall clock was set, that is noticed, reported, and corrected in the table (`stepped`), so that views are right
again. Rows are hidden by this clock, and never deleted.
"""

from __future__ import annotations

from psoup_client.copies.moments import Moment, elapsed, step
from psoup_recharge.sqlite import File

CLOCK = """
CREATE TABLE clock (
    now INTEGER NOT NULL, greatest INTEGER NOT NULL, wall INTEGER NOT NULL, boot INTEGER NOT NULL,
    boot_id TEXT NOT NULL, stepped INTEGER NOT NULL
) STRICT;
CREATE VIEW clock_now AS SELECT max(
    greatest, now + max(0, CAST((julianday('now') - 2440587.5) * 86400e6 AS INTEGER) - wall)
) AS now FROM clock;
"""
"""The table, which has one row after the first reply, and the view that gives NOW in microseconds to the other views.
It uses julianday, which every SQLite has, to the millisecond.
"""
_WORTH_US = 1_000_000
"""Microseconds of a greater estimate that are worth waiting for the disk."""


def set_clock(file: File, now: int, at: Moment) -> None:
    """Keep what NOW was at a reply of this moment, in the transaction of its changes."""
    file.run("DELETE FROM clock")
    file.run("INSERT INTO clock VALUES (?, ?, ?, ?, ?, 0)", now, now, at.wall, at.boot, at.boot_id)


def look(file: File, at: Moment) -> tuple[int | None, int]:
    """NOW at a moment (None before the first reply), and the microseconds by which the wall clock was set since that
    reply.

    The result is stored if the file can be written at once, so that NOW never goes back, also for other tools.
    """
    row = file.run("SELECT now, greatest, wall, boot, boot_id, stepped FROM clock")
    if not row:
        return None, 0
    now, greatest, *boot, stepped = row[0]
    then = Moment(*boot)
    waited, by = elapsed(then, at), step(then, at)
    estimate, wall = max(greatest, now + waited), at.wall - waited if by else then.wall
    if by or estimate > greatest + _WORTH_US:
        keep = "UPDATE clock SET greatest = max(greatest, ?), wall = ?, stepped = ?"
        file.try_run(keep, estimate, wall, stepped + by)
    return estimate, stepped + by

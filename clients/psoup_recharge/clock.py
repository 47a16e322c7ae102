"""NOW while the service is out of reach, for this program and for any tool that reads the file.

    reply ─> clock: now, greatest = the service's; wall, boot = the clocks here         a view, in any tool,
    later    NOW = now + time since boot, or by the wall clock, not before greatest     hides rows by the wall clock

If the wall clock was set, `look` notices the step. It reports the step (`stepped`) and corrects the table, so that
the views are right again. Views hide rows by this clock; nothing deletes them.
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
"""The SQL of the table `clock`, and of the view that gives NOW in microseconds to the other views.

The table has one row after the first reply. The view uses julianday, which every SQLite has, to the millisecond.
"""
_WORTH_US = 1_000_000
"""The growth of NOW, in microseconds, after which `look` writes it to the file."""


def set_clock(file: File, now: int, at: Moment) -> None:
    """Store NOW of a reply that arrived at the moment `at`.

    The caller's transaction also has the changes of the reply.
    """
    file.run("DELETE FROM clock")
    file.run("INSERT INTO clock VALUES (?, ?, ?, ?, ?, 0)", now, now, at.wall, at.boot, at.boot_id)


def look(file: File, at: Moment) -> tuple[int | None, int]:
    """Return NOW at a moment, and the microseconds by which the wall clock was set since the last reply.

    NOW is None before the first reply. If the file can be written at once, the result is stored. So NOW never goes
    back, also for other tools.
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

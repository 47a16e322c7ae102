"""A stream, naively: the same promises as the engine's, kept with lists and loops.

    push ─> accepted rows (time, push, row) ─ time <= watermark ─> released, sorted; position = tuple ID
    window ─> positions [first, stop) of the released rows

Nothing is indexed or forgotten, so that the model also knows the tuples that the engine must not show any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from psoup.events.acknowledgements import PushAcknowledgement
from psoup.model import Schema
from psoup_testing.histories.values import Value, iso_time
from psoup_testing.histories.windows import SECOND, Edge, Window

Row = tuple[Value, ...]
Entry = tuple[int, int, int, Row]
"""A tuple: its time, the number of its push, its place in the push, and its values."""


class Refusal(Exception):
    """The model says that the product must raise the error with this name."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The declaration of CREATE STREAM; times in seconds. `time_column` None: system time."""

    name: str
    schema: Schema
    time_column: int | None = None
    lateness: int = 0
    keep_seconds: int | None = None
    keep_rows: int | None = None
    archive: int = 0
    """The archive's part of the retention."""
    by_clock: bool = False

    def sql(self) -> str:
        """The CREATE STREAM statement."""
        columns = ", ".join(f'"{a.name}" {a.type}{"" if a.nullable else " NOT NULL"}' for a in self.schema.attributes)
        text = f"CREATE STREAM {self.name} ({columns})"
        if self.time_column is not None:
            text += f' TIMESTAMP BY "{self.schema.names[self.time_column]}"'
            if self.lateness:
                text += f" LATENESS {self.lateness} SECONDS"
            text += " WATERMARK BY CLOCK" if self.by_clock else ""
        if self.keep_seconds is not None:
            text += self._retention(self.keep_seconds, "SECONDS")
        if self.keep_rows is not None:
            text += self._retention(self.keep_rows, "ROWS")
        return text

    def _retention(self, amount: int, unit: str) -> str:
        archive = f" ARCHIVE {self.archive} {unit}" if self.archive else ""
        return f" RETENTION {amount - self.archive} {unit}{archive}"


@dataclass(frozen=True, slots=True)
class Range:
    """A window applied: positions [first, stop), its times, NOW, and whether it has lost older tuples."""

    first: int
    stop: int
    begin: int | None
    end: int | None
    now: int | None
    truncated: bool


@dataclass
class ModelStream:
    """A stream. `max_ahead` is in microseconds. `capped`: no tuple moves the watermark past the clock less lateness."""

    declaration: Declaration
    max_ahead: int
    watermark: int | None = None
    late: int = 0
    ahead: int = 0
    late_times: list[int] = field(default_factory=list)
    ahead_times: list[int] = field(default_factory=list)
    accepted: list[tuple[int, int, int, Row]] = field(default_factory=list)
    pushes: int = 0
    acknowledged: list[tuple[int, PushAcknowledgement]] = field(default_factory=list)
    """The latest pushes, by their numbers."""
    capped: bool = False
    live: bool = False
    came_late: int = 0
    """The number of rows below the watermark that were not late."""
    dropped_times: list[int] = field(default_factory=list)
    """The times of tuples that retention has dropped, and that are not among `accepted` any more."""

    def push(self, rows: list[Row], clock: int, first: Callable[[Row], bool] | None = None) -> tuple[int, int, int]:
        """Take a batch; returns how many rows were accepted, late, and too far ahead.

        `first`: whether a row below the watermark is not late. Its time in stream order is the watermark.
        """
        self.pushes += 1
        if self.declaration.time_column is None:
            time = clock if self.watermark is None else max(clock, self.watermark)
            self.accepted += [(time, self.pushes, number, row) for number, row in enumerate(rows)]
            self.watermark = time if rows else self.watermark
            return len(rows), 0, 0
        late = ahead = 0
        taken, before = list[Entry](), list[tuple[int, Row]]()
        for number, row in enumerate(rows):
            time = row[self.declaration.time_column]
            assert isinstance(time, int)
            if self.watermark is not None and time < self.watermark:
                if first is not None and first(row):
                    before.append((time, row))
                    continue
                late += 1
                self.late_times.append(time)
            elif time > clock + self.max_ahead:
                ahead += 1
                self.ahead_times.append(time)
            else:
                taken.append((time, self.pushes, number, row))
        for place, (_, row) in enumerate(sorted(before, key=lambda pair: pair[0])):
            assert self.watermark is not None
            taken.append((self.watermark, self.pushes, place - len(before), row))  # before the rows of its push
        self.came_late += len(before)
        self.accepted += taken
        if taken:
            greatest = max(entry[0] for entry in taken)
            self.live = greatest >= clock - self.declaration.lateness * SECOND - self.max_ahead
            reached = (min(greatest, clock) if self.capped else greatest) - self.declaration.lateness * SECOND
            self.watermark = reached if self.watermark is None else max(self.watermark, reached)
        self.late += late
        self.ahead += ahead
        return len(taken), late, ahead

    def attach(self, entries: list[tuple[int, Row]]) -> None:
        """Put rows with their times before all others; all that the watermark has passed are released."""
        self.pushes += 1
        self.accepted += [(time, -self.pushes, number, row) for number, (time, row) in enumerate(entries)]
        end = entries[-1][0]
        self.watermark = end if self.watermark is None else max(self.watermark, end)

    def feed(self, entries: list[tuple[int, Row]]) -> None:
        """Put rows with their times, none before the watermark, after all others."""
        self.pushes += 1
        self.accepted += [(time, self.pushes, number, row) for number, (time, row) in enumerate(entries)]
        end = entries[-1][0]
        self.watermark = end if self.watermark is None else max(self.watermark, end)

    def heartbeat(self, time: int, clock: int) -> None:
        """Raise the watermark."""
        if self.declaration.time_column is None:
            raise Refusal("FailedPrecondition")
        if time > clock + self.max_ahead:
            raise Refusal("OutOfRange")
        self.watermark = time if self.watermark is None else max(self.watermark, time)

    def follow_clock(self, steady: int, clock: int) -> None:
        """Let the watermark follow the clock. `steady`: for how long pushes have been taken, in microseconds."""
        lateness = self.declaration.lateness * SECOND
        if self.live and self.watermark is not None and steady >= max(lateness, 60 * SECOND):
            self.watermark = max(self.watermark, clock - lateness)

    def released(self) -> list[tuple[int, int, int, Row]]:
        """The released tuples in stream order; the index is the tuple ID."""
        if self.watermark is None:
            return []
        edge = self.watermark
        return sorted((e for e in self.accepted if e[0] <= edge), key=lambda entry: entry[:3])

    def now(self, clock: int) -> int | None:
        """NOW of the stream's time domain."""
        if self.declaration.time_column is not None:
            return self.watermark
        return clock if self.watermark is None else max(clock, self.watermark)

    def edge(self, times: list[int], clock: int) -> int:
        """The position of the oldest tuple that retention leaves."""
        first = 0
        now = self.now(clock)
        if self.declaration.keep_rows is not None:
            first = max(0, len(times) - self.declaration.keep_rows)
        if self.declaration.keep_seconds is not None and now is not None:
            oldest = now - self.declaration.keep_seconds * SECOND
            first = max(first, sum(time < oldest for time in times))
        return first

    def check_window(self, window: Window) -> None:
        """Refuse a registration whose window is wider than the retention."""
        begin, end = window.lower, window.upper
        keep_rows, keep_seconds = self.declaration.keep_rows, self.declaration.keep_seconds
        if begin.anchor == "rows" and keep_rows is not None and begin.amount > keep_rows:
            raise Refusal("OutOfRange")
        if keep_seconds is None:
            return
        if begin.anchor == "now" and window.kind != "rows" and begin.amount > keep_seconds * SECOND:
            raise Refusal("OutOfRange")
        if begin.anchor == "at" and end.anchor == "at" and end.amount - begin.amount > keep_seconds * SECOND:
            raise Refusal("OutOfRange")

    def range(self, window: Window, clock: int, as_of: int | None, accept_truncation: bool) -> Range:
        """The window at NOW, or at `as_of`; raises Refusal("OutOfRange")."""
        current = self.now(clock)
        if as_of is not None and (current is None or as_of > current):
            raise Refusal("OutOfRange")
        range_ = self.range_at(window, clock, current if as_of is None else as_of, as_of)
        if range_.truncated and not accept_truncation:
            raise Refusal("OutOfRange")
        return range_

    def range_at(self, window: Window, clock: int, now: int | None, as_of: int | None = None) -> Range:
        """The window at NOW := `now`; a window that ends after `as_of` is cut there."""
        times = [entry[0] for entry in self.released()]
        first, dropped = self.edge(times, clock), self.dropped_times
        if dropped:
            range_ = self._range_of(window, [*dropped, *times], len(dropped) + first, now, as_of)
            return replace(range_, first=range_.first - len(dropped), stop=range_.stop - len(dropped))
        return self._range_of(window, times, first, now, as_of)

    def _range_of(self, window: Window, times: list[int], first: int, now: int | None, as_of: int | None) -> Range:
        if now is None:
            return Range(first, first, None, None, None, False)
        if window.kind == "rows":
            return _row_range(window, times, first, now)
        begin, end = _instant(window.lower, now), _instant(window.upper, now)
        assert end is not None
        end = end if as_of is None else min(end, as_of)  # what came after that was not known then
        last = min(end, now)
        inside = [p for p, t in enumerate(times) if (begin is None or t >= begin) and t <= last and p >= first]
        low, stop = (inside[0], inside[-1] + 1) if inside else (first, first)
        lost = begin is not None and begin <= last and any(time >= begin for time in times[:first])
        return Range(low, stop, begin, end, now, lost)

    def goes_on(self, range_: Range) -> bool:
        """Whether a window has released tuples later than its NOW, which are not in it yet."""
        if range_.now is None or range_.end is None:
            return False
        return any(range_.now < entry[0] <= range_.end for entry in self.released())

    def inside(self, window: Window, range_: Range, clock: int) -> tuple[int | None, int | None, int]:
        """The numbers of late, far and waiting tuples in a window: between its times, or those of its rows."""
        times = [entry[0] for entry in self.released()]
        waiting = [entry[0] for entry in self.accepted if self.watermark is None or entry[0] > self.watermark]
        begin, end, rows = range_.begin, range_.end, times[range_.first : range_.stop]
        if window.kind == "rows" and rows and window.upper.anchor == "rows" and window.upper.amount:
            end = rows[-1]
        counted = window.kind == "rows" and window.lower.anchor == "rows"
        keep_rows = self.declaration.keep_rows
        edged = keep_rows is not None and range_.first == len(times) - keep_rows
        low = [rows[0]] if rows and (counted or edged) else []
        low += [] if begin is None else [begin]
        current = self.now(clock)
        if self.declaration.keep_seconds is not None and current is not None:
            low.append(current - self.declaration.keep_seconds * SECOND)

        def count(times: list[int]) -> int:
            return sum(time <= end and time >= max(low, default=time) for time in times) if end is not None else 0

        unknown = end is None
        return (
            None if unknown and self.late_times else count(self.late_times),
            None if unknown and self.ahead_times else count(self.ahead_times),
            count(waiting),
        )


def _instant(edge: Edge, now: int) -> int | None:
    if edge.anchor == "start":
        return None
    return edge.amount if edge.anchor == "at" else now - edge.amount


def _row_range(window: Window, times: list[int], first: int, now: int) -> Range:
    reached = [p for p, time in enumerate(times) if time <= now]
    last_n = reached if window.lower.anchor == "start" else reached[max(0, len(reached) - window.lower.amount) :]
    left_out = window.upper.amount if window.upper.anchor == "rows" else 0
    without = reached[max(0, len(reached) - left_out) :] if left_out else []
    wanted = [p for p in last_n if p not in set(without)]
    lost = window.lower.anchor != "start" and any(p < first for p in last_n)
    positions = [p for p in wanted if p >= first]
    low, stop = (positions[0], positions[-1] + 1) if positions else (first, first)
    return Range(low, stop, None, now, now, lost)


def described(entries: list[tuple[int, int, int, Row]]) -> str:
    """The released tuples as a small table, for a failure message."""
    return "\n".join(f"{p:4} {iso_time(e[0])} {e[3]!r}" for p, e in enumerate(entries))

"""The budget of one read, and whether its caller still waits: asked wherever a read has done a chunk's work.

    read ──check──> ask()  the host's: raises if the caller has left, or the processor time is used up
         ──before_long──> wait()  the host's: lets quick reads go first
         ──examine(65,536 tuples)──> counted, and checked
         ──hold(8 MB), give_back──> counted against what one read, and all together, may hold for sorts, joins, groups
         ──archive──> how long tuples on disk would take: refused beforehand, or as soon as it shows

The engine has neither a clock nor threads: `ask`, `wait`, `Shared` and `Archive` are ports of the host. Without them
everything is allowed, so a program in one thread needs none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from psoup import budgets
from psoup.errors import ResourceExhausted

NO_LIMIT = 2**62

_RETRY_AFTER_MS = 1_000


class ReadEnded(Exception):
    """Raised by `ask` when the caller has left: the work is dropped where it is. Handlers of errors let it pass."""


class Shared(Protocol):
    """Bytes that all reads together may hold. Any thread."""

    @property
    def limit(self) -> int:
        """The most that they may hold."""
        ...

    def take(self, size: int) -> bool:
        """Take `size` bytes, if that is possible."""
        ...

    def give_back(self, size: int) -> None:
        """Return bytes that were taken."""
        ...


class Archive(Protocol):
    """The speed of evaluating tuples on disk, by kind of clause, and the time that one read may take. Any thread."""

    seconds: float

    def expected(self, kind: str, tuples: int) -> float:
        """Seconds that `tuples` will take, from what was measured."""
        ...

    def start(self, kind: str, tuples: int) -> Callable[[int], float]:
        """Measure from now on. The result is told of tuples that are done; it returns the seconds for all of them."""
        ...


class ReadBudget:
    """The budget of one read. `ask` raises what ends it; `rows`: tuples it may look at; `sort_bytes`: for its sorts.

    One read may be at work on several threads: `check` and `examine` may be called from any of them.
    """

    def __init__(
        self,
        ask: Callable[[], None] | None = None,
        *,
        rows: int = NO_LIMIT,
        sort_bytes: int = NO_LIMIT,
        shared: Shared | None = None,
        archive: Archive | None = None,
        cpu_s: float = NO_LIMIT,
    ) -> None:
        self.ask = ask
        self.wait: Callable[[], None] | None = None
        """The host's: called before long work, waits for the turn of it."""
        self.rows = rows
        self.sort_bytes = sort_bytes
        self.archive = archive
        self.cpu_s = cpu_s
        """Seconds of processor time that it may use: `ask` ends it then."""
        self.examined = 0
        """Tuples looked at so far, about: threads do not wait for each other to count."""
        self.held = 0
        """Bytes held now for sorts."""
        self.joined = 0
        """Bytes held now for joins."""
        self.grouped = 0
        """Bytes held now for groups."""
        self.wanted = 0
        """The most bytes that were held or asked for at a time, refused ones among them."""
        self.window = 0
        """Tuples in the window, as soon as that is known."""
        self.found = 0
        """Tuples that matched, as soon as that is known."""
        self._shared = shared

    def check(self) -> None:
        """Raise what ends the read, if something does. About 0.3 us: for every chunk, not for every tuple."""
        if self.ask is not None:
            self.ask()

    def before_long(self) -> None:
        """Wait for the turn of long work: some tens of milliseconds or more follow in which nothing is asked."""
        if self.wait is not None:
            self.wait()

    def examine(self, rows: int) -> None:
        """Count `rows` tuples to be looked at next: raises what ends the read, or ResourceExhausted (ROWS_EXAMINED)."""
        self.examined += rows
        self.check()
        if self.examined > self.rows:
            raise ResourceExhausted(
                f"this read would look at {self.examined:,} tuples, and one read may look at {self.rows:,}; narrow the"
                " window",
                reason="ROWS_EXAMINED",
                **budgets.ROWS_EXAMINED.over(self.examined, self.rows),
            )

    def hold(self, size: int) -> None:
        """Take `size` bytes for a sort. Raises ResourceExhausted: SORT_BUDGET is its own, SORTS_BUDGET that of all."""
        self._want(size)
        if self.held + size > self.sort_bytes:
            raise ResourceExhausted(
                f"ORDER BY or DISTINCT would hold {self.held + size:,} bytes, and one read may hold"
                f" {self.sort_bytes:,} (sort_mib); narrow the window or the WHERE clause, or add a LIMIT",
                reason="SORT_BUDGET",
                **budgets.SORT_BYTES.over(self.held + size, self.sort_bytes),
            )
        self._take(size, "ORDER BY or DISTINCT")
        self.held += size

    def give_back(self, size: int) -> None:
        """Return bytes that were taken."""
        self.held -= size
        if self._shared is not None and size:
            self._shared.give_back(size)

    def hold_joined(self, size: int, what: str = "a join") -> None:
        """Take `size` bytes for a join, or what has bounds of its own. Raises ResourceExhausted (SORTS_BUDGET)."""
        self._want(size)
        self._take(size, what)
        self.joined += size

    def give_back_joined(self, size: int) -> None:
        """Return bytes that a join has taken."""
        self.joined -= size
        if self._shared is not None and size:
            self._shared.give_back(size)

    def hold_grouped(self, size: int) -> None:
        """Take `size` bytes for groups. Raises as `check`, and ResourceExhausted: GROUP_BUDGET is its own, SORTS_BUDGET
        that of all."""
        self.check()
        self._want(size)
        if self.grouped + size > self.sort_bytes:
            raise ResourceExhausted(
                f"the groups of this answer would hold {self.grouped + size:,} bytes, and one read may hold"
                f" {self.sort_bytes:,} (sort_mib); narrow the window or the WHERE clause, or group by coarser keys",
                reason="GROUP_BUDGET",
                **budgets.GROUP_BYTES.over(self.grouped + size, self.sort_bytes),
            )
        self._take(size, "GROUP BY")
        self.grouped += size

    def give_back_grouped(self, size: int) -> None:
        """Return bytes that groups have taken."""
        self.grouped -= size
        if self._shared is not None and size:
            self._shared.give_back(size)

    def close(self) -> None:
        """End the read: what it holds is given back. Idempotent."""
        self.give_back(self.held)
        self.give_back_joined(self.joined)
        self.give_back_grouped(self.grouped)

    def _want(self, size: int) -> None:
        """Note the bytes that would be held with `size` more."""
        self.wanted = max(self.wanted, self.held + self.joined + self.grouped + size)

    def _take(self, size: int, what: str) -> None:
        """Take `size` bytes of those that all reads share."""
        if self._shared is not None and not self._shared.take(size):
            raise ResourceExhausted(
                f"{what} needs {size:,} bytes more, and all sorts, joins and groups together may hold"
                f" {self._shared.limit:,} (sorts_mib); try again when other answers have been read",
                reason="SORTS_BUDGET",
                **budgets.SHARED_BYTES.over(self.held + self.joined + self.grouped + size, self._shared.limit),
                retry_after_ms=_RETRY_AFTER_MS,
            )


UNBOUNDED = ReadBudget()
"""The budget of reads without a waiting caller. Its counts mean nothing."""


class HeldBytes(Protocol):
    """Bytes that one step of a read holds, charged before they are made."""

    def hold(self, size: int) -> None:
        """Take `size` bytes. Raises what says that they are too many."""
        ...

    def give_back(self, size: int | None = None) -> None:
        """Return bytes that were taken; None: all of them."""
        ...


class _NotHeld:
    """Bytes that nothing is charged for."""

    def hold(self, size: int) -> None:
        """Charge nothing."""

    def give_back(self, size: int | None = None) -> None:
        """Return nothing."""


NOT_HELD: HeldBytes = _NotHeld()
"""Bytes of a check, or of a program without a budget."""


class GroupBytes:
    """Bytes that one step of a read holds for groups, given back together."""

    def __init__(self, budget: ReadBudget) -> None:
        self._budget, self._held = budget, 0

    def hold(self, size: int) -> None:
        """Take `size` bytes. Raises as `ReadBudget.hold_grouped`."""
        self._budget.hold_grouped(size)
        self._held += size

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def give_back(self, size: int | None = None) -> None:
        """Return bytes that were taken; None: all of them."""
        size = self._held if size is None else size
        self._budget.give_back_grouped(size)
        self._held -= size

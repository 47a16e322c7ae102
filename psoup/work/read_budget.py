"""The budget of one read: its limits, and a check after each chunk of work that the caller still waits.

    read ──check──> ask()  of the host: raises if the caller has left, or the processor time is used up
         ──before_long──> wait()  of the host: lets quick reads go first
         ──examine(65,536 tuples)──> counted, and checked
         ──hold(8 MB), give_back──> counted against the limits of one read and of all reads for sorts, joins, groups
         ──archive──> the time limit for tuples on disk: a read above it is refused at the start, or ends midway

The engine has neither a clock nor threads: `ask`, `wait`, `Shared` and `Archive` are ports of the host. Without them,
only `rows` and `sort_bytes` limit a read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from psoup import budgets
from psoup.errors import ResourceExhausted

NO_LIMIT = 2**62

_RETRY_AFTER_MS = 1_000


class ReadEnded(Exception):
    """Raised by `ask` after the caller of a read has left. The read stops at once, and its error handlers let this
    pass."""


class Shared(Protocol):
    """The bytes that all reads share for sorts, joins and groups. Any thread may call it."""

    @property
    def limit(self) -> int:
        """The most bytes that all reads may hold at a time."""
        ...

    def take(self, size: int) -> bool:
        """Take `size` bytes if they are free. Returns whether they were."""
        ...

    def give_back(self, size: int) -> None:
        """Return `size` bytes that the read has taken."""
        ...


class Archive(Protocol):
    """The measured speed of evaluations over tuples on disk, for each kind of clause. Any thread may call it.

    `seconds`: the time limit of one read for such tuples.
    """

    seconds: float

    def expected(self, kind: str, tuples: int) -> float:
        """The expected seconds for an evaluation over `tuples` tuples, from earlier measurements."""
        ...

    def start(self, kind: str, tuples: int) -> Callable[[int], float]:
        """Start to measure an evaluation of `tuples`. Returns a function that estimates the time of the whole
        evaluation.

        The caller passes the number of tuples that it has evaluated since the last call. The function returns the
        expected seconds for all tuples, or 0 while they are unknown.
        """
        ...


class ReadBudget:
    """The budget of one read.

    `ask`: raises to end the read. `rows`: the most tuples to examine. `sort_bytes`: the most bytes for sorts, and the
    most for groups. One read may work on several threads: `check` and `examine` may be called from any of them.
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
        """A function of the host that waits until this read may start long work."""
        self.on_pairs: Callable[[int], None] | None = None
        """A function that is told the number of tuples that a join has found, whenever they were counted."""
        self.rows = rows
        self.sort_bytes = sort_bytes
        self.archive = archive
        self.cpu_s = cpu_s
        """The most seconds of processor time. After that `ask` ends the read."""
        self.examined = 0
        """The approximate number of examined tuples: threads do not wait for each other to count."""
        self.held = 0
        """Bytes held now for sorts."""
        self.joined = 0
        """Bytes held now for joins."""
        self.grouped = 0
        """Bytes held now for groups."""
        self.wanted = 0
        """The most bytes that the read held or requested at a time, including requests that were refused."""
        self.window = 0
        """The number of tuples in the window. 0 until it is known."""
        self.found = 0
        """The number of tuples that matched. 0 until it is known."""
        self._shared = shared

    def check(self) -> None:
        """Raise if the read must end. A call takes about 0.3 us, so callers make it for every chunk, not for every
        tuple."""
        if self.ask is not None:
            self.ask()

    def before_long(self) -> None:
        """Wait for the host's permission to work for some tens of milliseconds or more without a check."""
        if self.wait is not None:
            self.wait()

    def examine(self, rows: int) -> None:
        """Count the next `rows` tuples. Raises if the read must end, and ResourceExhausted (ROWS_EXAMINED)."""
        self.examined += rows
        self.check()
        if self.examined > self.rows:
            raise ResourceExhausted(
                f"this read would look at {self.examined:,} tuples, and one read may look at {self.rows:,}; narrow the"
                " window",
                reason="ROWS_EXAMINED",
                **budgets.ROWS_EXAMINED.over(self.examined, self.rows),
            )

    def hold(self, size: int, subject: str = "ORDER BY or DISTINCT") -> None:
        """Take `size` bytes for a sort, or for the rows of `subject`. Raises ResourceExhausted: SORT_BUDGET for this
        read, SORTS_BUDGET for all reads."""
        self._want(size)
        if self.held + size > self.sort_bytes:
            raise ResourceExhausted(
                f"{subject} would hold {self.held + size:,} bytes, and one read may hold"
                f" {self.sort_bytes:,} (sort_mib); narrow the window or the WHERE clause, or add a LIMIT",
                reason="SORT_BUDGET",
                **budgets.SORT_BYTES.over(self.held + size, self.sort_bytes),
            )
        self._take(size, subject)
        self.held += size

    def give_back(self, size: int) -> None:
        """Return `size` bytes that the read has taken."""
        self.held -= size
        if self._shared is not None and size:
            self._shared.give_back(size)

    def hold_joined(self, size: int, subject: str = "a join") -> None:
        """Take `size` bytes for a join, or for work with separate limits. Raises ResourceExhausted (SORTS_BUDGET)."""
        self._want(size)
        self._take(size, subject)
        self.joined += size

    def give_back_joined(self, size: int) -> None:
        """Return bytes that a join has taken."""
        self.joined -= size
        if self._shared is not None and size:
            self._shared.give_back(size)

    def hold_grouped(self, size: int) -> None:
        """Take `size` bytes for groups. Raises as `check`, and ResourceExhausted: GROUP_BUDGET for this read,
        SORTS_BUDGET for all reads."""
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
        """End the read, and return all bytes that it holds. Idempotent."""
        self.give_back(self.held)
        self.give_back_joined(self.joined)
        self.give_back_grouped(self.grouped)

    def _want(self, size: int) -> None:
        """Record in `wanted` that the read requests `size` more bytes."""
        self.wanted = max(self.wanted, self.held + self.joined + self.grouped + size)

    def _take(self, size: int, subject: str) -> None:
        """Take `size` of the bytes that all reads share."""
        if self._shared is not None and not self._shared.take(size):
            raise ResourceExhausted(
                f"{subject} needs {size:,} bytes more, and all sorts, joins and groups together may hold"
                f" {self._shared.limit:,} (sorts_mib); try again when other answers have been read",
                reason="SORTS_BUDGET",
                **budgets.SHARED_BYTES.over(self.held + self.joined + self.grouped + size, self._shared.limit),
                retry_after_ms=_RETRY_AFTER_MS,
            )


UNBOUNDED = ReadBudget()
"""A budget without limits, for reads that no caller waits for. All of them share its counts, which mean nothing."""


class HeldBytes(Protocol):
    """The bytes that one step of a read holds. The step charges them before it allocates them."""

    def hold(self, size: int) -> None:
        """Take `size` bytes. Raises if they are too many."""
        ...

    def give_back(self, size: int | None = None) -> None:
        """Return `size` bytes, or with None all bytes that are held."""
        ...


class _NotHeld:
    """A `HeldBytes` that counts nothing."""

    def hold(self, size: int) -> None:
        """Charge nothing."""

    def give_back(self, size: int | None = None) -> None:
        """Return nothing."""


NOT_HELD: HeldBytes = _NotHeld()
"""The `HeldBytes` of checks, and of programs without a budget."""


class GroupBytes:
    """The bytes that one step of a read holds for groups. The step can return all of them by one call."""

    def __init__(self, budget: ReadBudget) -> None:
        self._budget = budget
        self._held = 0

    def hold(self, size: int) -> None:
        """Take `size` bytes. Raises as `ReadBudget.hold_grouped`."""
        self._budget.hold_grouped(size)
        self._held += size

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def give_back(self, size: int | None = None) -> None:
        """Return `size` bytes, or with None all bytes that are held."""
        size = self._held if size is None else size
        self._budget.give_back_grouped(size)
        self._held -= size

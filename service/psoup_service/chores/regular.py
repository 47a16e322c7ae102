"""The regular work of a service: each part is a task of the supervisor.

clock          every second        the wall clock is compared with boot time
watermarks     every second        watermarks of live streams follow the clock
expiry         every hour          queries that have expired are unregistered
parking        24 times a day      inactive queries that were not asked for long are parked
row expiry     every second        rows of tables that have expired are deleted
folding        every 2 s           aggregates are folded ahead
derived        after publications  the rows of derived streams are made, on a thread of their own
eager answers  after publications  kept answers of eager queries are updated, on a thread of their own
copy           every second        a copy of the events that is behind is reported in the log
arrival watch  every half minute   queries that take much of the writer's time are reported
auto           every 10 s          the amounts of AUTO queries are chosen
gate, keys     every second        calls whose credential has ended are ended; keys of the provider are fetched
certificates   every few seconds   new files are taken into use
standby        every half second   events of the copy that a standby follows, until it is promoted
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from psoup.answer.automatic import rounds
from psoup.published.parked_queries import RecalledQueries
from psoup.published.snapshot import Snapshot
from psoup_service.chores import arrival_watch, clock_heartbeats, expiry, fold_ahead, park_watch, row_expiry, standby
from psoup_service.chores.arrival_watch import ArrivalWatch
from psoup_service.chores.auto_rounds import AutoWork
from psoup_service.chores.clock_heartbeats import ClockHeartbeats
from psoup_service.chores.derived_streams import DerivedStreams
from psoup_service.chores.eager_answers import EagerAnswers
from psoup_service.chores.expiry import Expiry, ExpiryWait
from psoup_service.chores.fold_ahead import FoldAhead
from psoup_service.chores.park_watch import Parking
from psoup_service.chores.promotion import Promotion
from psoup_service.chores.row_expiry import RowExpiry
from psoup_service.chores.standby import Following
from psoup_service.chores.supervisor import Supervisor
from psoup_service.chores.writer_address import note_writer
from psoup_service.figures import copy_figures
from psoup_service.figures.copy_figures import CopyWatch, copy_notice
from psoup_service.gate import certificates, credentials
from psoup_service.host.background import Background
from psoup_service.host.fold_notes import NOT_UPDATED, UPDATING, FoldNotes
from psoup_service.host.host import Host
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.threads import Threads
from psoup_service.process.clock import EVERY_S, GuardedClock
from psoup_storage import uploader_of

if TYPE_CHECKING:
    from psoup_service.gate.certificates import Certificates
    from psoup_service.gate.credentials import Gate
    from psoup_service.process.settings import Settings
    from psoup_storage.contract import Store


class RegularWork:
    """The regular work of one service, on its event loop."""

    def __init__(
        self,
        host: Host[Snapshot],
        store: Store,
        threads: Threads,
        settings: Settings,
        allowance: ReadLimits,
        heartbeats: ClockHeartbeats,
        wait: ExpiryWait,
        recalled: RecalledQueries,
    ) -> None:
        budgets = f"{settings.memory_mib} {settings.sort_mib} {settings.sorts_mib}"
        self._threads, self._store, self._advertise = threads, store, settings.advertise
        self._places: Sequence[str] = ()
        if (uploader := uploader_of(store)) is not None:
            uploader.stop = host.fence
        self.background = Background(allowance, host.way, host.charge, FoldNotes(store, budgets))
        self.expiry = Expiry(host, store)
        self.parking = Parking(host, recalled, settings.park_after_s)
        self.row_expiry = RowExpiry(host, wait.edge)
        self.folding = FoldAhead(host, threads, self.background)
        notes = FoldNotes(store, budgets, UPDATING, NOT_UPDATED)
        self._eager_budgets = Background(allowance, host.way, host.charge, notes)
        self.eager = EagerAnswers(host.snapshot, host.listen, host.clock.now, self._eager_budgets)
        self.derived = DerivedStreams(host, wait.edge)
        self.shares = ArrivalWatch(host, store, settings.warn_share, settings.quarantine_share)
        self.auto = AutoWork(host)
        self.heartbeats = heartbeats
        self.following = Following(host, store, threads)
        parts = host, store, threads, self.following, self.expiry, wait
        self.promotion = Promotion(*parts, self.start_with_events)
        self.supervisor = Supervisor()

    def start(self, clock: GuardedClock, gate: Gate, certificate: Certificates | None, places: Sequence[str]) -> None:
        """Start all work. Called once all events are replayed. A standby does none that makes events.

        `places`: what the service listens on.
        """
        self._places = places
        start = self.supervisor.start
        start("clock", clock.run, EVERY_S)
        start("folding", self.folding.run, fold_ahead.EVERY_S)
        self.eager.start()
        start("gate", gate.run, credentials.EVERY_S)
        start("provider keys", gate.fetch, credentials.EVERY_S)
        if certificate is not None:
            start("certificates", partial(certificate.run, self._threads), certificates.EVERY_S)
        if self._store.follows:
            start("standby", self.following.run, standby.EVERY_S)
        else:
            self.start_with_events()

    def start_with_events(self) -> None:
        """Start the work that may make events: at once, or when a standby is promoted."""
        note_writer(self._store, self._advertise, self._places)
        start = self.supervisor.start
        self.heartbeats.begin()
        start("watermarks", self.heartbeats.run, clock_heartbeats.EVERY_S)
        start("expiry", self.expiry.run, expiry.EVERY_S)
        start("parking", self.parking.run, self.parking.every_s)
        start("parked queries", self.parking.forget, park_watch.FORGET_S)
        start("row expiry", self.row_expiry.run, row_expiry.EVERY_S)
        if (uploader := uploader_of(self._store)) is not None:
            uploader.start()
            start("copy", CopyWatch(self._store).run, copy_figures.EVERY_S)
        self.derived.start()
        start("arrival watch", self.shares.run, arrival_watch.EVERY_S)
        start("auto", self.auto.run, rounds.EVERY_S)

    def figures(self) -> dict[str, int]:
        """Figures for the operator."""
        ended = {
            "background_errors": self.supervisor.failures + self.eager.errors,
            "ahead_refused": self.background.refusals,
        }
        return {
            **self.shares.figures(),
            **ended,
            "clock_heartbeats": self.heartbeats.count,
            "rows_expired": self.row_expiry.expired,
            **self.derived.figures(),
            **copy_figures.copy_figures(self._store),
        }

    def notice(self) -> str:
        """The tasks that keep failing, the state of the copy, and what a standby follows, in words; or ""."""
        return "; ".join(filter(None, (self.supervisor.failing, copy_notice(self._store), self.following.notice())))

    def stop(self) -> None:
        """End all work. `join` waits for its threads."""
        self.supervisor.stop()
        self.promotion.stop()
        self.eager.stop()
        self.derived.stop()
        self.background.close()
        self._eager_budgets.close()

    def join(self) -> None:
        """Wait until the threads have ended, after `stop`."""
        self.eager.join()
        self.derived.join()

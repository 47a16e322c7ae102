"""PSoup inside a Python process: no service, nothing durable. For tests, benchmarks and notebooks.

>>> import pyarrow as pa
>>> soup = LocalPSoup()
>>> soup.execute("CREATE STREAM ticks (symbol TEXT, price DOUBLE)")
>>> _ = soup.push("ticks", pa.table({"symbol": ["A", "B"], "price": [1.0, 9.5]}))
>>> query = soup.register("SELECT symbol FROM ticks WHERE price > 5")
>>> _ = soup.push("ticks", pa.table({"symbol": ["C"], "price": [7.0]}))
>>> soup.invoke(query).to_table().column("symbol").to_pylist()
['B', 'C']
>>> soup.ask("SELECT symbol FROM ticks WHERE price < 9").to_table().column("symbol").to_pylist()
['A', 'C']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from psoup.admission import Admission
from psoup.admission.rows.pushes import offered_to
from psoup.answer.ask import Questions, ask
from psoup.answer.automatic.rounds import AutoRounds
from psoup.answer.eager.eager_updates import EagerUpdates
from psoup.answer.explain.explain import Explanation, explain
from psoup.answer.invoke import Answer, invoke
from psoup.answer.question import chosen_window
from psoup.answer.table import Table, invoke_table
from psoup.answer.table_content import table_content
from psoup.answer.tuples.match_bits import Bits, Choice, bits_of, stretch
from psoup.answer.tuples.match_rows import Matched, match
from psoup.answer.tuples.pushed_ids import tuple_ids
from psoup.answer.tuples.queries_of_tuple import matches, matches_between, matches_many
from psoup.answer.tuples.why import Row, Why, stream_of_source, why
from psoup.config import EngineConfig
from psoup.data.chunk import Keep
from psoup.engine.engine import Engine
from psoup.errors import NotFound, PSoupError, ResourceExhausted
from psoup.events.acknowledgements import (
    Acknowledgement,
    Prepared,
    PushAcknowledgement,
    StreamAcknowledgement,
)
from psoup.events.commands import (
    AlterStream,
    Command,
    CreateStream,
    DropStream,
    Heartbeat,
    Push,
    UnregisterMany,
)
from psoup.events.tags import tag_of
from psoup.execution.aggregate.check_folds import check_folds
from psoup.execution.ahead.attempts import Lent
from psoup.execution.many.window_packs import check_packs
from psoup.invariants import Verify
from psoup.local_queries import LocalQueries
from psoup.model import DEFAULT_TENANT
from psoup.published.expired_rows import ExpiredRows
from psoup.published.parked_queries import Registrations
from psoup.published.snapshot import StreamView
from psoup.pumps import Pumps
from psoup.pumps.status import status_of
from psoup.pumps.status_text import status_lines
from psoup.pumps.window_text import window_lines
from psoup.sql import Dropping, drop_stream, first_word
from psoup.values.columns import Array
from psoup.work.clock import Clock, VirtualClock
from psoup.work.read_budget import NO_LIMIT, ReadBudget
from psoup.work.runner import Runner, serial


class LocalPSoup(LocalQueries):
    """An engine with its admission, for one caller. It prepares and applies one command at a time.

    Errors are from `psoup.errors`. `keep`: stores closed chunks in `maintain`, so that streams may have an ARCHIVE.
    `verify`: the checks after each command (`psoup.engine.verification`). A failed check raises Corrupt. `timer`: the
    processor time in seconds, from which AUTO learns the time that queries take. `log`: where parked queries are read;
    without one, none is parked.
    """

    def __init__(
        self,
        config: EngineConfig = EngineConfig(),
        clock: Clock | None = None,
        run: Runner = serial,
        tenant: str = DEFAULT_TENANT,
        keep: Keep | None = None,
        verify: Verify = "cheap",
        timer: Callable[[], float] = float,
        log: Registrations | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.admission = admission = Admission(config, archive=keep is not None, parks=log is not None)
        self.engine = Engine(config, run, keep, lambda: admission.producer_bytes, verify, timer, log=log)
        admission.share_published(self.engine.snapshot)
        self._verify = verify
        self.tenant = tenant
        self._questions, self._expiring = Questions(), ExpiredRows()
        self._pumps = Pumps()
        self._rounds, self._eager = AutoRounds(timer), EagerUpdates(Lent(NO_LIMIT))

    def submit(self, command: Command) -> Acknowledgement:
        """Prepare and apply one command, then derive the rows of derived streams.

        A derived stream whose rows cannot be made does not fail the command: `not_derived` has the reason.
        """
        done = self._submit(command)
        self._derive()
        return done

    def _derive(self) -> None:
        self._pumps.run(self.engine.snapshot, self._submit, self.clock.now, ReadBudget)

    @property
    def not_derived(self) -> dict[str, PSoupError]:
        """The derived streams whose last step has failed, each with its error. Each command tries again."""
        streams = self.engine.snapshot().by_id
        return {streams[i].spec.name: problem for i, problem in self._pumps.failed.items() if i in streams}

    def _submit(self, command: Command) -> Acknowledgement:
        prepared = self._prepare(command)
        if prepared.events:
            self.admission.give_back(self.engine.apply(prepared.events).freed_bytes)
        if self._verify == "all":
            self.admission.check()
        return prepared.acknowledgement

    def _prepare(self, command: Command) -> Prepared:
        """Prepare a command. If the memory is full, first drop tuples that have passed their retention."""
        now = self.clock.now()
        try:
            return self.admission.prepare(command, now)
        except ResourceExhausted:
            freed = self.engine.expire(now)
            if not freed:
                raise
            self.admission.give_back(freed)
            return self.admission.prepare(command, now)

    def execute(self, sql: str) -> Answer | None:
        """Execute a statement of any kind. Returns the answer of a SELECT, which is not registered, else None."""
        match first_word(sql):
            case "CREATE":
                self.submit(CreateStream(sql, self.tenant, table_content(self.engine.snapshot(), sql, self.tenant)))
            case "ALTER":
                self.submit(AlterStream(sql, self.tenant))
            case "DROP":
                self._drop(drop_stream(sql))
            case _:
                return self.ask(sql)
        return None

    def _drop(self, dropping: Dropping) -> None:
        try:
            self.submit(DropStream(dropping.stream, self.tenant, cascade=dropping.cascade, table=dropping.table))
        except NotFound:
            if not dropping.lenient:
                raise

    def push(
        self,
        stream: str,
        table: pa.Table | pa.RecordBatch,
        producer: str = "",
        epoch: int = 0,
        number: int = 0,
        *,
        refused: Literal["raise", "count"] = "raise",
    ) -> PushAcknowledgement:
        """Push tuples. Raises RowsRefused, and takes none, if some are too late or too far ahead.

        With `refused="count"`, or a `producer`, it takes the rest and counts these."""
        whole = refused != "count" and not producer
        answer = self.submit(Push(stream, table, producer, epoch, number, b"", self.tenant, all_or_none=whole))
        assert isinstance(answer, PushAcknowledgement)
        return answer

    def heartbeat(self, stream: str, time: int) -> None:
        """Promise that no tuple with a time less than `time` (microseconds) will come."""
        self.submit(Heartbeat(stream, time, self.tenant))

    def drop_stream(self, name: str, *, cascade: bool = False) -> int:
        """Drop a stream, with `cascade` also its queries. Returns the number of dropped queries."""
        answer = self.submit(DropStream(name, self.tenant, cascade=cascade))
        assert isinstance(answer, StreamAcknowledgement)
        return answer.queries

    def invoke(
        self,
        query_id: int,
        as_of: int | None = None,
        window: str | Mapping[str, str] | None = None,
        accept_truncation: bool = False,
    ) -> Answer:
        """The current answer of a query. `window`: a text BEGIN … END …, or such texts by the names of the sources."""
        return invoke(
            self.engine.snapshot(),
            query_id,
            tenant=self.tenant,
            now=self.clock.now(),
            as_of=as_of,
            window=chosen_window(window),
            accept_truncation=accept_truncation,
        )

    def invoke_table(
        self,
        query_ids: Sequence[int] | Array,
        as_of: int | None = None,
        window: str | Mapping[str, str] | None = None,
        accept_truncation: bool = False,
    ) -> Table:
        """The answers of many queries as one table. Its first column is the query's place in `query_ids`."""
        return invoke_table(
            self.engine.snapshot(),
            np.asarray(query_ids, np.int64),
            tenant=self.tenant,
            now=self.clock.now(),
            as_of=as_of,
            window=chosen_window(window),
            accept_truncation=accept_truncation,
        )

    def ask(
        self,
        sql: str,
        as_of: int | None = None,
        window: str | Mapping[str, str] | None = None,
        accept_truncation: bool = False,
    ) -> Answer:
        """The answer of a SELECT that is not registered. The arguments are as for `invoke`."""
        snapshot = self.engine.snapshot()
        return ask(
            snapshot,
            self._questions.bind(snapshot, sql, tenant=self.tenant),
            tenant=self.tenant,
            now=self.clock.now(),
            as_of=as_of,
            window=chosen_window(window),
            accept_truncation=accept_truncation,
        )

    def match(self, stream: str, table: pa.Table | pa.RecordBatch) -> Matched:
        """The queries that each row would match if it were pushed now. A row that would be refused matches none."""
        snapshot, now = self.engine.snapshot(), self.clock.now()
        view = snapshot.stream(stream, self.tenant)
        offer = offered_to(view, table, snapshot.config, now)
        return match(snapshot, stream, offer.batch, tenant=self.tenant).among(offer.rows, table.num_rows)

    def tuple_ids(self, stream: str, pushed: PushAcknowledgement) -> range | list[int | None]:
        """The tuple ID of each accepted row of a push, in the order of the push. None for a row that still waits.

        The result is a range in system time, or if the times came in order. Raises OutOfRange if the IDs are unknown.
        """
        if not pushed.accepted:
            return range(0)
        rows = (pushed.first_row, pushed.accepted)
        return tuple_ids(self.engine.snapshot(), stream, pushed.sequence, *rows, tenant=self.tenant).listed()

    def why(self, query_id: int, of: int | pa.Table, as_of: int | None = None, source: str = "") -> Why:
        """Explain why a tuple of a source is in an answer, or not. `of`: its ID, or one row that is not pushed."""
        snapshot, now, row = self.engine.snapshot(), self.clock.now(), of
        if not isinstance(of, int):
            view = stream_of_source(snapshot, query_id, self.tenant, source)
            offer = offered_to(view, of, snapshot.config, now)
            row = Row(offer.columns, int(offer.times[0]), refused=offer.refused_for())
        return why(snapshot, query_id, row, tenant=self.tenant, now=now, as_of=as_of, source=source)

    def matches(self, stream: str, tuple_id: int) -> list[int]:
        """The IDs of the queries whose WHERE the tuple satisfies."""
        return matches(self.engine.snapshot(), stream, tuple_id, tenant=self.tenant, now=self.clock.now())

    def matches_many(self, stream: str, tuple_ids: Sequence[int]) -> list[list[int]]:
        """For each tuple, the result of `matches`."""
        return matches_many(self.engine.snapshot(), stream, tuple_ids, tenant=self.tenant, now=self.clock.now())

    def matches_between(self, stream: str, first: int, count: int) -> Matched:
        """The result of `matches` for each of `count` successive tuples. `first`: the first ID."""
        return matches_between(self.engine.snapshot(), stream, first, count, tenant=self.tenant, now=self.clock.now())

    def results(
        self,
        stream: str,
        queries: Sequence[int | str] | Mapping[str, str] | None = None,
        begin: int | None = None,
        end: int | None = None,
        *,
        ids: range | None = None,
    ) -> Bits:
        """The results of some queries over a window: one bit for each pair of a query and a tuple.

        `queries`: IDs and keys, or labels that each query must have. None selects all queries on the stream. `begin`,
        `end`: the first and the last time, in microseconds. `ids`: a range of tuple IDs, instead of times.
        """
        snapshot, now = self.engine.snapshot(), self.clock.now()
        view = snapshot.stream(stream, self.tenant)
        if queries is None or isinstance(queries, Mapping):
            choice = Choice(labels=tag_of("", queries).labels)
        else:
            choice = Choice([query if isinstance(query, int) else self.query(query) for query in queries])
            choice.refuse_empty()
        bounds = (None, None) if ids is None else (ids.start, ids.stop)
        where = stretch(snapshot, view, now=now, begin=begin, end=end, ids=bounds)
        where.refuse_too_large(choice.count(snapshot, view, self.tenant))
        return bits_of(snapshot, view, choice.records(snapshot, view, self.tenant, 2**62), where)

    def explain(self, query_id: int) -> Explanation:
        """An explanation of a query: the ways in which it is evaluated, and its memory and files."""
        snapshot = self.engine.snapshot()

        def derived_status(view: StreamView) -> Sequence[str]:
            pump = self._pumps.by_id.get(view.stream_id)
            progress = None if pump is None else pump.progress._replace(clock=self.clock.now())
            status = status_of(snapshot, view, progress)
            return () if status is None else (*status_lines(status), *window_lines(snapshot, status.derived))

        return explain(snapshot, query_id, tenant=self.tenant, now=self.clock.now(), derived_status=derived_status)

    def update_answers(self) -> None:
        """Update the kept answers of eager queries, as a service does after publications."""
        while self._eager.step(self.engine.snapshot(), self.clock.now()):
            pass

    def maintain(self) -> int:
        """Do all maintenance that is due, with a round of AUTO, and end expired queries and rows.

        Derives the rows of ticks that the clock has closed. Returns the number of tasks.
        """
        self._derive()
        tasks, snapshot, now = 0, self.engine.snapshot(), self.clock.now()
        snapshot.lifetimes.tick(now)
        snapshot.followed.tick(now)
        if len(due := snapshot.lifetimes.due(now)):
            self.submit(UnregisterMany(due, tenant=self.tenant, expired=True))
        for command in self._expiring.due(snapshot, now):
            self.submit(command)
        if self._rounds.due(now):
            for choice in self._rounds.look(self.engine.snapshot(), now):
                self.engine.install(choice)
        while (task := self.engine.maintenance(everything=True)) is not None:
            self.admission.give_back(self.engine.install(task.compute()))
            tasks += 1
        return tasks

    def check(self) -> None:
        """Check every invariant of every structure."""
        self.engine.check()
        check_folds(self.engine.snapshot())
        check_packs(self.engine.snapshot())
        self.admission.check()

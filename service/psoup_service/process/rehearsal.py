"""The rehearsal of a start with a data directory, in a child process with limited memory. It changes nothing.

    psoup doctor --replay ──> child: limit on memory, replay, cover, fold ──lines──> expressions to evaluate, places
                         <── findings: where it ended, or which expressions failed, and which queries compute them

The limit is on address space (RLIMIT_AS), on top of the size of the child before it begins. An allocation above it
fails; a real start would be killed if the machine had no memory. Run as `python -m psoup_service.process.rehearsal`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psoup.clauses.quarantine import EvaluationPlace, LeftIndex, Precautions, shape_of
from psoup.config import EngineConfig, TextLimits
from psoup.engine.engine import Engine
from psoup.engine.maintenance.cover import evaluating
from psoup.errors import InvalidInput, PSoupError
from psoup.events.change import change_of, rows_of
from psoup.events.events import Event
from psoup.execution.ahead.attempts import Lent, Work
from psoup.execution.ahead.folds_ahead import FoldingAhead
from psoup.expressions.error_guard import guarded
from psoup.expressions.tree import AttributeRef, Expr
from psoup.published.parked_queries import ParkedQueries
from psoup.sql.templates.block import BoundBlock
from psoup.values.columns import Array, Column
from psoup_service.functions.process import FunctionProcess
from psoup_service.host.ids import Ids
from psoup_service.host.precautions import Guard
from psoup_service.host.writer import RUN_EVENTS, RUN_ROWS
from psoup_service.process.settings import Settings
from psoup_service.process.warmup import warm_up
from psoup_storage.durable.read_only_store import LookingStore
from psoup_storage.durable.tools.findings import Finding, Severity

_NAMED = 8
_SHORT = "it needs more memory than it was given (--memory), before anything is evaluated"
_TWICE = "a service that has ended twice with it leaves it out by itself"
_MIB = 1024 * 1024


def rehearse(
    path: Path, memory_mib: int, child: str = "psoup_service.process.rehearsal", functions: Sequence[str] = ()
) -> list[Finding]:
    """Replay the directory in a child with `memory_mib` of memory. Returns the findings.

    `child`: the module to run. `functions`: modules with functions of the operator's own. Raises InvalidInput if the
    directory is in use, or has another format, and for modules that cannot be loaded.
    """
    command = [sys.executable, "-m", child, str(path), str(memory_mib), *functions]
    last: dict[str, Any] = {}
    findings = list[Finding]()
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            facts = json.loads(line)
            if "error" in facts:
                raise InvalidInput(facts["error"])
            if "left" in facts:
                findings.append(_left(facts["left"], memory_mib))
            elif "refused" in facts:
                findings.append(_not_folded(facts["refused"]))
            elif "done" in facts:
                return findings
            else:
                last = facts
        code = process.wait()
        errors.seek(0)
        why = signal.Signals(-code).name if code < 0 else (errors.read().strip().splitlines() or [f"exit {code}"])[-1]
    return [*findings, _ended(last, why, memory_mib)]


def available_mib() -> int:
    """The approximate free memory of the machine, in MiB."""
    with suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) // 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MIB


def _left(facts: dict[str, Any], memory_mib: int) -> Finding:
    memory = "Memory" in facts["why"]
    problem = f"{facts['expression'] or 'a query'} cannot be evaluated, with {memory_mib:,} MiB: {facts['why']}"
    return Finding(
        Severity.REPLAY if memory else Severity.NOTE,
        f"stream {facts['stream']}",
        f"{problem}; {facts['clauses']:,} of its clauses leave the index when a service starts",
        repair=_way_out(facts["queries"]),
    )


def _ended(last: dict[str, Any], why: str, memory_mib: int) -> Finding:
    """The finding for a child that ended before its work was done."""
    if "folded" in last:
        problem = f"the replay ended ({why}, with {memory_mib:,} MiB) while it folded {last['folded']} ahead"
        return Finding(
            Severity.REPLAY, f"stream {last['stream']}", problem, repair=f"unregister {last['folded']}; {_TWICE}"
        )
    if not last.get("expression"):
        events = f" at events {last['events'][0]} to {last['events'][1]}" if last else ""
        return Finding(Severity.REPLAY, "replay", f"ended{events}, with {memory_mib:,} MiB: {why}", repair=_SHORT)
    first, events = last["first_id"], last["events"]
    problem = (
        f"the replay ended ({why}, with {memory_mib:,} MiB) while it evaluated {last['expression']} over tuples {first}"
        f" to {first + last['rows'] - 1}, in events {events[0]} to {events[1]}"
    )
    return Finding(Severity.REPLAY, f"stream {last['stream']}", problem, repair=_way_out(last["queries"]))


def _not_folded(facts: dict[str, str]) -> Finding:
    problem = f"query {facts['query']} is not folded ahead: {facts['why']}"
    return Finding(
        Severity.NOTE, f"stream {facts['stream']}", problem, repair="nothing: it is folded when it is invoked"
    )


def _way_out(queries: Sequence[str]) -> str:
    options = " ".join(f"--quarantine {query}" for query in queries[:1])
    return f"start with psoup serve {options}, then unregister {', '.join(queries) or 'the queries that compute it'}"


@dataclass(slots=True)
class _Rehearsal:
    """The work of the child: it replays the events in an engine, and announces each evaluation."""

    store: LookingStore
    config: EngineConfig
    ids: Ids
    names: dict[int, str] = field(default_factory=dict)
    """Names of streams, by ID."""
    readers: dict[Expr, list[int]] = field(default_factory=dict)
    """Some queries that read each expression."""
    events: tuple[int, int] = (0, 0)
    place: EvaluationPlace | None = None

    def run(self) -> None:
        engine = Engine(self.config)
        quarantine = Guard(self.store).precautions(watching=False).held
        engine.take_precautions(Precautions(self._watch, quarantine, compute=self._compute))
        for run in _runs(self.store.read()):
            self.events = run[0].sequence, run[-1].sequence
            for event in run:
                self._learn(event)
            engine.apply(run)
            self._tell(engine.news())
        while (task := engine.maintenance()) is not None:
            if (cover := evaluating(task)) is not None:
                self._watch(cover[1])
                for expr in cover[0].index.attributes.values():
                    self._say(expr)
            engine.install(task.compute())
            self._tell(engine.news())
        ahead = FoldingAhead(_FoldsTold(self.ids), shelves=False)
        while ahead.step(engine.snapshot()):
            pass

    def _watch(self, place: EvaluationPlace) -> bool:
        self.place = place
        return True

    def _compute(self, expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits) -> Column:
        if not isinstance(expr, AttributeRef):
            self._say(expr)
        return guarded(expr, columns, ids, times, texts)

    def _say(self, expr: Expr) -> None:
        if self.place is None or isinstance(expr, AttributeRef):
            return
        _line(
            stream=self.names.get(self.place.stream_id, str(self.place.stream_id)),
            first_id=self.place.first_id,
            rows=self.place.rows,
            events=self.events,
            expression=shape_of(expr),
            queries=[self.ids.query(query_id) for query_id in self.readers.get(expr, ())],
        )

    def _tell(self, news: Sequence[LeftIndex]) -> None:
        for left in news:
            queries = [self.ids.query(query_id) for query_id in left.query_ids]
            facts = {"stream": left.stream, "expression": left.expression, "why": left.why}
            _line(left={**facts, "clauses": left.clauses, "queries": queries})

    def _learn(self, event: Event) -> None:
        change = change_of(event)
        if change.spec is not None:
            self.names[change.stream] = change.spec.name
        if isinstance(change.queries, BoundBlock):
            for part in change.queries.sides or (change.queries,):
                columns = part.clauses()
                self._read_by(change.first, (term.attribute for term in columns.terms))
                self._read_by(change.first, (term.attribute for factor in columns.fixed for term in factor.terms))
            return
        if isinstance(change.queries, ParkedQueries):  # in no index
            return
        for query_id, query in enumerate(change.queries, change.first):
            for selection in query.selections:
                self._read_by(query_id, (term.attribute for factor in selection.factors for term in factor.terms))

    def _read_by(self, query_id: int, exprs: Iterator[Expr]) -> None:
        for expr in exprs:
            readers = self.readers.setdefault(expr, [])
            if not isinstance(expr, AttributeRef) and len(readers) < _NAMED:
                readers.append(query_id)


class _FoldsTold(Lent):
    """Lends resources to folds in the child, as a service does. It announces each fold and reports each refusal."""

    def __init__(self, ids: Ids) -> None:
        settings = Settings()
        super().__init__(min(settings.sort_mib, settings.sorts_mib // 2) * _MIB)
        self._ids = ids

    def begin(self, work: Work) -> bool:
        """Announce a fold: the child may be killed by it."""
        _line(stream=work.view.spec.name, folded=self._ids.query(work.query_id))
        return True

    def refused(self, work: Work, why: str) -> None:
        """Report a refusal."""
        _line(refused={"stream": work.view.spec.name, "query": self._ids.query(work.query_id), "why": why})


def _runs(events: Iterator[Event]) -> Iterator[list[Event]]:
    """Group the events into the runs in which a start applies them."""
    run, rows = list[Event](), 0
    for event in events:
        run.append(event)
        rows += rows_of(event)
        if len(run) >= RUN_EVENTS or rows >= RUN_ROWS:
            yield run
            run, rows = [], 0
    if run:
        yield run


def _line(**facts: Any) -> None:
    """Write a line at once: the child may be killed right after it."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _limit(memory_mib: int) -> None:
    """Limit the address space to its present size plus `memory_mib`."""
    with open("/proc/self/statm", encoding="ascii") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + memory_mib * _MIB,) * 2)


def main(arguments: Sequence[str]) -> int:
    """Run the child. `arguments`: a data directory, MiB, and modules of functions."""
    path, memory_mib = Path(arguments[0]), int(arguments[1])
    with ExitStack() as stack:
        try:
            store = LookingStore(path)
            stack.callback(store.close)
            if modules := tuple(arguments[2:]):
                settings = Settings(functions=modules)
                functions = FunctionProcess(modules, settings.functions_s, settings.functions_mib)
                stack.callback(functions.close)
                functions.install()
        except PSoupError as problem:
            _line(error=problem.message)
            return 1
        warm_up()
        _limit(memory_mib)
        _Rehearsal(store, EngineConfig(), Ids(store.incarnation)).run()
    _line(done=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

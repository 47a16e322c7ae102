"""All queries of a test are COMPLETE: each answer is compared with the answer under PARTIAL, bit for bit.

    with complete(seed) as met:         every `register` of an embedded engine asks for COMPLETE, most of them eager
        duel.run(…)                     every `invoke` is made twice: with kept answers, and without any
    met.sent, met.changed, met.lost     how often kept bytes were sent again; kept rows were brought up to date; an
                                        answer was dropped or given up by the test, in the middle
    met.updated                         how often eager answers were updated, also from an older snapshot

So any oracle of the product judges COMPLETE queries, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer
from psoup.answer.kept_answers.kept_values import KeptSelection, KeptUnion
from psoup.answer.kept_answers.sent_answers import KeepingAnswer, SentAnswer
from psoup.config import EngineConfig
from psoup.errors import NotFound, PSoupError
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.execution.rows.record_batch import Message, read
from psoup.local import LocalPSoup
from psoup.plan.amounts import Amount, Keeping
from psoup.published.answer_room import AnswerRoom
from psoup.published.snapshot import Snapshot

COMPLETE = Keeping(Amount.COMPLETE)
EAGER = Keeping(Amount.COMPLETE, eager=True)
_ALTERED = 0.1
"""The share of pushes before which the amount of a query changes, and changes back."""
_LOST = 0.04
"""The share of invocations before which the kept answer of the query is dropped, or given up."""
_EAGER = 0.8
"""The share of queries that are eager."""
_UPDATED = 0.7
"""The share of pushes after which eager answers are updated."""


@dataclass
class Met:
    """Counts of compared answers."""

    draw: random.Random
    sent: int = 0
    changed: int = 0
    evaluated: int = 0
    lost: int = 0
    altered: int = 0
    updated: int = 0
    queries: list[int] = field(default_factory=list)

    def count(self, answer: Answer, before: bool) -> None:
        """Count an answer by the way in which it was made. `before`: whether rows were kept."""
        sent = isinstance(answer, SentAnswer) and answer._keep is None
        made = isinstance(answer, SentAnswer | KeepingAnswer) and not sent
        self.sent += sent
        self.changed += made and before
        self.evaluated += made and not before

    def lose(self, soup: LocalPSoup, query_id: int) -> None:
        """Drop or give up the kept answer of a query, or drop all answers, now and then."""
        room = soup.engine.snapshot().answers
        if self.draw.random() >= _LOST or room.look(query_id) is None:
            return
        self.lost += 1
        way = self.draw.randrange(3)
        if way == 0:
            room.drop(query_id)
        elif way == 1:
            room.give_up(room.held)
        else:
            room.refuse(query_id, soup.tenant, soup.clock.now(), "a test gives it up")
            entry = room.look(query_id)
            assert entry is not None
            entry.value.invocations, entry.value.time = 8, 0  # type: ignore[attr-defined]

    def alter(self, soup: LocalPSoup) -> None:
        """Change the amount of a query to another one and back, now and then. Its kept answer leaves."""
        if not self.queries or self.draw.random() >= _ALTERED:
            return
        query_id = self.draw.choice(self.queries)
        with suppress(NotFound):  # it was unregistered
            for amount in (self.draw.choice((Amount.NONE, Amount.PARTIAL)), Amount.COMPLETE):
                self.altered += soup.alter_queries([query_id], amount=amount)
                assert soup.engine.snapshot().answers.look(query_id) is None

    def update(self, soup: LocalPSoup, older: Snapshot) -> None:
        """Update eager answers now and then. `older`: a snapshot from which some are updated afterwards."""
        if self.draw.random() >= _UPDATED:
            return
        newest = soup.engine.snapshot()
        before = newest.eager.updates
        soup.update_answers()
        if older.eager is newest.eager and self.draw.random() < _UPDATED:
            soup._eager.step(older, soup.clock.now())
        self.updated += newest.eager.updates - before


def told(answer: Answer) -> tuple[Any, ...]:
    """All that a client may learn from an answer: its bytes, its figures and its completeness."""
    schema, parts = answer.schema, [read_again(part, answer.schema) for part in answer.messages()]
    if len(parts) > 1:  # kept rows are in messages of other sizes
        parts = pa.Table.from_batches(parts, schema).combine_chunks().to_batches()
    raw = [part.serialize().to_pybytes() for part in parts]
    figures = answer.errors, answer.select_errors, answer.unknown
    likeness = answer.matched, "" if answer.ranges else answer.likeness
    return schema, raw, figures, likeness, answer.completeness, list(answer.ranges)


def read_again(part: Message | pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a part of an answer."""
    return read(part.gathered(), schema) if isinstance(part, Message) else part


@contextmanager
def complete(seed: int, answer_bytes: int = EngineConfig().answer_bytes) -> Iterator[Met]:
    """Make all queries COMPLETE meanwhile. `answer_bytes`: the limit of kept answers."""
    met, register, invoke, push = Met(random.Random(seed)), LocalPSoup.register, LocalPSoup.invoke, LocalPSoup.push

    def registered(soup: LocalPSoup, *given: Any, **named: Any) -> int:
        keeping = named.pop("keeping", COMPLETE)  # a history may register idle queries
        amount = EAGER if met.draw.random() < _EAGER else COMPLETE
        met.queries.append(register(soup, *given, keeping=keeping if keeping.idle else amount, **named))
        return met.queries[-1]

    def pushed(soup: LocalPSoup, *given: Any, **named: Any) -> PushAcknowledgement:
        met.alter(soup)
        older = soup.engine.snapshot()
        done = push(soup, *given, **named)
        met.update(soup, older)
        return done

    def invoked(soup: LocalPSoup, query_id: int, *given: Any, **named: Any) -> Answer:
        met.lose(soup, query_id)
        snapshot = soup.engine.snapshot()
        snapshot.answers.bound(answer_bytes)
        before = snapshot.answers.look(query_id)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(soup.engine, "_snapshot", replace(snapshot, answers=AnswerRoom(0)))
            partial = _asked(invoke, soup, query_id, *given, **named)
        reply = _asked(invoke, soup, query_id, *given, **named)
        if isinstance(partial, PSoupError) or isinstance(reply, PSoupError):
            assert repr(partial) == repr(reply), f"under PARTIAL: {partial!r}\nunder COMPLETE: {reply!r}"
            raise reply if isinstance(reply, PSoupError) else partial
        (expected, _), (actual, answer) = partial, reply
        assert type(expected) is type(actual), f"under PARTIAL: {expected!r}\nunder COMPLETE: {actual!r}"
        if isinstance(expected, tuple):
            for name, left, right in zip(
                ("schema", "parts", "figures", "likeness", "completeness", "box"), expected, actual, strict=True
            ):
                assert left == right, f"{name} under PARTIAL: {left}\nunder COMPLETE: {right}"
        met.count(answer, before is not None and isinstance(before.value, KeptSelection | KeptUnion))
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalPSoup, "register", registered)
        patch.setattr(LocalPSoup, "invoke", invoked)
        patch.setattr(LocalPSoup, "push", pushed)
        yield met


def _asked(invoke: Any, *given: Any, **named: Any) -> tuple[Any, Answer] | PSoupError:
    """The answer, and all that it tells; or an error, at once or while the rows are read."""
    try:
        answer = invoke(*given, **named)
    except PSoupError as problem:
        return problem
    try:
        return told(answer), answer
    except PSoupError as problem:
        return repr(problem), answer

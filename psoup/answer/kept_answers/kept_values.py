"""Values in the room of kept answers: the rows of an answer, or its bytes, with the facts on which they stand.

    KeptSelection  tuple IDs of the rows of one stream, and those that they cover: valid in every later snapshot
    KeptUnion      the rows of each SELECT of a UNION ALL
    KeptMessages   the messages alone, valid while no source has an event: each source has the same token

A token is an object that stands for one published view of a stream. Readers note it in the view. A kept answer that
holds the token holds no chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from psoup.answer.copies.id_intervals import Interval
from psoup.answer.kept_answers.kept_parts import KeptPart
from psoup.execution.select.window import Reach
from psoup.model import SECOND, StreamSpec
from psoup.published.answer_room import AnswerRoom, GivenUp
from psoup.published.reader_notes import NoteKind
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array

_RETRY_AFTER = 60 * SECOND
"""Microseconds for which an answer that was given up is not kept again."""
_RETRY_ASKED = 10
"""The number of invocations after which an answer that was given up is kept again."""
_TOKENS = NoteKind[None, object](1)


class StreamStamp(NamedTuple):
    """The facts about a stream on which its tuple IDs stand. `turns`: how often chunks of it were thinned."""

    stream_id: int
    spec: StreamSpec
    turns: int


def stamp_of(view: StreamView) -> StreamStamp:
    """The stamp of a stream now."""
    return StreamStamp(view.stream_id, view.spec, view.turns[0])


def token_of(view: StreamView) -> object:
    """The object that stands for a published view: the same one in each snapshot that has the view. O(1)."""
    return view.notes.table(_TOKENS).setdefault(None, object())


class SourceToken(NamedTuple):
    """A source of an answer: its token, the tuple IDs of its window, and which versions of a table the answer sees."""

    token: object
    low: int
    high: int
    at: int
    lost_before: int


def tokens_of(snapshot: Snapshot, seen: Sequence[Reach]) -> tuple[SourceToken, ...]:
    """The tokens of all sources of an answer. Equal tokens mean the same answer. O(sources)."""
    sources = zip([snapshot.by_id[part.view.stream_id] for part in seen], seen, strict=True)
    facts = [(token_of(view), *part.range[:2], part.view.at, part.view.lost_before) for view, part in sources]
    return tuple([SourceToken(*fact) for fact in facts])


class AnswerFigures(NamedTuple):
    """Figures of an answer, as `Answer` has them. `errors`: of WHERE. `more_errors`: of joins and groups."""

    matched: int
    likeness: str
    errors: int = 0
    more_errors: int = 0
    select_errors: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class KeptSelection:
    """The rows of an answer over one stream before DISTINCT, ORDER BY and LIMIT, and the messages of the answer.

    `covered`: the tuple IDs that the rows cover. `pieces`: the tuple IDs of the rows, int64, ascending: if `aligned`,
    an array for each message, with the IDs of its rows.
    """

    stamp: StreamStamp
    covered: Interval
    pieces: tuple[Array, ...]
    parts: tuple[KeptPart, ...]
    aligned: bool

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum([len(ids) for ids in self.pieces])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return 8 * self.rows + sum([part.size for part in self.parts])


@dataclass(frozen=True, slots=True)
class KeptUnion:
    """The answer of a UNION ALL: the rows of each SELECT, `aligned`, with their messages."""

    branches: tuple[KeptSelection, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum([branch.rows for branch in self.branches])

    @property
    def figures(self) -> AnswerFigures:
        """The figures of the answer, as `Answer` computes them."""
        return AnswerFigures(self.rows, "")

    @property
    def parts(self) -> tuple[KeptPart, ...]:
        """All messages, in the order of the answer."""
        return tuple([part for branch in self.branches for part in branch.parts])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum([branch.nbytes for branch in self.branches])


@dataclass(frozen=True, slots=True)
class KeptMessages:
    """The messages of an answer, and the tokens of its sources."""

    tokens: tuple[SourceToken, ...]
    figures: AnswerFigures
    parts: tuple[KeptPart, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum([part.rows for part in self.parts])

    @property
    def nbytes(self) -> int:
        """Bytes of the messages."""
        return sum([part.size for part in self.parts])


@dataclass(frozen=True, slots=True)
class KeptSlot:
    """The place of one query in the room of kept answers. `now`: the clock of its invocation, microseconds.

    `sequence`: of the snapshot. `by_client`: False for an update that no client asked for.
    """

    room: AnswerRoom
    record: QueryRecord
    now: int
    sequence: int = 0
    by_client: bool = True

    def put(self, value: KeptSelection | KeptUnion | KeptMessages, size: int) -> None:
        """Keep an answer of `size` bytes, or give it up if there is no room."""
        place = self.record.query_id, self.record.tenant
        why = self.room.keep(*place, value, size, sequence=self.sequence, by_client=self.by_client)
        if why:
            self.give_up(why)

    def give_up(self, why: str) -> None:
        """Give the answer up, for the reason `why`. The next invocations are answered as under PARTIAL. An answer of a
        newer snapshot stays."""
        self.room.refuse(self.record.query_id, self.record.tenant, self.now, why, sequence=self.sequence)


def is_due(given_up: GivenUp, now: int) -> bool:
    """Count an invocation, and return whether the answer may be kept again. `now`: the clock, microseconds."""
    given_up.invocations += 1
    return given_up.invocations >= _RETRY_ASKED and now - given_up.time >= _RETRY_AFTER

"""Folds on disk: the store keeps the folds of chunks that have left memory, so that readers need not read the chunks.

    name     128 bits of (stream, WHERE, states)                       not the SQC ID, which a start gives again
    bytes    matched, errors, failed | parts of states: kind, shape, values | keys of groups, as columns
    fetch    disk ─> spans that a window needs and memory lacks, the widest first
    shelve   spans in memory whose chunks are all on disk ─> disk

A fold serves all queries with equal WHERE and equal measures, even after a restart. If a span is not on disk, its value
is unknown, and a reader folds it. Folds that call functions of the operator stay in memory.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from psoup.aggregates.folds import Folds
from psoup.aggregates.measures import read_by
from psoup.aggregates.recipes import Fold, Recipe
from psoup.aggregates.sound_folds import is_sound
from psoup.aggregates.spans import Span, cover
from psoup.aggregates.state import Folding, State
from psoup.data.archived_chunk import ArchivedChunk, Chunk, ChunkSource
from psoup.data.sidecars import ChunkSpan, OnDisk
from psoup.expressions.supplied_functions import calls_supplied
from psoup.model import DataType
from psoup.plan.canonical import expr_text, factor_text
from psoup.plan.factors import Factor
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column
from psoup.values.limbs import LIMBS
from psoup.work.read_budget import NOT_HELD, HeldBytes

_VERSION = 1
"""The version of the encoding, a part of the name. Folds of earlier versions are not found."""
_KINDS = (b"<i8", b"<f8", b"|u1", b"|b1", b"<i4", b"<u8", b"<i2", b"|i1")
_DTYPES = {kind: np.dtype(kind.decode()) for kind in _KINDS} | {b"wide": LIMBS}
_HEAD = struct.Struct("<qqq")
"""The head of a fold: its numbers of matched tuples, of errors and of failed values."""
_COUNT = struct.Struct("<I")
"""The number of parts of a state."""
_PART = struct.Struct("<4sI")
"""The kind of an array's elements, and its number of dimensions."""
_ALIGNED = 8


def name_of(stream: int, factors: Sequence[Factor], recipe: Recipe, longest: int) -> bytes | None:
    """The name of a clause's folds on disk. None if an expression calls a function of the operator.

    Such folds must not outlive the process. `longest`: bytes of the longest text that an expression may make; errors
    depend on it.
    """
    exprs = [term.attribute for factor in factors for term in factor.terms]
    texts = [str(_VERSION), str(stream), str(longest)]
    texts += ["WHERE", *sorted(factor_text(factor) for factor in factors)]
    for folding, measure in zip(recipe.foldings, recipe.firsts, strict=True):
        texts += told_of(folding, measure)
        exprs += read_by(measure)
    if recipe.keys:
        texts += ["BY", *[f"{expr_text(key)} {key.type}" for key in recipe.keys]]
        exprs += recipe.keys
    return None if any(map(calls_supplied, exprs)) else digest(texts)


def told_of(folding: Folding, measure: Measure) -> list[str]:
    """The texts that identify a state and the expressions that it reads, as a part of a name."""
    return ["STATE", repr(folding), str(len(measure.args)), *[f"{expr_text(e)} {e.type}" for e in read_by(measure)]]


def digest(texts: Iterable[str]) -> bytes:
    """A name of 128 bits: the hash of some texts."""
    content = b"".join(struct.pack("<I", len(data)) + data for data in (_utf8(text) for text in texts))
    return hashlib.blake2b(content, digest_size=16).digest()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# Bytes -------------------------------------------------------------------------------------------------------


def encoded(fold: Fold) -> bytes:
    """Encode a fold. O(states)."""
    out = bytearray(_HEAD.pack(fold.matched, fold.errors, fold.failed))
    put_states(out, fold.states)
    for array in (array for key in fold.keys for array in _arrays(key)):
        put(out, array)
    return bytes(out)


def put_states(out: bytearray, states: Iterable[State]) -> None:
    """Append states to `out`, each as its number of parts and the parts."""
    for state in states:
        out += _COUNT.pack(len(state))
        for part in state:
            for array in [part] if isinstance(part, np.ndarray) else _arrays(part):
                put(out, array)


def _arrays(column: Column) -> list[Array | None]:
    compact = column.take(np.arange(len(column)))
    return [compact.values, compact.valid, compact.data]


def put(out: bytearray, array: Array | None) -> None:
    """Append an array to `out`: its kind, its shape, and its values, aligned to eight bytes."""
    if array is None:
        out += _PART.pack(b"", 0)
        return
    kind = b"wide" if array.dtype.names else array.dtype.str.encode()
    out += _PART.pack(kind, array.ndim) + struct.pack(f"<{array.ndim}I", *array.shape)
    out += bytes(-len(out) % _ALIGNED) + array.tobytes()


def decoded(recipe: Recipe, content: bytes) -> Fold | None:
    """Decode the fold of a recipe. None if the bytes are not one, as a job may have written them. O(states)."""
    try:
        fold = _decoded(recipe, content)
        return fold if is_sound(recipe, fold) else None
    except (struct.error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def _decoded(recipe: Recipe, content: bytes) -> Fold:
    reader = Reader(bytearray(content))
    matched, errors, failed = reader.take(_HEAD)
    states = tuple(map(reader.state, recipe.foldings))
    keys = tuple([reader.column(key.type) for key in recipe.keys])
    return Fold(matched, errors, failed, states, keys)


class Reader:
    """Decodes parts one after the other. Its arrays are writable, as the kernels take only writable arrays."""

    def __init__(self, content: bytearray) -> None:
        self._content = content
        self._at = 0

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        """Read the next numbers, in the format `form`."""
        values = form.unpack_from(self._content, self._at)
        self._at += form.size
        return values

    def state(self, folding: Folding) -> State:
        """Read the next state, of the kind `folding`."""
        parts, (count,) = folding.empty(1), self.take(_COUNT)
        return tuple([self._part(parts[place] if place < len(parts) else None) for place in range(count)])

    def _part(self, like: Array | Column | None) -> Array | Column:
        """Read the next part of a state: a column if `like` is one, else an array."""
        return self.column(like.type) if isinstance(like, Column) else self.array()

    def column(self, data_type: DataType) -> Column:
        """Read the next column."""
        return Column(data_type, self.array(), self.array(), self.array())

    def array(self) -> Any:
        """Read the next array, or None if none was stored."""
        kind, dimensions = self.take(_PART)
        if not kind.strip(b"\0"):
            return None
        shape = self.take(struct.Struct(f"<{dimensions}I"))
        self._at += -self._at % _ALIGNED
        dtype = _DTYPES[kind.strip(b"\0")]
        array = np.frombuffer(self._content, dtype, math.prod(shape), self._at).reshape(shape)
        self._at += array.nbytes
        return array


# From and to the disk -----------------------------------------------------------------------------------------


class FoldedChunk(Protocol):
    """An entry of a stream's list of chunks. The chunk may be in memory or on disk."""

    @property
    def data(self) -> Chunk:
        """The chunk's tuples."""
        ...


@dataclass(frozen=True, slots=True)
class ShelfOnDisk:
    """The folds that the store keeps for the chunks of a stream on disk."""

    disk: OnDisk

    def fetch(self, folds: Folds, first: int, stop: int, fan: int, budget: HeldBytes = NOT_HELD) -> int:
        """Read the folds of chunks [first, stop) that memory lacks into `folds`. Returns their bytes. O(spans).

        Charges the bytes of a fold to `budget` before it reads them. If the budget refuses, the folds read so far stay.
        """
        name, disk, taken_bytes = folds.name, self.disk, 0
        if name is None:
            return 0

        def take(level: int, number: int) -> None:
            nonlocal taken_bytes
            size = fan**level
            if (level, number) in folds.spans or number * size >= disk.stop:
                return
            content = disk.find(
                number * size, (number + 1) * size, name, lambda content_bytes: budget.hold(2 * content_bytes)
            )
            fold = None if content is None else decoded(folds.recipe, content)
            if content is not None:
                budget.give_back((2 - (fold is not None)) * len(content))  # decoding has copied the bytes
            if fold is not None:
                folds.spans[level, number] = fold
                folds.shelved.add((level, number))
                folds.nbytes += fold.nbytes
                taken_bytes += fold.nbytes
                return
            for child in range(number * fan, (number + 1) * fan) if level else ():
                take(level - 1, child)

        for span in cover(first, stop, fan):
            take(*span)
        return taken_bytes

    def spans(self, name: bytes | None, spans_in_memory: Set[Span], first: int, stop: int, fan: int) -> set[Span]:
        """The spans of chunks [first, stop) whose folds are on disk and not in memory. O(spans).

        Reads each fold to check that it is sound, but does not decode it.
        """
        spans_on_disk, disk = set[Span](), self.disk

        def look(level: int, number: int) -> None:
            size = fan**level
            if name is None or (level, number) in spans_in_memory or number * size >= disk.stop:
                return
            if disk.find(number * size, (number + 1) * size, name) is not None:
                spans_on_disk.add((level, number))
                return
            for child in range(number * fan, (number + 1) * fan) if level else ():
                look(level - 1, child)

        for span in cover(first, stop, fan):
            look(*span)
        return spans_on_disk

    def shelve(self, all_folds: Iterable[Folds], fan: int, since: int | None = None) -> None:
        """Write the folds of some clauses that the disk lacks. O(spans).

        `since`: write only the folds of spans whose last chunk has this number or a later one. Then O(clauses).
        """
        recent = None if since is None else list(self._ended(since, fan))
        together = defaultdict[ChunkSpan, dict[bytes, bytes]](dict)
        for folds in all_folds:
            if folds.name is None:
                continue
            for place in folds.spans.keys() - folds.shelved if recent is None else recent:
                fold = folds.spans.get(place)
                if fold is None or place in folds.shelved:
                    continue
                size = fan ** place[0]
                span = self.disk.span(place[1] * size, (place[1] + 1) * size)
                if span is not None:
                    folds.shelved.add(place)
                    together[span][folds.name] = encoded(fold)
        for span, contents in together.items():
            self.disk.sidecars.put(span, contents)

    def _ended(self, since: int, fan: int) -> Iterator[Span]:
        """Yield the spans whose chunks are all on disk, and end with a chunk number of at least `since`."""
        level, size = 0, 1
        while size <= self.disk.stop - self.disk.first:
            yield from ((level, number) for number in range(since // size, self.disk.stop // size))
            level, size = level + 1, size * fan


def shelf_of(stream: int, entries: Sequence[FoldedChunk], archived: int) -> ShelfOnDisk | None:
    """The folds on disk of a stream's chunks: of the oldest `archived` chunks among `entries`. O(1).

    Returns None if no chunk is on disk, or the store keeps no folds.
    """
    if not archived or not isinstance(oldest := entries[0].data, ArchivedChunk):
        return None
    sidecars, base = oldest.source.sidecars, oldest.number

    def source_of(number: int) -> ChunkSource:
        chunk = entries[number - base].data
        assert isinstance(chunk, ArchivedChunk)
        return chunk.source

    return None if sidecars is None else ShelfOnDisk(OnDisk(stream, base, base + archived, sidecars, source_of))

"""COPY stream FROM STDIN, COPY stream TO STDOUT and COPY (SELECT …) TO STDOUT.

data of the client ─> `CopyReader` ─> RecordBatches ─> `RowBuffer`            rows of a SELECT ─> `CopyRows` ─> client
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pyarrow as pa

from psoup.errors import InvalidInput
from psoup.sql.identifiers import name_text
from psoup_service.pg.contract import Argument, Column, CopyEncoder, Description, Notice, Sink, Statement
from psoup_service.pg.statements.selects import Select
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writing.targets import Named, named_target
from psoup_service.pg.statements.writing.writes import Writes
from psoup_service.pg.values.copy_form import CopyForm
from psoup_service.pg.values.copy_in import CopyReader
from psoup_service.pg.values.copy_out import CopyRows
from psoup_service.pg.values.zones import Zone

_PIECE = 128 * 1024
"""The bytes of data that a thread reads at once."""
_OLD_OPTIONS = {"DELIMITER": "delimiter", "NULL": "null", "QUOTE": "quote", "ESCAPE": "escape"}


def read_copy(writes: Writes, text: str, select: Callable[[str], Copied]) -> CopyIn | CopyOut:
    """A COPY. `select`: reads a SELECT. Raises SqlError."""
    words = Words(text)
    words.expect("COPY")
    if words.next() == "(":
        query = _bracketed(words)
        words.expect("TO")
        return _out(words, select(query), writes.zone)
    named = named_target(words)
    if words.accept("TO"):
        columns = "*" if named.columns is None else ", ".join(name_text(name) for name, _ in named.columns)
        return _out(words, select(f"SELECT {columns} FROM {name_text(named.name)}"), writes.zone)
    words.expect("FROM")
    form = _form(words, "FROM", "STDIN")
    return CopyIn(writes, words, named, form)


def _out(words: Words, select: Copied, zone: Zone) -> CopyOut:
    return CopyOut(select, _form(words, "TO", "STDOUT"), zone)


def _bracketed(words: Words) -> str:
    """Read a query in parentheses. Returns its text."""
    start, depth = words.place + 1, 0
    while True:
        place, word = words.place, words.next()
        if not word:
            raise words.unexpected(")")
        words.skip()
        depth += (word == "(") - (word == ")")
        if not depth:
            return words.source.text[start:place]


def _form(words: Words, direction: str, end: str) -> CopyForm:
    """Read the end of a COPY: STDIN or STDOUT, and the options. Raises SqlError."""
    place = words.place
    if not words.accept(end):
        subject = "a program" if words.next() == "PROGRAM" else "a file"
        raise words.source.unsupported(f"COPY {direction} {subject}", place, hint=f"write COPY … {direction} {end}")
    words.accept("WITH")
    options = _listed(words) if words.accept("(") else _old(words)
    if words.next() == "WHERE":
        raise words.source.unsupported("COPY … WHERE", words.place)
    words.end()
    try:
        return CopyForm.of(options)
    except InvalidInput as problem:
        raise words.source.error(problem.message, place, reason=problem.reason) from None


def _listed(words: Words) -> dict[str, str]:
    """Read options in parentheses: FORMAT csv, HEADER, DELIMITER ';'."""
    options = dict[str, str]()
    while True:
        name = words.name()
        options[name] = "" if words.next() in (",", ")") else words.value()
        if not words.accept(","):
            break
    words.expect(")")
    return options


def _old(words: Words) -> dict[str, str]:
    """Read options as before PostgreSQL 9: CSV HEADER DELIMITER AS ';' NULL AS ''."""
    options = dict[str, str]()
    while words.next() not in ("", "WHERE"):
        if words.accept("BINARY"):
            options["format"] = "binary"
        elif words.accept("CSV"):
            options["format"] = "csv"
        elif words.accept("HEADER"):
            options["header"] = ""
        else:
            name = next((name for word, name in _OLD_OPTIONS.items() if words.accept(word)), "")
            if not name:
                raise words.unexpected("an option of COPY, such as (FORMAT csv)")
            words.accept("AS")
            options[name] = words.value()
    return options


class CopyIn:
    """COPY stream FROM STDIN."""

    def __init__(self, writes: Writes, words: Words, named: Named, form: CopyForm) -> None:
        self._writes = writes
        self._words = words
        self._named = named
        self._form = form

    async def describe(self) -> Description:
        """See `contract.Statement`."""
        return Description((), None)

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """See `contract.Statement`."""
        writes = self._writes
        writes.check("COPY FROM")
        target = await writes.target(self._words, self._named)
        reader = CopyReader(target.attributes, self._form, target.name, writes.zone)
        begun = writes.begun()
        rows, count, more = begun if begun is not None else writes.rows(), 0, True
        try:
            while more:
                data = bytearray()
                while more and len(data) < _PIECE:
                    piece = await sink.copy_in(len(target.attributes), self._form.code)
                    data += piece
                    more = bool(piece)
                for batch in await asyncio.to_thread(_read, reader, bytes(data), last=not more):
                    target.not_null.check(batch, count)
                    count += batch.num_rows
                    await rows.add(target.name, batch)
            if begun is None:
                await rows.push()
        except BaseException:
            if begun is None:
                await rows.forget()
            raise
        return f"COPY {count}"


def _read(reader: CopyReader, data: bytes, *, last: bool) -> list[pa.RecordBatch]:
    batches = [reader.feed(data)] if data else []
    if last:
        batches.append(reader.end())
    return [batch for batch in batches if batch is not None and batch.num_rows]


class Copied:
    """The query of a COPY, over streams or over the catalogue. `read`: reads it."""

    def __init__(self, read: Callable[[], Awaitable[Statement]]) -> None:
        self._read = read

    async def send(self, sink: Sink) -> None:
        """Send the rows. Raises a PSoupError."""
        statement = await self._read()
        if isinstance(statement, Select):
            await statement.send((), sink, None)
        else:
            await statement.run((), sink)


class CopyOut:
    """COPY … TO STDOUT of the rows of a SELECT."""

    def __init__(self, select: Copied, form: CopyForm, zone: Zone) -> None:
        self._select = select
        self._form = form
        self._zone = zone

    async def describe(self) -> Description:
        """See `contract.Statement`."""
        return Description((), None)

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """See `contract.Statement`."""
        await self._select.send(_CopySink(sink, self._form, self._zone))
        return f"COPY {sink.rows}"


class _CopySink:
    """A sink that begins a COPY TO STDOUT where a SELECT would send its columns."""

    def __init__(self, sink: Sink, form: CopyForm, zone: Zone) -> None:
        self._sink = sink
        self._form = form
        self._zone = zone
        self.batch = sink.batch
        self.copy_in = sink.copy_in

    @property
    def rows(self) -> int:
        """See `contract.Sink`."""
        return self._sink.rows

    async def begin(self, columns: Sequence[Column]) -> None:
        """See `contract.Sink`."""
        await self._sink.copy_out(columns, self._form.code, CopyRows(columns, self._form, self._zone))

    async def copy_out(self, columns: Sequence[Column], copied_format: int, encoder: CopyEncoder) -> None:
        """See `contract.Sink`."""
        await self._sink.copy_out(columns, copied_format, encoder)

    def notice(self, notice: Notice) -> None:
        """See `contract.Sink`."""
        self._sink.notice(notice)

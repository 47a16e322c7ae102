"""The bytes of one file, decompressed while it is read. Texts are converted to UTF-8.

    disk or pipe ──> gzip, zstd, bz2, lz4? by the first bytes ──> UTF-16? by the first bytes, or an option ──> UTF-8

Only one block is in memory at a time, however large a compressed file becomes.
"""

from __future__ import annotations

import codecs
import select
from typing import Any, BinaryIO

import pyarrow as pa

from psoup_client import InvalidData
from psoup_proto.csv_rows import faults
from psoup_proto.csv_rows.faults import CsvFault

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""The compression for each suffix of a file's name."""

_MAGIC = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh91AY&SY", "bz2"), (b"\x04\x22\x4d\x18", "lz4"))
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LONGEST_MARK = 10


def compression_of(file: BinaryIO) -> str | None:
    """Detect the compression of a file by its first bytes, which stay unread."""
    if file.seekable():
        begin = file.read(_LONGEST_MARK)
        file.seek(-len(begin), 1)
    else:
        peek: Any = getattr(file, "peek", None)
        begin = peek(_LONGEST_MARK) if peek is not None else b""
    return next((name for magic, name in _MAGIC if begin.startswith(magic)), None)


class FileSource:
    """A file that is read from beginning to end. `live`: a pipe, which returns the bytes that have arrived."""

    def __init__(self, file: BinaryIO) -> None:
        self._raw = file
        self.compression = compression_of(file)
        self._file: Any = pa.CompressedInputStream(file, self.compression) if self.compression else file
        self.live = not self.compression and not file.seekable()

    @property
    def position(self) -> int:
        """The number of bytes read from the file, before decompression; 0 for a pipe."""
        return self._raw.tell() if self._raw.seekable() else 0

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes; b"" at the end. A pipe returns the bytes that have arrived. Raises InvalidData."""
        if self.live:
            return _what_has_come(self._file, size)
        try:
            return bytes(self._file.read(size))
        except (OSError, pa.ArrowInvalid) as problem:
            if self.compression is None:
                raise
            raise InvalidData(f"it cannot be decompressed as {self.compression}: {problem}") from problem

    def stream(self) -> Any:
        """Return the decompressed bytes as a file object, unread."""
        return self._file


class Text:
    """The bytes of a text file, converted from its encoding to UTF-8."""

    def __init__(self, source: FileSource, encoding: str | None) -> None:
        self._source = source
        self._given = encoding
        self._name = ""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._line = 1

    def read(self, size: int) -> bytes:
        """Read about `size` bytes; b"" at the end. Raises InvalidData that names the line of invalid bytes."""
        while True:
            block = self._source.read(size)
            if not self._name:
                block = self._begin(block, size)
            if self._decoder is None:
                return block
            text = self._decode(block)
            if text or not block:
                return text

    def _begin(self, block: bytes, size: int) -> bytes:
        """Detect the encoding by the first bytes, and return the bytes after its mark."""
        while 0 < len(block) < 4 and (more := self._source.read(size)):
            block += more
        marked = next((name for mark, name in _MARKS if block.startswith(mark)), None)
        self._name = codecs.lookup(self._given or marked or "utf-8").name
        if self._name in ("utf-8", "utf-8-sig"):
            return block.removeprefix(codecs.BOM_UTF8)
        self._decoder = codecs.getincrementaldecoder(self._name)()
        return block

    def _decode(self, block: bytes) -> bytes:
        assert self._decoder is not None
        try:
            text = self._decoder.decode(block, not block).encode()
        except UnicodeError as problem:
            raise self._refusal(problem) from problem
        self._line += text.count(b"\n")
        return text

    def _refusal(self, problem: UnicodeError) -> InvalidData:
        if not isinstance(problem, UnicodeDecodeError):
            return InvalidData(f"line {self._line}: this is not {self._given or self._name}: {problem}")
        before = problem.object[: problem.start].decode(self._name, errors="replace")
        line = self._line + before.count("\n")
        if problem.reason == "truncated data":
            return InvalidData(
                f"line {line}: the file ends within a character of {self._given or self._name}; get it whole, or name"
                " another --encoding",
                reason="NOT_IN_ENCODING",
                facts={"line": str(line)},
            )
        shown = problem.object[problem.start : problem.end][:4].hex(" ")
        return not_in(self._given or self._name, line, f"byte {shown}")


def not_in(encoding: str, line: int, fault: str) -> InvalidData:
    """Build the error for bytes that are invalid in an encoding."""
    return invalid_data(faults.not_in(encoding, line, fault))


def invalid_data(fault: CsvFault) -> InvalidData:
    """Convert a fault of the contract's reader to the error of the command."""
    facts = {"line": str(fault.line)} if fault.line else {}
    return InvalidData(fault.message, reason=fault.reason, facts=facts)


def _what_has_come(file: Any, size: int) -> bytes:
    """Read the bytes that a pipe has now, up to `size`; b"" at its end."""
    parts, count = [file.read1(size)], 0
    while parts[-1] and (count := count + len(parts[-1])) < size and _ready(file):
        parts.append(file.read1(size - count))
    return b"".join(parts)


def _ready(file: Any) -> bool:
    """Whether a read would return at once. Returns False for a pipe that the system cannot poll."""
    try:
        return bool(select.select([file], [], [], 0)[0])
    except (OSError, ValueError):
        return False

"""Text constants in other spellings than '…': their places and contents, and the statement with plain ones instead.

    SELECT E'it\\'s', $tag$a 'b'$tag$ FROM s        the statement, with the texts it's and a 'b'
    SELECT 'xxxxxx', 'xxxxxxxxxxxxxx' FROM s       the text to parse: of equal length, so places stay

In E'…' a backslash begins an escape: \\n \\t \\r \\b \\f, or bytes such as \\x41 and \\101. Before any other character
it stands for that character. In $tag$…$tag$ every character stands for itself. The tag may be empty. This module also
refuses quotes and comments without an end.
"""

from __future__ import annotations

import re

from psoup.sql.parser.spaces import after_comment
from psoup.sql.source import StatementText

_OPENING = re.compile(
    r"e'(?<![\w$]e')|E'(?<![\w$]E')|\$(?<![\w$]\$)(?:[^\W\d]\w*)?\$"
    r"|'|\"|`|--|/\*"
)
"""Each alternative begins with its own first character, and checks the character before it later. So a search skips
most of a text."""
_PLAIN = re.compile(r"'|\"|`|--|/\*")
_ESCAPED = re.compile(r"(?:[^'\\]|\\.|'')*+", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)|''", re.DOTALL)
_LETTERS = {"n": b"\n", "t": b"\t", "r": b"\r", "b": b"\b", "f": b"\f"}


def plain(source: StatementText) -> tuple[str, dict[int, tuple[str, str]]]:
    """Replace every text constant by one in the form '…'.

    Returns the new statement. For the place of each replaced constant, also returns its opening mark and the characters
    inside. O(length). Raises SqlError for a text, a quoted name or a comment that is never closed.
    """
    pieces, texts, copied, at = list[str](), dict[int, tuple[str, str]](), 0, 0
    text = source.text
    marks = _OPENING if "$" in text or "E'" in text or "e'" in text else _PLAIN
    while (opening := marks.search(text, at)) is not None:
        start, mark = opening.start(), opening.group()
        at = _end(text, mark, opening.end())
        if at < 0:
            raise _unclosed(source, mark, start)
        if mark[0] not in "eE$":
            continue
        texts[start] = mark, text[opening.end() : at - (len(mark) if mark[0] == "$" else 1)]
        pieces += [text[copied:start], "'", "x" * (at - start - 2), "'"]
        copied = at
    return ("".join([*pieces, text[copied:]]) if pieces else text), texts


def _end(text: str, mark: str, at: int) -> int:
    """The offset after the text, name or comment with this `mark`, whose inside begins at `at`. -1 if it is never
    closed."""
    if mark == "--":
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if mark == "/*":
        return after_comment(text, at)
    if mark[0] in "eE":
        at = _ESCAPED.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        return at + 1 if text[at : at + 1] == "'" else -1
    end = text.find(mark, at)
    return -1 if end < 0 else end + len(mark)


def _unclosed(source: StatementText, mark: str, start: int) -> Exception:
    culprit = {'"': "this quoted name", "`": "this quoted name", "/*": "this comment"}.get(mark, "this text")
    closing = "*/" if mark == "/*" else mark.lstrip("eE")
    return source.error(f"{culprit} is never closed", start, hint=f"close it with {closing}")


def said(source: StatementText, start: int, mark: str, inside: str) -> str:
    """The content of a text that begins with `mark` at `start`. O(length). Raises SqlError for wrong UTF-8."""
    if mark[0] == "$" or "\\" not in inside:
        return inside if mark[0] == "$" else inside.replace("''", "'")
    made, at = bytearray(), 0
    for escape in _ESCAPE.finditer(inside):
        made += inside[at : escape.start()].encode()
        made += b"'" if escape[1] is None else _byte(escape[1])
        at = escape.end()
    made += inside[at:].encode()
    if 0 in made:
        raise source.error("a NUL character cannot be part of a text", start)
    try:
        return made.decode()
    except UnicodeDecodeError:
        hint = "write the letter itself, or the bytes of its UTF-8: E'\\xC3\\xA9' is 'é'"
        raise source.error("the bytes of this text are not UTF-8", start, hint=hint) from None


def _byte(escape: str) -> bytes:
    if escape[0] == "x" and len(escape) > 1:
        return bytes([int(escape[1:], 16)])
    if escape[0] in "01234567":
        return bytes([int(escape, 8) & 0xFF])
    return _LETTERS.get(escape) or escape.encode()

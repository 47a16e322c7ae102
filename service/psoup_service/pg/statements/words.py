"""The words of a short statement, such as SET or BEGIN, read one after the other.

SET SESSION "TimeZone" TO 'UTC'   ->   SET, SESSION, "TimeZone", TO, 'UTC'
"""

from __future__ import annotations

import re

from psoup.errors import SqlError
from psoup.sql.parser.spaces import after_space
from psoup.sql.parser.texts import said
from psoup.sql.source import StatementText
from psoup_service.pg.quotes import end_of_quoted

_WORD = re.compile(r"[\w.$+-]{1,10000}+|\S")
"""A word without quotes."""
_NOT_A_LINE = re.compile(r"[^\n]")
LONGEST = 100_000
"""The most characters of a statement that is read word by word."""

_AHEAD = 32
"""The words that are read ahead at once."""


class Words:
    """The words of `text`, from the first on. Each method that reads a word raises SqlError if it is missing.

    A word is read when it is asked for, so a long text takes no more memory than its characters.
    """

    def __init__(self, text: str, longest: int = LONGEST) -> None:
        self.source = StatementText(text)
        if len(text) > longest:
            raise self.source.error(f"the statement has {len(text):,} characters; {longest:,} is the most here")
        self._words = list[tuple[str, int]]()
        """The last words that were taken, and words ahead of them."""
        self._at = 0
        self._end = after_space(text, 0)
        """The offset of the first word that is not in `_words`."""

    @property
    def place(self) -> int:
        """The offset of the next word; the end of the text after the last one."""
        return self._words[self._at][1] if self.has(1) else len(self.source.text)

    @property
    def rest(self) -> str:
        """The text from the next word on."""
        return self.source.text[self.place :]

    @property
    def rest_in_place(self) -> str:
        """The text from the next word on, after as many spaces as there are characters before it.

        So errors in it have their places in the whole statement.
        """
        return _NOT_A_LINE.sub(" ", self.source.text[: self.place]) + self.rest

    def has(self, count: int) -> bool:
        """Whether at least `count` words are not taken yet."""
        return len(self._words) - self._at >= count or self._look(count)

    def next(self) -> str:
        """The next word in capitals, without taking it. "" at the end, and for quoted words as they are written."""
        if not self.has(1):
            return ""
        word = self._words[self._at][0]
        return word if word[-1] in "'\"" else word.upper()

    def accept(self, *words: str) -> bool:
        """Take the next words if they are `words`, else none."""
        if not self.has(len(words)):
            return False
        for at, word in enumerate(words, self._at):
            if self._words[at][0].upper() != word:
                return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Take the next words, which must be `words`."""
        if not self.accept(*words):
            raise self.unexpected(" ".join(words))

    def skip(self) -> None:
        """Take the next word, whatever it is."""
        self._take("a word")

    def name(self) -> str:
        """Take a name: in lower case unless it is quoted."""
        word = self._take("a name")
        if word[0] == '"':
            return word[1:-1].replace('""', '"')
        if not (word[0].isalpha() or word[0] == "_"):
            self._at -= 1
            raise self.unexpected("a name")
        return word.lower()

    def value(self) -> str:
        """Take a value: a text, a number, or a word as it is written."""
        word = self._take("a value")
        if word[-1] == "'" and len(word) > 1:
            if word[0] == "'":  # a backslash is a character
                return word[1:-1].replace("''", "'")
            return said(self.source, self._words[self._at - 1][1], "E'", word[2:-1])
        return word[1:-1].replace('""', '"') if word[0] == '"' else word

    def matched(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Take the words that a pattern matches from the next word on; None if it does not match."""
        at = self._words[self._at][1] if self._at < len(self._words) else self._end
        match = pattern.match(self.source.text, at)
        if match is not None:
            self.go_to(match.end())
        return match

    def go_to(self, place: int) -> None:
        """Go on with the word at an offset."""
        self._words, self._at, self._end = [], 0, after_space(self.source.text, place)

    def end(self) -> None:
        """Check that no word is left."""
        if self.has(1):
            raise self.unexpected("the end of the statement")

    def unexpected(self, wanted: str) -> SqlError:
        """The error for the next word, if `wanted` should be there."""
        shown = f"{self._words[self._at][0][:40]!r}" if self.has(1) else "the end of the statement"
        return self.source.error(f"{shown} is not expected here", self.place, hint=f"write {wanted}")

    def _take(self, wanted: str) -> str:
        if not self.has(1):
            raise self.unexpected(wanted)
        self._at += 1
        return self._words[self._at - 1][0]

    def _look(self, count: int) -> bool:
        """Look at further words, and add them to `_words`. Returns whether there are `count` more."""
        text, at = self.source.text, self._end
        if at >= len(text):
            return False
        if self._at > _AHEAD:
            del self._words[: self._at - 1]
            self._at = 1
        for _ in range(max(count, _AHEAD)):
            if at >= len(text):
                break
            end = _word_end(text, at)
            begin, word, at = at, text[at:end], after_space(text, end)
            if at < len(text) or word != ";":
                self._words.append((word, begin))
        self._end = at
        return len(self._words) - self._at >= count


def _word_end(text: str, at: int) -> int:
    """The offset after the word at `at`. A quote without an end is a word."""
    if text[at] in "'\"":
        end = end_of_quoted(text, at)
        return at + 1 if end < 0 else end
    if text[at] in "eE" and text.startswith("'", at + 1):
        end = end_of_quoted(text, at + 1, escapes=True)
        return at + 1 if end < 0 else end
    match = _WORD.match(text, at)
    assert match is not None, "the pattern matches any character"
    return match.end()

"""IDs and page tokens as clients see them: opaque text, bound to one incarnation of the data.

    query 12 of incarnation 7f3a91c2  <──>  "q-7f3a91c2-12"

The incarnation comes from the store. A data directory keeps it, so that IDs survive a restart. A store in memory begins
a new incarnation at each start. So an old ID is unknown, and never names another client's query. A page token is bound
to the list that it continues. Neither is a secret.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from psoup.errors import InvalidInput, NotFound
from psoup.values.columns import Array

_FORM = re.compile(r"([qsw])-([0-9a-f]{8})-([0-9]{1,18})", re.ASCII)
"""Numbers of 18 digits fit into 64 bits."""
_MAX_TOKEN = 4_096
_SHOWN = 60


class Ids:
    """Writes and reads the IDs of one incarnation."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation

    def query(self, query_id: int) -> str:
        """A query's ID on the wire."""
        return f"q-{self.incarnation}-{query_id}"

    @property
    def query_prefix(self) -> str:
        """The beginning of a query's ID, before its number."""
        return f"q-{self.incarnation}-"

    def stream(self, stream_id: int) -> str:
        """A stream's ID on the wire."""
        return f"s-{self.incarnation}-{stream_id}"

    def webhook(self, webhook_id: int) -> str:
        """A webhook's ID on the wire."""
        return f"w-{self.incarnation}-{webhook_id}"

    def read_query(self, text: str) -> int:
        """The engine's query ID; InvalidInput if `text` is not an ID, NotFound if it is another incarnation's."""
        return self._read("q", "query", text)

    def number_in(self, text: str) -> int:
        """The engine's query ID; -1 if `text` is not an ID of this incarnation."""
        try:
            return self.read_query(text)
        except (InvalidInput, NotFound):
            return -1

    def read_stream(self, text: str) -> int:
        """The engine's stream ID; raises as `read_query`."""
        return self._read("s", "stream", text)

    def read_webhook(self, text: str) -> int:
        """The engine's webhook ID; raises as `read_query`."""
        return self._read("w", "webhook", text)

    @contextmanager
    def naming(self, text: str) -> Iterator[None]:
        """A context in which errors name queries by their IDs on the wire. `text`: the ID that the client gave."""
        try:
            yield
        except NotFound as problem:
            raise self.named(problem, text) from None
        except InvalidInput as problem:
            raise self.named_join(problem) from None

    def read_queries(self, texts: Sequence[str]) -> Array:
        """The engine's IDs of several queries, int64[k]. Raises the errors of `read_query`, for the first bad text."""
        prefix = self.query(0)[:-1]
        numbers = [text.removeprefix(prefix) for text in texts]
        if all(number.isascii() and number.isdecimal() and len(number) < 19 for number in numbers):
            return np.array(numbers, np.str_).astype(np.int64)
        return np.array([self.read_query(text) for text in texts], np.int64)

    def named_all(self, problem: NotFound) -> NotFound:
        """The error `problem` for several gone queries, with their IDs on the wire."""
        if "examples" not in problem.facts:
            return problem
        numbers = problem.facts["examples"]
        some = ", ".join(self.query(int(number)) for number in numbers.split(", "))
        facts = {**problem.facts, "query_id": some.split(", ")[0], "examples": some}
        said = problem.message.replace(f": {numbers}", f": {some}", 1)
        return NotFound(said, reason=problem.reason, **facts)

    def named_join(self, problem: InvalidInput) -> InvalidInput:
        """The error for a join in a call for single-stream queries, with the query's ID on the wire; any other error
        unchanged.
        """
        if problem.reason != "JOIN_QUERY":
            return problem
        return InvalidInput(problem.message, reason=problem.reason, query_id=self.query(int(problem.facts["query"])))

    def named(self, problem: NotFound, text: str) -> NotFound:
        """The error `problem` for a gone query, with IDs on the wire. `text`: the ID that the client gave."""
        if problem.reason == "QUERY_REPLACED":
            later = self.query(int(problem.facts["replaced_by"]))
            return NotFound(
                f"query {text!r} was replaced by {later!r}, which has its key; go on with that one",
                reason=problem.reason,
                query_id=text,
                replaced_by=later,
            )
        if problem.reason == "QUERY_EXPIRED":
            said = problem.message.replace(problem.facts["query"], repr(text), 1)
            return NotFound(said, reason=problem.reason, query_id=text)
        if problem.reason != "UNKNOWN_QUERY":
            return problem
        return NotFound(
            f"there is no query {text!r}: it was unregistered, or never registered; list the queries to see what"
            " stands",
            reason=problem.reason,
            query_id=text,
        )

    def _read(self, letter: str, noun: str, text: str) -> int:
        field = f"{noun}_id"
        if not text:
            raise InvalidInput(
                f"{field} is empty; give the ID that came with the {noun}", reason="MALFORMED_ID", field=field
            )
        match = _FORM.fullmatch(text)
        if match is None or match[1] != letter:
            hint = "; if it is a key, say so (key=, --key)" if noun == "query" else ""
            example = f"{letter}-{self.incarnation}-1"
            raise InvalidInput(
                f"{text[:_SHOWN]!r} is not a {noun} ID, such as {example!r}{hint}", reason="MALFORMED_ID", field=field
            )
        if match[2] != self.incarnation:
            raise NotFound(
                f"{noun} {text!r} is from another incarnation of this service's data ({match[2]}, now"
                f" {self.incarnation}): it was kept in memory only, or is from before a backup was restored, or belongs"
                f" to another service; list the {'queries' if noun == 'query' else f'{noun}s'} of this service,"
                " or register again",
                reason="FOREIGN_INCARNATION",
                incarnation=self.incarnation,
            )
        return int(match[3])


def page_token(kind: str, **state: Any) -> str:
    """A token for the next page of the list `kind`. `state`: the place in the list after the last page."""
    raw = json.dumps([kind, state], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def read_page_token(kind: str, token: str, **shape: type) -> dict[str, Any] | None:
    """The state in a token that `page_token` made for the list `kind`; None for an empty token, the first page.

    `shape`: the name and type of each field of the state. Raises InvalidInput for any other token. A client may have
    changed the values of the state.
    """
    if not token:
        return None
    try:
        if len(token) > _MAX_TOKEN:
            raise ValueError
        listed, state = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
        if listed != kind or not isinstance(state, dict) or set(state) != set(shape):
            raise ValueError
        if any(type(state[name]) is not kind_of for name, kind_of in shape.items()):
            raise ValueError
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise InvalidInput(
            f"page_token {token[:_SHOWN]!r} is not one that this list gave; leave it empty to start at the first page",
            reason="PAGE_TOKEN",
            field="page_token",
        ) from None
    return state


def page_size(wanted: int, default: int, limit: int) -> int:
    """The size of a page: `default` if 0 is wanted, and at most `limit`. Raises InvalidInput if it is negative."""
    if wanted < 0:
        raise InvalidInput(f"page_size is {wanted}; it must not be negative", field="page_size")
    return min(wanted or default, limit)

"""The options that client commands share, and the exit code for each error.

0 ok   1 error   2 usage   3 unavailable   4 not found   5 conflict   6 some rows refused   130 interrupted
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from psoup_cli.legible import legible_lines
from psoup_cli.process_end import INTERRUPTED, discard_output
from psoup_cli.settings import address_notice, client_settings
from psoup_client import (
    AlreadyExists,
    Client,
    Conflict,
    DeadlineExceeded,
    FailedPrecondition,
    NotFound,
    PSoupError,
    Query,
    Unavailable,
)

NOT_FOUND = 4

EXIT_CODES: tuple[tuple[type[PSoupError], int], ...] = (
    (Unavailable, 3),
    (DeadlineExceeded, 3),
    (NotFound, NOT_FOUND),
    (AlreadyExists, 5),
    (Conflict, 5),
    (FailedPrecondition, 5),
    (PSoupError, 1),
)
"""The exit code for each class of errors. The first matching class decides."""

REFUSED = 6
"""The exit code of a push if some rows were refused, and the remaining rows were taken."""

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Address of the service, https://HOST:PORT, or unix:PATH; a comma before each further one, which are tried"
        " in turn (else PSOUP_ADDRESS, else psoup.toml).",
    ),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", help="Give up after this many seconds.", min=0.001)
]
WaitFor = Annotated[
    int | None,
    typer.Option(
        "--wait-for", metavar="SEQUENCE", min=0, help="Wait for this event; psoup push --json prints its number."
    ),
]
Since = Annotated[
    int | None,
    typer.Option(
        "--since",
        metavar="SEQUENCE",
        min=0,
        help="Promise that nothing was sent under this name before this event, if the service has forgotten the name.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=VALUE", help="Label to give, or to find queries by; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per row on standard output.")]


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirmed(question: str, yes: bool) -> bool:
    """Ask on standard error whether to go on, unless `yes` is set. Without a terminal the answer is no."""
    if yes:
        return True
    if not sys.stdin.isatty():
        message(f"{question} Nothing was done: say --yes.")
        return False
    return typer.confirm(question, err=True)


def exit_code(problem: PSoupError) -> int:
    """Return the exit code of the `psoup` command for an error of the SDK. A malformed ID counts as not found."""
    if problem.reason in ("MALFORMED_ID", "UNKNOWN_TUPLE"):
        return NOT_FOUND
    return next(code for kind, code in EXIT_CODES if isinstance(problem, kind))


OfKey = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="The query with this key, without an ID.")]
QueryIds = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The queries.")]
OfLabel = Annotated[
    list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="All queries with this label; repeatable.")
]
OfPrefix = Annotated[
    str | None, typer.Option("--key-prefix", metavar="TEXT", help="All queries whose keys begin with this.")
]


def check_selection(ids: QueryIds, key: OfKey, label: OfLabel, key_prefix: OfPrefix) -> None:
    """Raise BadParameter unless queries are selected in one of these ways."""
    if bool(ids) + (key is not None) + bool(label) + bool(key_prefix) != 1:
        raise typer.BadParameter("give IDs of queries, or --key, or --label, or --key-prefix")


def query_of(client: Client, query_id: str | None, key: str | None) -> Query:
    """Return the query with an ID or a key."""
    if (query_id is None) == (key is None):
        raise typer.BadParameter("give the ID of a query, or --key")
    return client.query(query_id, key=key)


def labels_of(given: list[str] | None) -> dict[str, str]:
    """Parse labels NAME=VALUE to a dict."""
    labels = dict[str, str]()
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"--label {text!r} is not NAME=VALUE")
        if labels.setdefault(name, value) != value:
            raise typer.BadParameter(f"--label {name} is given twice: a query has one value of it")
    return labels


def unreadable(problem: OSError | ValueError) -> str:
    """Describe why a file cannot be read."""
    if isinstance(problem, OSError) and problem.filename and problem.strerror:
        return f"{problem.filename} cannot be read: {problem.strerror}"
    return f"the file is not UTF-8: {problem}" if isinstance(problem, UnicodeError) else str(problem)


def message(text: str) -> None:
    """Print a line for people, on standard error."""
    print(legible_lines(text), file=sys.stderr)


@contextmanager
def connect(address: str | None, timeout: float | None = None) -> Iterator[Client]:
    """Open a client for one command, from its flags, the environment and psoup.toml.

    At its end it waits until every call sees the command's changes. The next command is another client, and it would
    not wait for them.
    """
    settings = client_settings(address, timeout)
    if notice := address_notice(settings):
        message(f"psoup: {notice}")
    with Client(settings.address, timeout=settings.timeout_seconds) as client:
        yield client
        if client.last_sequence:
            _wait_until_visible(client)


def _wait_until_visible(client: Client) -> None:
    """Wait until the command's changes are visible, within the timeout.

    The changes are on disk already, so a timeout gives a message and not an error. A refused credential also shows that
    the change is visible: it made the first token, or revoked the caller's own.
    """
    try:
        client.wait_for(client.last_sequence)
    except PSoupError as problem:
        if problem.reason in ("NO_CREDENTIAL", "TOKEN_INVALID"):
            return
        message(f"What was done may not be in all answers yet: {problem.message}")


_OWN_WORDS = (
    (r"Input should be a valid integer.*", "it takes a whole number"),
    (r"Input should be a valid number.*", "it takes a number"),
    (r"Input should be greater than or equal to (.*)", r"it takes \1 or more"),
    (r"Input should be greater than (.*)", r"it takes more than \1"),
    (r"Input should be less than or equal to (.*)", r"it takes \1 at most"),
    (r"Value error, (.*)", r"\1"),
)
"""Patterns of messages from the command line's parser, and the texts that replace them."""


def _in_own_words(said: str) -> str:
    for pattern, words in _OWN_WORDS:
        if (match := re.fullmatch(pattern, said)) is not None:
            return match.expand(words)
    return said


class ErrorGroup(TyperGroup):
    """A group of commands that turns errors of the SDK into a message on standard error and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the command line names."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as problem:
            problem.message = legible_lines(_in_own_words(problem.message))
            raise
        except PSoupError as problem:
            message(f"psoup: {problem.message}")
            raise typer.Exit(exit_code(problem)) from None
        except KeyboardInterrupt:
            message("psoup: interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            discard_output()
            raise typer.Exit(0) from None
        except UnicodeError as problem:  # in an argument, or on standard input
            message(f"psoup: the text is not UTF-8: {problem}")
            raise typer.Exit(1) from None
        except OSError as problem:
            text = f"{problem.filename}: {problem.strerror}" if problem.filename and problem.strerror else problem
            message(f"psoup: {text}")
            raise typer.Exit(1) from None

"""psoup follow: new tuples of a stream with the queries that they matched, as they come."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from psoup_cli.common import Address, AsJson, Labels, Timeout, connect, labels_of, message, unreadable
from psoup_cli.output import print_json, print_table
from psoup_cli.process_end import INTERRUPTED, discard_output
from psoup_client import Client
from psoup_client.follow import FollowBatch, Following, Match
from psoup_client.group import GroupBatch, GroupFollowing
from psoup_client.phrases import counted, verb

_CHANGES = ("came", "stays", "left")
"""The changes of a query at a version of a table's row."""
_MOST_POSITION = 1_000
"""The most bytes of a file with a position."""


def follow(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)],
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="POSITION", help="Begin after this position, or at 'start', the oldest tuple."),
    ] = None,
    position_file: Annotated[
        Path | None,
        typer.Option(
            "--position-file",
            metavar="FILE",
            help="Go on from the position in FILE, and keep it up to date. Without FILE yet: begin at --after, or now.",
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME", help="Share the matches with other workers of this group.")
    ] = None,
    label: Labels = None,
    shown: Annotated[
        str | None,
        typer.Option("--labels", metavar="NAMES", help="Print only these labels of queries, separated by commas."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", "--keys", metavar="KEY", help="Follow the query with this key; repeatable."),
    ] = None,
    queries: Annotated[
        list[str] | None,
        typer.Option("--query", "--queries", metavar="ID", help="Follow the query with this ID; repeatable."),
    ] = None,
    old: Annotated[
        bool, typer.Option("--old", help="Also tell a query for tuples from before its registration.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of this follower for psoup stream show and metrics."),
    ] = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup follow ads --labels user --json
      psoup follow ads --after start --position-file mails.position | ./send-mails
      psoup follow ads --group mailer

    Print each new tuple of a stream with the queries that it matched, as tuples come, until Ctrl-C. Without --after it
    begins now. --position-file stores the position after each batch that was written out: the next run goes on there,
    and misses nothing. With --group the service keeps the positions, and workers share the queries by their labels.

    The output is a table on a terminal, else one JSON object for each tuple: {"tuple": {...}, "queries": [{"query_id":
    ..., "key": ..., "labels": {...}}]}. Ctrl-C prints the position on standard error.

    For a table, each new version of a row and each deletion is printed. The queries are in three columns: the row came
    into their answers, stays there, or left. As JSON, each query has a "change", and the tuple a "_deleted".
    """
    if position_file is not None and group is not None:
        raise typer.BadParameter("--position-file goes without --group: the service keeps the position of a group")
    names = None if shown is None else _names(shown)
    labels = labels_of(label)
    wanted = {"labels": labels, "keys": keys or [], "queries": queries or [], "old": old, "name": name or ""}
    stored = None if position_file is None else _stored(position_file)
    with connect(address, timeout) as client:
        feed = _feed(client, stream, stored or after, group, wanted)
        written = feed.position if isinstance(feed, Following) else ""
        if position_file is not None and stored is None:
            _store(position_file, written)
        _note_labels(client, labels)
        try:
            _print_batches(feed, names, as_json or not sys.stdout.isatty(), position_file, written)
        finally:
            feed.close()


def _print_batches(
    feed: Following | GroupFollowing, names: list[str] | None, as_json: bool, position_file: Path | None, written: str
) -> None:
    """Print batches, and store the position after each. `written`: the position so far, which the end shows.

    Returns if the reader of the output has ended. Raises Exit at Ctrl-C.
    """
    try:
        for batch in _with_notes(feed, names):
            _write(batch, names, as_json)
            written = batch.position
            if isinstance(batch, GroupBatch):
                batch.confirm()
            elif position_file is not None:
                with _uninterrupted():
                    _store(position_file, written)
    except KeyboardInterrupt:
        _say(written)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        discard_output()
        _say(written)


def _names(shown: str) -> list[str]:
    """The names in --labels. Raises BadParameter for NAME=VALUE, which selects queries with --label."""
    names = [name.strip() for name in shown.split(",") if name.strip()]
    if pair := next((name for name in names if "=" in name), None):
        raise typer.BadParameter(
            f"--labels names the labels to print; to follow the queries with one, say --label {pair}"
        )
    return names


def _feed(
    client: Client, stream: str, after: str | None, group: str | None, wanted: dict[str, Any]
) -> Following | GroupFollowing:
    if group is None:
        return client.follow(stream, after, progress=True, **wanted)
    wanted["name"] = wanted["name"] or f"psoup-{os.getpid()}"
    return client.follow(stream, after, group=group, **wanted)


def _note_labels(client: Client, wanted: Mapping[str, str]) -> None:
    """Say on standard error if no query has these labels yet. Following waits for such queries."""
    if wanted and not client.queries(labels=wanted, limit=1):
        message("No query has these labels yet. Following waits for one.")


def _with_notes(feed: Following | GroupFollowing, names: list[str] | None) -> Iterator[FollowBatch]:
    """Yield the batches. Say how many queries are left out, when the number grows, and which labels are not there."""
    left_out, lacking = 0, names or []
    for batch in feed:
        if batch.left_out > left_out:
            left_out = batch.left_out
            message(
                f"{counted(left_out, 'query')} with the labels {verb(left_out, 'is', 'are')} not followed:"
                " joins, aggregates and DISTINCT have rows of their own; watch them instead."
            )
        if lacking and len(batch):
            label_names = {name for match in batch for labels in match.labels for name in labels}
            for name in [name for name in lacking if name not in label_names]:
                message(f"Note: no query of the first matches has a label {name!r}.")
            lacking = []
        yield batch


def _write(batch: FollowBatch, names: list[str] | None, as_json: bool) -> None:
    """Write the tuples of a batch, and flush them."""
    if not len(batch):
        return
    if as_json:
        for match in batch:
            print_json({"tuple": match.tuple, "queries": list(_queries(match, names))})
    else:
        columns = batch.tuples.column_names
        if "change" in batch.matches.column_names:
            shown = [(*match.tuple.values(), *(_in_words(match, names, word) for word in _CHANGES)) for match in batch]
            print_table([*columns, *_CHANGES], shown)
        else:
            rows = [(*match.tuple.values(), _in_words(match, names)) for match in batch]
            print_table([*columns, "matched"], rows)
    sys.stdout.flush()


def _queries(match: Match, names: list[str] | None) -> Iterator[dict[str, Any]]:
    changes = [{"change": change} for change in match.changes] or [{}] * len(match.query_ids)
    for query_id, key, labels, change in zip(match.query_ids, match.keys, match.labels, changes, strict=True):
        some = labels if names is None else {name: labels[name] for name in names if name in labels}
        yield {"query_id": query_id, "key": key, "labels": some, **change}


def _in_words(match: Match, names: list[str] | None, change: str | None = None) -> str:
    """The matches of a tuple for people: their labels if some are asked for, else their keys, else their IDs.

    `change`: only the queries with this change.
    """
    words = list[str]()
    for query in _queries(match, names):
        if change is not None and query["change"] != change:
            continue
        labels = " ".join(f"{name}={value}" for name, value in query["labels"].items())
        words.append((labels if names else "") or query["key"] or query["query_id"])
    return ", ".join(dict.fromkeys(words))


def _say(position: str) -> None:
    """Print the position after the last written batch, on standard error. A group keeps its own."""
    if position:
        message(f"position: {position}")


def _stored(path: Path) -> str | None:
    """The position in a file; None if there is no file. Raises BadParameter."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_POSITION + 1)
        text = raw.decode("ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        raise typer.BadParameter(f"--position-file: {unreadable(problem)}") from None
    if not text or len(raw) > _MOST_POSITION or len(text.split()) != 1:
        raise typer.BadParameter(
            f"--position-file: {path} does not hold a position; remove it to begin at --after, or now"
        )
    return text


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt after the `with` block instead of inside."""
    pressed = list[int]()
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _store(path: Path, position: str) -> None:
    """Replace the file's content. A crash leaves the old position or the new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{position}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise

"""psoup cdc: a table follows a table of PostgreSQL."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Annotated, Any

import typer

from psoup_cli.common import Address, AsJson, Timeout, connect, message
from psoup_cli.feed_options import TOLD_SECONDS, FeedPatience
from psoup_cli.output import print_json, print_pairs, row_bar
from psoup_client import Client, NotFound
from psoup_client.phrases import counted, verb

Table = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table of PSoup. It is created if missing.", show_default=False)
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="ADDRESS",
        envvar="PSOUP_CDC_FROM",
        help="The database: postgres://USER@HOST:PORT/NAME. A password is better in ~/.pgpass or PGPASSWORD.",
        show_default=False,
    ),
]
SourceName = Annotated[
    str | None,
    typer.Option("--source", metavar="NAME", help="The table of PostgreSQL, with its schema; else the same name."),
]
Slot = Annotated[
    str | None,
    typer.Option("--slot", metavar="NAME", help="The name of the slot and the publication; else psoup_TABLE."),
]
Once = Annotated[bool, typer.Option("--once", help="End when the changes up to now are in.", show_default=False)]
Status = Annotated[
    bool, typer.Option("--status", help="Show the position, the slot and its lag, and end.", show_default=False)
]
DropSlot = Annotated[
    bool,
    typer.Option("--drop-slot", help="Drop the slot and the publication in PostgreSQL, and end.", show_default=False),
]


def cdc(
    table: Table,
    address_from: From,
    source: SourceName = None,
    slot: Slot = None,
    once: Once = False,
    status: Status = False,
    drop_slot: DropSlot = False,
    patience: FeedPatience = 600.0,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup cdc customers --from postgres://psoup@db.example.org/shop
      psoup cdc customers --from postgres:///shop --source sales.customers --once
      psoup cdc customers --from postgres:///shop --drop-slot

    Follow a table of PostgreSQL: first its rows, and then each transaction as one batch, by logical replication. The
    command goes on until Ctrl-C. After any kill the same command goes on behind the last transaction that is in. No
    transaction is lost or repeated.

    PostgreSQL needs wal_level = logical. The user needs the right REPLICATION, and owns the table. A slot without a
    reader keeps PostgreSQL's log on its disk: end a feed for good with --drop-slot. --status and a line each minute
    show the lag.

    Changes have the time at which they come. TRUNCATE deletes all rows. If a column is added, removed or renamed, the
    command ends and says what to do.
    """
    kit = import_module("psoup_cdc")  # needs the extra psoup[postgres]
    name = slot or kit.slot_name(table)
    with kit.PostgresSource(address_from, name) as database:
        if drop_slot:
            dropped = database.drop()
            message(f"Dropped the slot {name}." if dropped else f"There is no slot {name}.")
            return
        with connect(address, timeout) as client:
            if status:
                _show_status(kit, client, database, table, as_json)
                return
            start = _start(kit, client, database, table, source or table)
            tell = _Teller(database).tell
            _follow(kit, kit.TableFeed(client, database, start, until_now=once, patience=patience, tell=tell))


def _start(kit: Any, client: Client, database: Any, name: str, source: str) -> Any:
    """Check both tables. Creates the table of PSoup if it is missing."""
    described = database.describe(source)
    try:
        info = client.describe(name)
    except NotFound:
        statement = kit.statement_for(name, described)
        client.execute(statement)
        info = client.describe(name)
        message(f"Created the table: {statement}")
    start = kit.Start.of(kit.TargetTable.of(info), database, described)
    if start.left_out:
        count = len(start.left_out)
        message(
            f"{counted(count, 'column')} of {described} {verb(count, 'is', 'are')} left out: "
            f"{', '.join(start.left_out)}."
        )
    return start


def _follow(kit: Any, feed: Any) -> None:
    with row_bar(f"Copying {feed.source_name}") as show:
        lsn = kit.text_of(feed.prepare(show))
    if feed.figures.copied is not None:
        message(f"Copied {counted(feed.figures.copied, 'row')} of {feed.source_name}.")
    message(f"Following {feed.source_name} from {lsn}.")
    try:
        feed.run()
    except KeyboardInterrupt:
        _tell_end(kit, feed.figures)
        raise
    _tell_end(kit, feed.figures)


def _tell_end(kit: Any, figures: Any) -> None:
    message(f"{_progress(figures)}, up to {kit.text_of(figures.position)}.")


def _progress(figures: Any) -> str:
    transactions = counted(figures.transactions, "transaction")
    return f"{counted(figures.changes, 'change')} in {transactions} {verb(figures.changes, 'is', 'are')} in"


class _Teller:
    """Tells of the progress and the lag, at most once a minute."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._next = time.monotonic() + TOLD_SECONDS
        self._changes = 0

    def tell(self, figures: Any) -> None:
        """Print a line if a minute has passed and there were changes."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + TOLD_SECONDS
        slot = self._database.slot()
        if figures.changes > self._changes or (slot is not None and slot.behind):
            self._changes = figures.changes
            message(f"{_progress(figures)}; the slot is {'gone' if slot is None else _behind(slot)}.")


def _behind(slot: Any) -> str:
    return f"{counted(slot.behind, 'byte')} behind"


def _show_status(kit: Any, client: Client, database: Any, table: str, as_json: bool) -> None:
    """Print the position and the slot."""
    state, producer = database.slot(), kit.producer_name(database.name)
    try:
        position = client.position(table, producer)
        recorded = (position.source or b"").decode()
    except NotFound:
        position, recorded = None, ""
    facts = {
        "slot": database.name,
        "producer": producer,
        "position": recorded or None,
        "last_batch": None if position is None else position.time,
        "slot_exists": state is not None,
        "reader": None if state is None else state.active_pid,
        "behind_bytes": None if state is None else state.behind,
        "retained_bytes": None if state is None else state.retained,
    }
    if as_json:
        print_json(facts)
        return
    pairs = [
        ("position", recorded or "none: the first copy is not in"),
        ("last batch", "none" if position is None else position.time),
        ("slot", database.name if state is not None else f"{database.name} does not exist"),
    ]
    if state is not None:
        pairs += [
            ("reader", "none" if state.active_pid is None else f"process {state.active_pid} of PostgreSQL"),
            ("behind", counted(state.behind, "byte")),
            ("log kept for it", counted(state.retained, "byte")),
        ]
    print_pairs(pairs)

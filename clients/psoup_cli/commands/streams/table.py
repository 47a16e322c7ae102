"""psoup table create|alter|list|show|drop: tables, as `psoup stream` for streams."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from psoup_cli.commands.streams import stream
from psoup_cli.common import Address, AsJson, Timeout, WaitFor, Yes

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def tables() -> None:
    """\b
    Examples:
      psoup table create "CREATE TABLE customers (id BIGINT, name TEXT, PRIMARY KEY (id))"
      psoup push customers customers.csv
      psoup push --delete customers gone.csv
      psoup table list
      psoup table show customers
      psoup table alter "ALTER TABLE customers ADD COLUMN country TEXT"
      psoup table drop customers --cascade

    Create, list, show, alter and drop tables. A table has rows with a key; a push replaces the rows of its keys.
    """


Name = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name, in any case.", show_default=False)]


@app.command("create", short_help="Create a table from a CREATE TABLE statement.")
def create(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="CREATE TABLE ...", show_default=False)],
    if_not_exists: stream.IfNotExists = False,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup table create "CREATE TABLE customers (id BIGINT PRIMARY KEY, name TEXT NOT NULL)"
      psoup table create "CREATE TABLE prices (shop TEXT, item TEXT, since TIMESTAMP, price DECIMAL(9,2),
        PRIMARY KEY (shop, item)) TIMESTAMP BY since LATENESS 1 HOUR HISTORY 90 DAYS"
      psoup table create "CREATE TABLE devices FROM STREAM states PRIMARY KEY (device)"

    Create a table. PRIMARY KEY names the columns that tell rows apart; they are never NULL. The types are the types
    of streams, and a key is not a DOUBLE. Without TIMESTAMP BY a version of a row holds from its arrival. The first
    version of a key holds from the beginning. HISTORY is the time for which replaced versions are kept; the default is
    7 days. DELETED FOR is the time for which deletions are remembered; the default is 30 days. EXPIRES BY names a
    TIMESTAMP column: the service deletes a row at the time in it. FROM STREAM makes a table of a stream, whose tuples
    become versions. The stream stays.
    """
    stream.create(sql, if_not_exists, as_json, address, timeout)


@app.command("alter", short_help="Add columns to a table, or change its HISTORY.")
def alter(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="ALTER TABLE ...", show_default=False)],
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup table alter "ALTER TABLE customers ADD COLUMN country TEXT"
      psoup table alter "ALTER TABLE customers HISTORY 90 DAYS"
      psoup table alter "ALTER TABLE customers DELETED FOR 60 DAYS"
      psoup table alter "ALTER TABLE offers EXPIRES BY valid_until"
      psoup table alter "ALTER TABLE offers EXPIRES NEVER"

    Add columns to a table; existing rows have NULL in them. Or change how long it keeps replaced versions and
    deletions, or the column by which its rows expire. Standing queries do not see new columns; register
    a query anew to select them.
    """
    stream.alter(sql, as_json, address, timeout)


@app.command("list", short_help="List the tables.")
def list_tables(as_json: AsJson = False, address: Address = None, timeout: Timeout = None) -> None:
    """\b
    Examples:
      psoup table list
      psoup table list --json

    List the tables in the order of their names. Each change of a row is a version; a replaced version stays for the
    HISTORY of its table.
    """
    stream.list_of("table", as_json, address, timeout)


@app.command("describe", short_help="Show one table.", hidden=True)  # the word of the SDK
@app.command("show", short_help="Show one table.")
def show_table(
    name: Name,
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup table show customers
      psoup table show customers --json

    Show a table: its columns, its key, its time, its size, and its followers.
    """
    stream.show_stream(name, wait_for, as_json, address, timeout)


@app.command("drop", short_help="Drop a table and its rows.")
def drop(
    name: Name,
    cascade: stream.Cascade = False,
    yes: Yes = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup table drop customers
      psoup table drop customers --cascade

    Forget a table and its rows. Refused while queries use it, also joins: unregister them first, or say --cascade,
    which says how many they are, asks, and forgets them at the same moment.
    """
    stream.drop_kind("table", name, cascade, yes, address, timeout)

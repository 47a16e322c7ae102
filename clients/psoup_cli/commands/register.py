"""psoup register: a standing query, or many; their IDs go to standard output."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from psoup_cli.commands.queries import facts
from psoup_cli.common import Address, AsJson, Labels, Timeout, connect, labels_of, message, unreadable
from psoup_cli.output import print_json
from psoup_cli.parameters import Param, ParameterFile, read_parameters, read_statements, values_of
from psoup_client import Client, PSoupError
from psoup_client.wording import counted, verb

Params = Annotated[
    str | None,
    typer.Option(
        "--params", metavar="FILE", help="Register a query for each row of a CSV, JSON lines or Parquet file."
    ),
]
RequestId = Annotated[
    str | None,
    typer.Option("--request-id", metavar="TEXT", help="Give the same query for the same ID and SQL, while it stands."),
]

Key = Annotated[
    str | None,
    typer.Option("--key", metavar="TEXT", help="Own name of the query, unique; with --params, the column of them."),
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Put the query in the place of the one that has its key, if it is another.")
]
ExpiresAfter = Annotated[
    str | None,
    typer.Option("--expires-after", metavar="TIME", help="Unregister it when it is not asked for so long: '90 days'."),
]


def register(
    sql: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="SELECT ..., or - for standard input.", show_default=False)
    ] = None,
    param: Param = None,
    params: Params = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="Read statements, one on each line; or the one for --params."),
    ] = None,
    key: Key = None,
    label: Labels = None,
    replace: Replace = False,
    expires_after: ExpiresAfter = None,
    request_id: RequestId = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup register "SELECT * FROM flights WHERE origin = 'JFK' BEGIN (NOW - 1 HOUR)"
      psoup register "SELECT * FROM flights WHERE late > 60" --key search-42 --label user=u3
      psoup register "SELECT * FROM flights WHERE late > 90" --key search-42 --label user=u3 --replace
      ID=$(psoup register - < query.sql)
      psoup register "SELECT * FROM flights WHERE origin = ?" --param JFK
      psoup register "SELECT * FROM flights WHERE origin = \\$origin" --params airports.csv
      psoup register "SELECT * FROM flights WHERE origin = \\$origin" --params searches.csv --key id --label user
      psoup register --file queries.sql

    Register a standing query and print its ID. It stays until it is unregistered; come back with: psoup invoke ID

    With --params or --file, register many; the IDs come in the order of the rows or lines. In a CSV every value is
    taken as what the parameter needs; columns are found by name for $name, and go in order for ? and $1. --key and
    --label name columns of the file then, which are not parameters unless the statement names them.
    """
    if (sql is None) == (file is None):
        raise typer.BadParameter("give a statement, or --file")
    if param and (params or file):
        raise typer.BadParameter("--param is for one statement; with many, use --params")
    if replace and key is None:
        raise typer.BadParameter("--replace is for queries with a --key")
    if (key is not None or label) and file and not params:
        raise typer.BadParameter("--key and --label are for one statement, or for one with --params")
    if params or file:
        tags = {"key": key, "labels": label or [], "replace": replace, "expires_after": expires_after}
        _register_many(sql, params, file, {"request_id": request_id, **tags}, as_json, (address, timeout))
        return
    text = sys.stdin.read() if sql == "-" else str(sql)
    with connect(address, timeout) as client:
        query = client.register(
            text,
            values_of(text, param),
            key=key,
            labels=labels_of(label),
            replace=replace,
            expires_after=expires_after,
            request_id=request_id,
        )
    if as_json:
        print_json(facts(query))
        return
    print(query.id)
    message(f"Registered, {query.info.window_kind}: {query.info.window}")


def _register_many(
    sql: str | None,
    params: str | None,
    file: str | None,
    options: dict[str, Any],
    as_json: bool,
    where: tuple[str | None, float | None],
) -> None:
    try:
        statement, given = _what(sql, params, file)
    except (OSError, ValueError) as problem:
        raise typer.BadParameter(unreadable(problem)) from None
    done = 0
    with connect(*where) as client, _bar() as bar:
        task = bar.add_task("registered", total=None)

        def progress(count: int, total: int) -> None:
            nonlocal done
            done = count
            bar.update(task, completed=count, total=total)

        try:
            rows = None if statement is None else given.rows
            _print_parts(client, given.rows if statement is None else statement, rows, options, as_json, progress)
        except PSoupError as problem:
            source = "standard input" if file == "-" and not params else str(params or file)
            raise _after(given.placed(problem, source), done, options["request_id"]) from None
    message(f"{counted(done, 'query')} registered.")


def _print_parts(
    client: Client, statement: Any, rows: Any, options: dict[str, Any], as_json: bool, progress: Any
) -> None:
    """Print IDs as soon as they are there: those before an error are registered."""
    for part in client.register_parts(statement, rows, **options, progress=progress):
        for query in part:
            if as_json:
                print_json({"query_id": query.id})
            else:
                print(query.id)


def _after(problem: PSoupError, done: int, request_id: str | None) -> PSoupError:
    """Make the same problem with what was registered before it and how to go on."""
    if not done:
        return problem
    rest = "leave these out" if request_id is None else "give the same --request-id and the same queries up to there"
    before = (
        f"{counted(done, 'query')} before it {verb(done, 'was', 'were')} registered, the"
        f" {verb(done, 'ID is', 'IDs are')} above; to register the rest, {rest}."
    )
    return type(problem)(f"{problem.message}\n{before}", reason=problem.reason, facts=problem.facts)


def _what(sql: str | None, params: str | None, file: str | None) -> tuple[str | None, ParameterFile]:
    """Return a statement and its rows, or None and the statements. Raises ValueError or OSError."""
    if file is None:
        statement = sys.stdin.read() if sql == "-" else str(sql)
    elif params is None:
        return None, read_statements(file)
    elif file == "-":
        statement = sys.stdin.read()
    else:
        with open(file, encoding="utf-8") as opened:
            statement = opened.read()
    return statement, read_parameters(str(params))


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
        disable=not sys.stderr.isatty(),
    )

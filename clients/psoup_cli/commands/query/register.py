"""psoup register: a standing query, or many; their IDs go to standard output."""

from __future__ import annotations

import sys
from typing import Annotated, TypedDict

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from psoup_cli.commands.query.queries import facts
from psoup_cli.common import Address, AsJson, Timeout, connect, labels_of, message, unreadable
from psoup_cli.output import print_json
from psoup_cli.parameters import Param, ParameterFile, read_parameters, read_statements, values_of
from psoup_client import Client, PSoupError, Queries
from psoup_client.amounts import Amount
from psoup_client.phrases import counted, verb

Statement = Annotated[
    str | None, typer.Argument(metavar="[SQL]", help="SELECT ..., or - for standard input.", show_default=False)
]
File = Annotated[
    str | None,
    typer.Option("--file", metavar="FILE", help="Read statements, one on each line; or the one for --params."),
]
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
    typer.Option(
        "--key", metavar="TEXT", help="Your own unique name for the query; with --params, the column of these names."
    ),
]
GivenLabels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="NAME=VALUE",
        help="Label of the query; repeatable. With --params: --label NAME, the column with the values of that label.",
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace another query that has the key.")]
ExpiresAfter = Annotated[
    str | None,
    typer.Option(
        "--expires-after", metavar="TIME", help="Unregister it when it was not asked for this long: '90 days'."
    ),
]
KeepPairs = Annotated[bool, typer.Option("--keep-pairs", help="Keep the pairs of a join of two streams, for speed.")]
HowMuch = Annotated[
    Amount | None,
    typer.Option(
        "--amount",
        help="What to keep between invocations: nothing, the matches, or also the answer; auto: the service chooses."
        " Default: the setting amount.",
    ),
]
Eager = Annotated[bool, typer.Option("--eager", help="With --amount complete: update the answer as tuples come.")]
Inactive = Annotated[
    bool, typer.Option("--inactive", help="Do not test new tuples against it, until psoup alter --active.")
]

Parked = Annotated[bool, typer.Option("--parked", help="Inactive, and not in memory: it is read from disk when asked.")]


def register(
    sql: Statement = None,
    param: Param = None,
    params: Params = None,
    file: File = None,
    key: Key = None,
    label: GivenLabels = None,
    replace: Replace = False,
    expires_after: ExpiresAfter = None,
    keep_pairs: KeepPairs = False,
    amount: HowMuch = None,
    eager: Eager = False,
    inactive: Inactive = False,
    parked: Parked = False,
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
      psoup register "SELECT * FROM flights WHERE late > 60" --amount none

    Register a standing query and print its ID. It stands until it is unregistered. To get its answer: psoup invoke ID

    --params or --file registers many queries; the IDs come in the order of the rows or lines. A value of a CSV is
    converted to the parameter's type. Columns are found by name for $name, and by order for ? and $1. --key and --label
    then name columns of the file; such a column is a parameter only if the statement names it.
    """
    _check(sql, file, params, param, key, label, replace)
    given: _Given = {
        "key": key,
        "replace": replace,
        "expires_after": expires_after,
        "keep_pairs": keep_pairs,
        "amount": amount,
        "eager": eager,
        "active": False if inactive else None,
        "parked": parked,
        "request_id": request_id,
    }
    with connect(address, timeout) as client:
        if params is None and file is None:
            _register_one(client, sys.stdin.read() if sql == "-" else str(sql), param, label, given, as_json)
        else:
            _register_many(client, sql, params, file, label, given, as_json)


class _Given(TypedDict):
    """The options of one registered query, or of each query of many."""

    key: str | None
    replace: bool
    expires_after: str | None
    keep_pairs: bool
    amount: Amount | None
    eager: bool
    active: bool | None
    parked: bool
    request_id: str | None


def _check(
    sql: str | None,
    file: str | None,
    params: str | None,
    param: list[str] | None,
    key: str | None,
    label: list[str] | None,
    replace: bool,
) -> None:
    """Raise BadParameter for options that exclude or need each other."""
    if (sql is None) == (file is None):
        raise typer.BadParameter("give a statement, or --file")
    if param and (params or file):
        raise typer.BadParameter("--param is for one statement; with many, use --params")
    if replace and key is None:
        raise typer.BadParameter("--replace is for queries with a --key")
    if (key is not None or label) and file and not params:
        raise typer.BadParameter("--key and --label are for one statement, or for one with --params")


def _register_one(
    client: Client, text: str, param: list[str] | None, label: list[str] | None, given: _Given, as_json: bool
) -> None:
    query = client.register(text, values_of(text, param), labels=labels_of(label), **given)
    if as_json:
        print_json(facts(query))
        return
    print(query.id)
    message(f"Registered, {query.info.window_kind}: {query.info.window}")
    amount = query.info.amount
    if given["amount"] not in (None, amount):
        message(f"The query was registered before, with amount {amount}: it stays so. psoup alter changes it.")


def _register_many(
    client: Client,
    sql: str | None,
    params: str | None,
    file: str | None,
    label: list[str] | None,
    given: _Given,
    as_json: bool,
) -> None:
    try:
        statement, read = _what(sql, params, file)
    except (OSError, ValueError) as problem:
        raise typer.BadParameter(unreadable(problem)) from None
    done = 0
    with _bar() as bar:
        task = bar.add_task("registered", total=None)

        def progress(count: int, total: int) -> None:
            nonlocal done
            done = count
            bar.update(task, completed=count, total=total)

        statements, rows = (read.rows, None) if statement is None else (statement, read.rows)
        try:
            for part in client.register_parts(statements, rows, labels=label or [], **given, progress=progress):
                _print_ids(part, as_json)
        except PSoupError as problem:
            source = "standard input" if file == "-" and not params else str(params or file)
            raise _after(read.placed(problem, source), done, given["request_id"]) from None
    message(f"{counted(done, 'query')} registered.")


def _print_ids(queries: Queries, as_json: bool) -> None:
    """Print IDs as soon as they arrive, so that the IDs of queries registered before an error are shown."""
    for query in queries:
        if as_json:
            print_json({"query_id": query.id})
        else:
            print(query.id)


def _after(problem: PSoupError, done: int, request_id: str | None) -> PSoupError:
    """Return the same error, with the number of queries registered before it, and advice to register the rest."""
    if not done:
        return problem
    rest = "leave these out" if request_id is None else "give the same --request-id and the same queries up to there"
    before = (
        f"{counted(done, 'query')} before it {verb(done, 'was', 'were')} registered, the"
        f" {verb(done, 'ID is', 'IDs are')} above; to register the rest, {rest}."
    )
    return type(problem)(f"{problem.message}\n{before}", reason=problem.reason, facts=problem.facts)


def _what(sql: str | None, params: str | None, file: str | None) -> tuple[str | None, ParameterFile]:
    """Return a statement and its rows of parameters, or None and the statements of a file.

    Raises ValueError or OSError.
    """
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

"""psoup sql: statements of any kind, from the command line, a file or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from psoup_cli.answer_flags import SHOWN_ROWS, Format, JsonRows, ShownRows, chosen_form
from psoup_cli.commands.query.invoke import print_answer
from psoup_cli.common import Address, Timeout, connect, message, unreadable
from psoup_cli.parameters import Param, rows_of_values, values_of
from psoup_client import Answer, Client, PSoupError
from psoup_client.phrases import counted, verb
from psoup_client.statements import Statement, statements_of

_MARK = "\ufeff"
"""The byte order mark, which some editors write at the beginning of UTF-8 texts."""

_SHOWN = 40
"""The greatest number of characters by which a message names a statement."""


File = Annotated[
    str, typer.Argument(metavar="FILE", help="Statements; - or nothing: standard input.", show_default=False)
]
Command = Annotated[
    str | None,
    typer.Option("--command", "-c", metavar="SQL", help="Statements, instead of a FILE.", show_default=False),
]
Params = Annotated[
    str | None,
    typer.Option("--params", metavar="FILE", help="Ask for each row of a CSV, JSON lines or Parquet file."),
]
IfNotExists = Annotated[
    bool, typer.Option("--if-not-exists", help="Accept an existing stream if CREATE STREAM defines an equal one.")
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Format of answers. By default a table on a terminal, else CSV.")
]


def sql(
    file: File = "-",
    command: Command = None,
    param: Param = None,
    params: Params = None,
    if_not_exists: IfNotExists = False,
    format: FormatOption = None,
    as_json: JsonRows = False,
    rows: ShownRows = SHOWN_ROWS,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup sql setup.sql
      psoup sql setup.sql --if-not-exists
      psoup sql -c "CREATE STREAM s (a BIGINT); SELECT * FROM s"
      echo "DROP STREAM s" | psoup sql
      psoup sql late.sql --param JFK
      psoup sql late.sql --params airports.csv

    Carry out statements in order, separated by ;. They are CREATE, ALTER and DROP of streams and tables, with DROP
    STREAM [IF EXISTS] name [CASCADE], and SELECT. A SELECT is asked once; psoup register makes a standing query.
    CASCADE unregisters the queries on the stream, without a question. The first error ends the command and says where
    it is. --param and --params need exactly one SELECT; with --params it is asked once for each row, in the form of
    psoup register.
    """
    form = chosen_form(True, format, as_json)
    if command is not None and file != "-":
        raise typer.BadParameter(f"give statements by --command or by the file {file}, not both")
    name = "--command" if command is not None else "standard input" if file == "-" else file
    statements = list(statements_of(_read(file) if command is None else command))
    if not statements:
        raise typer.BadParameter(f"{name} holds no statements")
    values = _values(statements, param, params)
    steps = [(each, value) for each in statements for value in (values if each.selects else [None])]
    if form is Format.arrow and sum(each.selects for each, _ in steps) > 1:
        raise typer.BadParameter("several answers go with --format table, csv or json")
    answers = 0
    with connect(address, timeout) as client:
        for statement, value in steps:
            with _placing(statement, name):
                if not statement.selects:
                    _carry_out(client, statement, if_not_exists)
                    continue
                if answers and form is not Format.json:
                    print()
                with client.ask_stream(statement.text, value) as answer:
                    print_answer(answer, form, rows)
                answers += 1


def _values(statements: list[Statement], param: list[str] | None, params: str | None) -> list[Any]:
    """Return the parameter values for each run of the only SELECT; [None] without values."""
    if not param and params is None:
        return [None]
    if param and params is not None:
        raise typer.BadParameter("give --param or --params, not both")
    selects = [statement.text for statement in statements if statement.selects]
    if len(selects) != 1:
        raise typer.BadParameter(f"values of parameters are for one SELECT, and here are {len(selects)}")
    return [values_of(selects[0], param)] if params is None else rows_of_values(selects[0], params)


_HINT = "give statements with -c: psoup sql -c '…'"
_SHOWN = 40
"""Characters of a statement in the place of a file, in an error."""


def _read(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read().removeprefix(_MARK)
        with open(file, encoding="utf-8") as opened:
            return opened.read().removeprefix(_MARK)
    except OSError as problem:
        if " " in file and not os.path.exists(file):
            shown = file if len(file) <= _SHOWN else f"{file[:_SHOWN]}…"
            raise typer.BadParameter(f"psoup sql reads a file, and '{shown}' is not one; {_HINT}") from None
        raise typer.BadParameter(unreadable(problem)) from None
    except ValueError as problem:
        raise typer.BadParameter(f"{file}: {unreadable(problem)}") from None


def _carry_out(client: Client, statement: Statement, if_not_exists: bool) -> None:
    """Execute one statement that is not a SELECT, and report it."""
    done = client.execute(statement.text, if_not_exists=if_not_exists)
    if done is None:
        message(f"Done: {_name(statement)}.")
    elif not isinstance(done, Answer):
        way = "Created" if statement.word == "CREATE" else "Altered"
        state = f"; it is {done.derived.state}" if done.derived is not None and way == "Altered" else ""
        message(f"{way} {done.kind} {done.name} with {counted(len(done.columns), 'column')}{state}.")


@contextmanager
def _placing(statement: Statement, file: str) -> Iterator[None]:
    """Add the place of the statement in the file to errors inside the block."""
    try:
        yield
    except PSoupError as problem:
        raise _placed(problem, statement, file) from None


def _placed(problem: PSoupError, statement: Statement, file: str) -> PSoupError:
    """Return the same error with its place in the file, the statement, and the number of statements executed before."""
    facts, said = dict(problem.facts), problem.message
    place = f"line {statement.line}"
    line, column = facts.get("line", ""), facts.get("column", "")
    if line.isdigit() and column.isdigit():
        facts["line"], facts["column"] = map(str, statement.place(int(line), int(column)))
        place = f"line {facts['line']}, column {facts['column']}"
        said = said.removeprefix(f"line {line}, column {column}: ")
    before = statement.number - 1
    if before:
        said += f"\n{counted(before, 'statement')} before it {verb(before, 'was', 'were')} carried out."
    said = f"{file}, {place}, statement {statement.number} ({_name(statement)}): {said}"
    return type(problem)(said, reason=problem.reason, facts=facts, retry_after=problem.retry_after)


def _name(statement: Statement) -> str:
    words = " ".join(statement.text[: 4 * _SHOWN].split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN].rstrip()}..."

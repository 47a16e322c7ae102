"""psoup ask: the answer of a SELECT that is not registered."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from psoup_cli.answer_flags import (
    SHOWN_ROWS,
    AcceptTruncation,
    AnswerFormat,
    AsOf,
    JsonRows,
    ShownRows,
    Windows,
    chosen_form,
    instant_of,
    windows_of,
)
from psoup_cli.commands.query.invoke import print_answer
from psoup_cli.common import Address, Timeout, WaitFor, connect
from psoup_cli.parameters import Param, values_of


def ask(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="SELECT ..., or - for standard input.", show_default=False)],
    param: Param = None,
    as_of: AsOf = None,
    window: Windows = None,
    accept_truncation: AcceptTruncation = False,
    format: AnswerFormat = None,
    as_json: JsonRows = False,
    wait_for: WaitFor = None,
    rows: ShownRows = SHOWN_ROWS,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup ask "SELECT * FROM flights WHERE origin = 'JFK' BEGIN (NOW - 1 HOUR)"
      psoup ask "SELECT * FROM flights WHERE origin = ?" --param JFK --as-of 2013-07-04T12:00:00Z
      psoup ask "SELECT f.flight, w.visib FROM flights f, weather w WHERE w.origin = f.origin AND w.visib < 1 LIMIT 9"
      psoup ask - --format csv < query.sql > rows.csv

    Print the answer of a SELECT once. The query is not registered, and nothing of it is kept. Standard error says how
    complete the answer is. Register a query that you ask again and again: psoup register
    """
    form = chosen_form(True, format, as_json)
    text = sys.stdin.read() if sql == "-" else sql
    values, instant = values_of(text, param), instant_of(as_of)
    with (
        connect(address, timeout) as client,
        client.ask_stream(
            text,
            values,
            as_of=instant,
            accept_truncation=accept_truncation,
            wait_for=wait_for,
            **windows_of(window or []),
        ) as answer,
    ):
        print_answer(answer, form, rows)

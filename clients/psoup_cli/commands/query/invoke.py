"""psoup invoke: the answer of a standing query, now; or of many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from psoup_cli.answer_flags import (
    SHOWN_ROWS,
    AcceptTruncation,
    AsOf,
    Format,
    JsonRows,
    ManyKeys,
    ShownRows,
    Windows,
    chosen_form,
    instant_of,
    windows_of,
)
from psoup_cli.common import Address, Labels, Timeout, WaitFor, connect, labels_of, message, unreadable
from psoup_cli.legible import legible
from psoup_cli.output import numeric, print_batches, print_json, print_table, rows_of
from psoup_cli.parameters import read_lines
from psoup_client import Answer, AnswerStream, AnswerTable, Client, NotFound, PSoupError, Query
from psoup_client.phrases import counted
from psoup_proto.column_names import unique_names

QueryIds = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="IDs of queries.", show_default=False)]
IdFile = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="Read IDs, one on each line; - for standard input.")
]
OneTable = Annotated[
    bool, typer.Option("--table", help="All answers as one table; `_query` is the query's place, from 0.")
]
KeyPrefix = Annotated[
    str | None, typer.Option("--key-prefix", metavar="TEXT", help="Queries whose keys begin with this; --table.")
]
ManyFormat = Annotated[
    Format | None, typer.Option("--format", help="By default a table on a terminal, else CSV; JSON for several.")
]


def invoke(
    query_ids: QueryIds = None,
    file: IdFile = None,
    key: ManyKeys = None,
    label: Labels = None,
    table: OneTable = False,
    key_prefix: KeyPrefix = None,
    as_of: AsOf = None,
    window: Windows = None,
    accept_truncation: AcceptTruncation = False,
    format: ManyFormat = None,
    as_json: JsonRows = False,
    wait_for: WaitFor = None,
    rows: ShownRows = SHOWN_ROWS,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup invoke ID
      psoup invoke ID --as-of 2013-07-04T12:00:00Z
      psoup invoke ID --window "BEGIN (NOW - 7 DAYS)" --format csv > week.csv
      psoup invoke ID --window "f=BEGIN (NOW - 1 HOUR)" --window "w=BEGIN (NOW - 2 HOURS)"
      psoup invoke --file ids.txt --json
      psoup invoke --key search-42
      psoup invoke --label user=u3
      psoup invoke --table --key-prefix alerts/ --format csv > alerts.csv

    Print the answer of a query. Standard error says how complete it is.

    Several IDs or keys, --file or --label give several answers, in that order. They are tables with a heading. With
    --json each query has a line: {"query_id", "key", "rows", "final"}, or {"query_id" or "key", "error"}; "key" only if
    the query has one. After an error the other answers are still printed; the exit code is that of the first error.

    With --table all answers form one table, as of one moment; use it for tens of thousands of small answers. All
    answers must have the same columns. The first column, `_query`, is the place of the query in the request.
    """
    names = _names(query_ids or [], file, key or [], label or [], key_prefix, table)
    single = (len(names) == 1 and file is None and not label) or table
    form = chosen_form(single, format, as_json)
    if not single and form in (Format.csv, Format.arrow):
        raise typer.BadParameter("several queries go with --format json or table")
    wanted: dict[str, Any] = {"as_of": instant_of(as_of), "accept_truncation": accept_truncation, "wait_for": wait_for}
    wanted |= windows_of(window or [])
    with connect(address, timeout) as client:
        if table:
            chosen = labels_of(label or [])
            whole = client.invoke_table(names or None, labels=chosen, key_prefix=key_prefix, **wanted)
            if not whole.queries:
                raise _nobody("those labels" if label else "such a key")
            _print_together(whole, form, rows)
        elif single:
            query = Query(client, "", key=key[0]) if key else Query(client, names[0])
            with query.stream(**wanted) as answer:
                print_answer(answer, form, rows)
        else:
            ids = _labelled(client, label) if label else names
            asked: dict[str, Any] = {"keys": ids} if key else {"queries": ids}
            named = [{"key" if key else "query_id": name} for name in ids]
            _print_many(named, client.invoke_many(**asked, return_errors=True, **wanted), form, rows)


def _labelled(client: Client, labels: list[str]) -> list[str]:
    """Return the IDs of the queries with these labels. Raises NotFound if no query has them."""
    ids = [query.id for query in client.queries(labels=labels_of(labels))]
    if not ids:
        raise _nobody("those labels")
    return ids


def _names(
    query_ids: list[str], file: str | None, keys: list[str], labels: list[str], prefix: str | None, table: bool
) -> list[str]:
    if bool(query_ids) + (file is not None) + bool(keys) + bool(labels) + (prefix is not None) != 1:
        raise typer.BadParameter("give the ID of a query, some IDs, --key, --label, or --file")
    if (prefix is not None and not table) or (keys and table):
        raise typer.BadParameter("--key-prefix goes with --table, --key without it")
    if prefix == "":
        raise typer.BadParameter("--key-prefix is empty; give the beginning of keys")
    if file is None:
        return query_ids or keys
    try:
        names = read_lines(file)
    except (OSError, ValueError) as problem:
        raise typer.BadParameter(unreadable(problem)) from None
    if not names:
        raise typer.BadParameter(f"{file} holds no IDs; write one on each line")
    return names


def _nobody(selector: str) -> NotFound:
    return NotFound(f"no query has {selector}; show all: psoup queries", reason="UNKNOWN_QUERY")


def print_answer(answer: AnswerStream, form: Format, rows: int) -> None:
    """Print the rows on standard output, and the completeness on standard error.

    `rows`: the limit of a table's rows.
    """
    if form is Format.table:
        count = _table(answer, rows)
    else:
        count = print_batches(form.value, answer.schema, answer)
    message(f"{counted(count, 'row')}. {answer.completeness.sentence()}")


def _print_many(named: list[dict[str, str]], answers: Iterator[Answer | PSoupError], form: Format, rows: int) -> None:
    """Print each answer as it arrives. At the end the first error is raised again."""
    errors: list[PSoupError] = []
    count = 0
    for name, answer in zip(named, answers, strict=True):
        if isinstance(answer, PSoupError):
            errors.append(answer)
            if form is Format.json:
                print_json({**name, "error": answer.message})
            continue
        if form is Format.json:
            name = {"query_id": answer.query_id, **({"key": answer.key} if answer.key else {})}
            print_json({**name, "rows": list(answer), "final": answer.completeness.final})
        else:
            shown = f"{answer.query_id} ({answer.key})" if answer.key else answer.query_id
            print(f"{legible(shown)}: {counted(len(answer), 'row')}. {answer.completeness.sentence()}")
            table = answer.to_arrow()
            print_table(answer.columns, rows_of(table.slice(0, rows or len(answer))), numeric(table.schema))
            print()
        count += len(answer)
    message(f"{counted(count, 'row')} of {counted(len(named) - len(errors), 'query')}.")
    if errors:
        message(f"{counted(len(errors), 'query')} without an answer; of the first:")
        raise errors[0]


def _print_together(answers: AnswerTable, form: Format, rows: int) -> None:
    """Print the answers of all queries as one table. At the end the first error is raised again."""
    if form is Format.table:
        first = answers.to_arrow().slice(0, rows or len(answers))
        print_table(answers.columns, rows_of(first), numeric(answers.schema))
        if len(answers) > first.num_rows:
            message(
                f"The first {first.num_rows:,} of {counted(len(answers), 'row')}; --rows 0 or --format csv gives all."
            )
    else:
        print_batches(form.value, answers.schema, answers.batches)
    message(answers.sentence())
    for failure in answers.failures:
        message(f"{failure.places!r}".strip("<>") + f": {failure.error.message}")
    if answers.failures:
        raise answers.failures[0].error


def _table(answer: AnswerStream, shown: int) -> int:
    """Print the first `shown` rows (0: all) as a table. Returns the number of rows in the answer."""
    count = 0

    def first_rows() -> Iterator[tuple[object, ...]]:
        nonlocal count
        for batch in answer:
            yield from rows_of(batch if not shown else batch.slice(0, max(0, shown - count)))
            count += batch.num_rows

    print_table(unique_names(answer.schema.names), first_rows(), numeric(answer.schema))
    if shown and count > shown:
        message(f"The first {shown:,} of {counted(count, 'row')}; --rows 0 or --format csv gives all.")
    return count

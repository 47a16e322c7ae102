"""Files for queries: statements, IDs, and rows of parameters."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pyarrow as pa
import typer

from psoup_cli.common import unreadable
from psoup_cli.files.csv_rows import CsvColumns, csv_pieces
from psoup_cli.files.json_values import json_kind, json_value
from psoup_cli.files.options import FileOptions
from psoup_cli.files.parquet_file import check_int96, open_parquet
from psoup_cli.files.row_files import format_of
from psoup_cli.files.source import FileSource, Text
from psoup_client import InvalidData, PSoupError

_NAMED = re.compile(r"\$[A-Za-z_]\w*(?![\w$])")

Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="VALUE", help="Value of the next ? or $1; NAME=VALUE for $name; repeatable."),
]


@dataclass(frozen=True, slots=True)
class ParameterFile:
    """Rows as `Client.register_many` takes them. `lines`: the line of each row, if the file is a text."""

    rows: Any
    lines: list[int]

    def placed(self, problem: PSoupError, file: str) -> PSoupError:
        """Return the same error. If it names a query or rows, the error also gets their lines in the file."""
        if not self.lines:
            return problem
        message = re.sub(r"\brow (\d+)\b", lambda row: self._line(int(row[1])), problem.message)
        query = problem.facts.get("query", "")
        if message == problem.message and not query.isdigit():
            return problem
        place = f"{file}, {self._line(int(query))}" if query.isdigit() else file
        return type(problem)(f"{place}: {message}", reason=problem.reason, facts=problem.facts)

    def _line(self, number: int) -> str:
        return f"line {self.lines[min(number, len(self.lines)) - 1]}"


def read_lines(path: str) -> list[str]:
    """Read the lines of a text ("-": standard input), without empty lines."""
    return [line for line, _ in _numbered(path)]


def read_statements(path: str) -> ParameterFile:
    """Read statements, one on each line ("-": standard input), without empty lines and comment lines."""
    statements = [(line, number) for line, number in _numbered(path) if not line.startswith("--")]
    if not statements:
        raise ValueError(f"{path} holds no statements; write one on each line")
    return ParameterFile([line for line, _ in statements], [number for _, number in statements])


def _numbered(path: str) -> list[tuple[str, int]]:
    with contextlib.nullcontext(sys.stdin) if path == "-" else open(path, encoding="utf-8") as file:
        return [(line.strip(), number) for number, line in enumerate(file, 1) if line.strip()]


def values_of(sql: str, given: Sequence[str] | None) -> list[str] | dict[str, str] | None:
    """Read the values of --param, in the order of ? and $1, or as NAME=VALUE for a statement with $name.

    Raises BadParameter.
    """
    if not given or not _NAMED.search(sql):
        return [*given] if given else None
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name in values:
            why = "is given twice" if equals else "is not NAME=VALUE"
            raise typer.BadParameter(f"--param {text!r} {why}: the statement has parameters with names, $name")
        values[name] = value
    return values


def rows_of_values(sql: str, path: str) -> list[Any]:
    """Read the values for a statement that is asked once for each row of a file. Raises BadParameter."""
    try:
        rows = read_parameters(path).rows
    except (OSError, ValueError) as problem:
        raise typer.BadParameter(unreadable(problem)) from None
    if not isinstance(rows, pa.Table):
        return list(rows)
    named = rows.to_pylist()
    return named if _NAMED.search(sql) else [list(row.values()) for row in named]


def read_parameters(path: str) -> ParameterFile:
    """Read rows of parameters as a table, or from JSON lines as a list of objects or arrays. Values of a CSV stay text.

    Raises ValueError that names the place.
    """
    try:
        format = format_of(path, None)
    except ValueError:
        raise ValueError(f"--params {path}: name a file that ends in .csv, .json, .parquet or .arrow") from None
    try:
        if format == "json":
            with open(path, encoding="utf-8") as lines:
                rows = [(_json_values(line, number), number) for number, line in enumerate(lines, 1) if line.strip()]
            return ParameterFile([row for row, _ in rows], [number for _, number in rows])
        if format == "parquet":
            with open_parquet(path) as parquet:
                check_int96(parquet, path, parquet.schema_arrow.names)
                return ParameterFile(parquet.read(), [])
        if format == "arrow":
            with open(path, "rb") as file, pa.ipc.open_stream(file) as batches:
                return ParameterFile(batches.read_all(), [])
        return _csv(path)
    except InvalidData as problem:
        raise ValueError(f"{path}, {problem.message}") from problem
    except pa.ArrowException as problem:
        raise ValueError(f"{path} cannot be read as {format}: {str(problem).splitlines()[0]}") from problem


def _csv(path: str) -> ParameterFile:
    delimiter = "\t" if path.lower().endswith((".tsv", ".tab")) else ","
    tables: list[pa.Table] = []
    lines: list[int] = []
    with open(path, "rb") as file:
        for piece in csv_pieces(
            Text(FileSource(file), None).read, CsvColumns(), FileOptions(delimiter=delimiter, quote='"')
        ):
            for number, reason in sorted(piece.refused.items()):
                raise InvalidData(f"line {piece.records.lines()[number]}: {reason}")
            tables.append(piece.table)
            lines += piece.records.lines()
    if not tables:
        raise ValueError(f"{path} holds no rows below its header")
    return ParameterFile(pa.concat_tables(tables), lines)


def _json_values(line: str, number: int) -> Any:
    try:
        row = json_value(line, shortest=True)
    except InvalidData as problem:
        raise InvalidData(f"line {number}: {problem.message}") from problem
    if not isinstance(row, dict | list):
        raise InvalidData(f"line {number}: it is {json_kind(row)}; write an object or an array on each line")
    return row

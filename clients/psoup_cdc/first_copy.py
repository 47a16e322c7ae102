"""The first rows of a table: read under the snapshot at which its slot begins, and sent as one stage.

    CREATE_REPLICATION_SLOT ──> snapshot, LSN        the slot has every change after the snapshot
    COPY … TO STDOUT (CSV) ──pipe──> Arrow ──> parts of a stage
    commit, with the LSN as source position          all rows become visible at once, or none

A copy that ends early leaves a slot and no row. The next start drops the slot and begins anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
from psycopg2 import sql

from psoup_cdc.lsn import lsn_of
from psoup_cdc.source import PostgresSource, SourceTable, naming_errors
from psoup_cdc.target import Picker, TargetTable
from psoup_cdc.values import to_column
from psoup_client import Client, PSoupError

BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes of text that become one part of the stage."""

COMMIT_SECONDS = 600.0
"""The deadline of the commit in seconds."""

Progress = Callable[[int, int], None]
"""Called with the rows so far, and the estimate of all rows."""


def copy(
    client: Client,
    source: PostgresSource,
    table: SourceTable,
    target: TargetTable,
    producer: str,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Create the slot, and copy the rows that it begins with. Returns the slot's LSN and the number of rows.

    Raises errors of both sides. If the copy fails, the slot is dropped, and no row is in the table. If the commit
    fails, the slot stays, as the rows may be in.
    """
    rows = 0
    with _slot(source) as (lsn, snapshot):
        stage = client.stage(target.name, producer=producer, epoch=1, number=0)
        try:
            for part in _parts(source, table, target, snapshot):
                stage.add(part)
                rows += part.num_rows
                if progress is not None:
                    progress(rows, max(rows, table.rows))
        except BaseException:
            with suppress(PSoupError):
                stage.abort()
            raise
    stage.commit(position=lsn.encode(), after=b"", timeout=COMMIT_SECONDS)
    return lsn_of(lsn), rows


@contextmanager
def _slot(source: PostgresSource) -> Iterator[tuple[str, str]]:
    """Create the slot. Yields its LSN and the name of a snapshot, which lives as long as the `with` block."""
    connection = source.connect(replication=True)
    try:
        with naming_errors(), connection.cursor() as cursor:
            cursor.execute(f'CREATE_REPLICATION_SLOT "{source.name}" LOGICAL pgoutput EXPORT_SNAPSHOT')
            _, lsn, snapshot, _ = cursor.fetchone()
        try:
            yield lsn, snapshot
        except BaseException:
            connection.close()
            source.drop_slot()
            raise
    finally:
        connection.close()


def _parts(source: PostgresSource, table: SourceTable, target: TargetTable, snapshot: str) -> Iterator[pa.Table]:
    """The rows of the table in the snapshot, as typed tables without the column of deletions."""
    picker = Picker(target, table.columns)
    names = {column.name.lower(): column.name for column in table.columns}
    chosen = [names[column.name.lower()] for column in target.columns]
    with source.connect() as connection:
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with connection.cursor() as cursor, naming_errors():
            cursor.execute("SET TRANSACTION SNAPSHOT %s", [snapshot])
            columns = sql.SQL(", ").join(sql.Identifier(name) for name in chosen)
            place = sql.Identifier(table.schema, table.name)
            only = sql.SQL("" if table.root else "ONLY ")  # without it, the rows of partitions come
            statement = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT (FORMAT csv)").format(columns, only, place)
            for batch in _csv(cursor, statement.as_string(connection), len(chosen)):
                arrays = [
                    to_column(cells, type_id, column)
                    for cells, type_id, column in zip(batch.columns, picker.type_ids, target.columns, strict=True)
                ]
                yield pa.table(arrays, [column.name for column in target.columns])
    connection.close()


def _csv(cursor: Any, statement: str, columns: int) -> Iterator[pa.RecordBatch]:
    """Run a COPY on a thread of its own. Yields its rows as columns of strings, in blocks."""
    ahead, behind = os.pipe()
    problems = list[BaseException]()

    def run() -> None:
        try:
            with os.fdopen(behind, "wb") as file:
                cursor.copy_expert(statement, file, BLOCK_BYTES)
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, name="psoup-cdc-copy", daemon=True)
    thread.start()
    try:
        with os.fdopen(ahead, "rb") as file:
            try:
                with csv.open_csv(file, *_options(columns)) as rows:
                    yield from rows
            except pa.ArrowInvalid as problem:
                if "Empty CSV" not in str(problem):
                    raise
    finally:
        thread.join()
    if problems:
        raise problems[0]


def _options(columns: int) -> tuple[csv.ReadOptions, csv.ParseOptions, csv.ConvertOptions]:
    """Options for CSV as PostgreSQL writes it: an empty value is NULL, and a quoted one is a text."""
    names = [str(place) for place in range(columns)]
    conversion = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    reading = csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names)
    return reading, csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False), conversion

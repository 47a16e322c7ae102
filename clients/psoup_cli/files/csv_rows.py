"""CSV files as tables, by the contract's reader (`psoup_proto.csv_rows`). Reasons name options of the command."""

from __future__ import annotations

from collections.abc import Iterator

from psoup_cli.files.csv_reasons import reason_of
from psoup_cli.files.options import FileOptions
from psoup_cli.files.source import invalid_data
from psoup_proto.csv_rows import pieces
from psoup_proto.csv_rows.faults import CsvFault
from psoup_proto.csv_rows.pieces import CsvColumns, CsvOptions, CsvPiece, Read

__all__ = ["CsvColumns", "CsvPiece", "csv_pieces"]


def csv_pieces(read: Read, columns: CsvColumns, options: FileOptions) -> Iterator[CsvPiece]:
    """Yield the tables of a CSV.

    Raises InvalidData that names the line at which reading ends, also for an empty file.
    """
    given = CsvOptions(options.nulls, options.header, options.delimiter, options.quote)
    try:
        yield from pieces.csv_pieces(read, columns, given, reason_of)
    except CsvFault as fault:
        raise invalid_data(fault) from fault

"""Readers of files with rows: CSV of any dialect, JSON lines, Parquet, Arrow, compressed or not.

    path ──source──> bytes, decompressed, in UTF-8 ──records──> whole records ──csv_rows, json_rows──> pieces
              Parquet and Arrow ──────────────────────────────────────────────────arrow_rows──┘

`row_files` calls the other modules. `dialect` finds the delimiter and the quote of a CSV, and `header` its columns.
"""

"""Closed chunks as Parquet files: writing them, reading them at a start or for a reader, attached history, covers."""

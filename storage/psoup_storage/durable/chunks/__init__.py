"""Closed chunks as Parquet files: written, read back at a start or when asked for, attached, covered."""

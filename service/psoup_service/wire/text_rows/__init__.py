"""Rows of a push as text, NDJSON or CSV, read in pieces of whole lines. All bad rows are named by line."""

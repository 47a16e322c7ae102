"""The plan, that is a bound query: its factors, its columns, its one canonical text. Knows no text of SQL."""

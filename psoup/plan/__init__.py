"""What a bound query is: its factors, its columns, its one canonical text. Knows no text of SQL."""

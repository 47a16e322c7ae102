"""The plan of a bound query: its factors, its columns, its canonical text. It knows no SQL text."""

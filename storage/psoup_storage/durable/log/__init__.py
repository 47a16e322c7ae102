"""The log: events as rows, blocks of queries among them, and what it may forget."""

"""The log: events as rows, blocks of queries as Arrow columns, and the rules by which rows are forgotten."""

"""Update patterns (SIGMOD 2005): queries 1 to 5."""

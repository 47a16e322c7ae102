"""State Modules: the two sides of the join, queries and data, and what each keeps to be probed by the other."""

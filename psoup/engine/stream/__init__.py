"""A stream inside the engine: its tuples, its clauses, and the results that join them."""

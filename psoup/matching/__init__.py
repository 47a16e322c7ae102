"""The evaluation of clauses over tuples: on arrival, after a registration, in a search, and outside an engine."""

"""The Query SteM: the standing query clauses of a stream as a predicate index, and which of them are one clause."""

"""Tuples meet clauses: new tuples, old tuples, a search for one clause, and the same outside an engine."""

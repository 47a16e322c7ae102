"""Tuples meet clauses: new tuples, old tuples, one clause looked for, and the same outside an engine."""

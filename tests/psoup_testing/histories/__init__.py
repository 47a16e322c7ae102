"""Random material of tests: values, expressions, statements, and whole histories of a stream or a join.

values ──> expressions ──> predicates ──> queries, windows ──> histories
"""

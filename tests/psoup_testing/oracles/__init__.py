"""Oracles: answers of the product against DuckDB, a naive model and plain Python.

history ──> product, model, DuckDB ──> duel: the same answers after every action
"""

"""Bound expression trees, and their evaluation a column at a time."""

"""Bound expression trees, and their evaluation column by column."""

"""Answers of joins: in memory and on disk, one and many, kept pairs, selectivities that change."""

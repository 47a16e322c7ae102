"""Copies of answers at clients: their tokens, the data that they belong to, and their changes."""

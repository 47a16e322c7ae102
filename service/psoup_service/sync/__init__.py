"""Copies of answers at clients: what their tokens say, which bodies of data they belong to, and what has changed."""

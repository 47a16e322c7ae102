"""Clients that follow streams: their positions, their pages, and the marks by which new tuples wake them."""

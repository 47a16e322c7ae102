"""Hostile clients, and the latencies of a neighbour meanwhile."""

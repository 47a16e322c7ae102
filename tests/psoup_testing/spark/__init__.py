"""Spark under test: one session, drivers and workers that are killed, and a duel with the service."""

"""Spark and the service on one machine: feeds, backfills, attached history, standing jobs."""

"""Answers of one stream: selections, aggregates, tables of many answers, look-ups, streams on disk."""

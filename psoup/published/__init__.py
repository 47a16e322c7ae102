"""Immutable values that the writer publishes and readers read; nothing here evaluates."""

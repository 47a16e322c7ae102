"""The Results Structure: the matches of standing query clauses, chunk by chunk."""

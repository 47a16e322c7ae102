"""The Results Structure: which tuples satisfied which standing query clause, chunk by chunk."""

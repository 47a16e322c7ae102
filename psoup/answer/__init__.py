"""Answers from a snapshot: invocations, matches of a tuple, explanations, descriptions; import from its modules."""

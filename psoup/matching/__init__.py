"""The evaluation of clauses over tuples: new tuples, old tuples, the search for one clause, and all of it outside an
engine."""

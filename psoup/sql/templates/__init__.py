"""Many queries of one form: a statement with parameters, bound once, and its values, bound without a parser."""

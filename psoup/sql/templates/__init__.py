"""Many queries of one form: a statement with parameters is bound once, and its values are bound without a parser."""

"""Many queries of one form: the parser binds a statement with parameters once, and then only its values are bound."""

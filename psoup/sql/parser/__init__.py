"""The parser: the text of a statement becomes a syntax tree of sqlglot, or an error with a line and a column.

    text ──texts──> plain constants ──guards──> tokens ──parse_tree──> tree
                                                             │
                               grammar, compositions, dialect, syntax: the grammar that sqlglot applies

Question: what does the statement say, as a tree?

Files, in reading order:

    syntax        nodes that sqlglot lacks, and the errors that stop its parser
    grammar       expressions, FROM and windows: the grammar of sqlglot, made strict
    compositions  subselects, set operations, WITH, VALUES and joins
    dialect       SELECT with BEGIN and END, and the statements about streams
    texts         constants of text in other spellings than '…'
    guards        refusals of texts that would cost the parser much time or stack
    parse_tree    tokens to a tree, and the messages of sqlglot in the words of the statement

Never here: a name of a stream, a type of a column, a value.
Not for: the meaning of a tree (`psoup.sql.binder`, `psoup.sql.select`), refusals of features (`psoup.sql.refusals`).
"""

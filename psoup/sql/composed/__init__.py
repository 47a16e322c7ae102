"""Composed statements: outer joins, subselects, set operations and WITH become one plan over hidden selections.

    SELECT … FROM flights f LEFT JOIN weather w ON f.origin = w.origin WHERE f.delay > 60 AND w.wind IS NULL
      side 0   flights, f.delay > 60               a condition goes to a side only if the answer stays the same
      side 1   weather
      plan     Filter w.wind IS NULL
                 LEFT JOIN f.origin = w.origin
                   Source f, Source w

Files, in reading order:

    shapes           the shapes of the parser's trees, and the test for composed statements
    refusals         the allow-list, and what is refused by its name
    composition      the parts of a statement that all its SELECTs share: sides, relations, windows
    scope            the columns that a name may mean, in nested statements
    from_tree        FROM as a tree of joins, with its conditions
    null_rejection   conditions that a missing tuple cannot satisfy: outer joins that are inner in truth
    condition_places the place of each condition in the tree: a side, a join, or a Filter
    composed_binder  expressions with scalar subselects
    selects          one SELECT, from its tree to its plan; EXISTS and IN
    statement        a whole statement, from its tree to its standing query

Statements over one stream, and inner joins of streams, do not come here: `psoup.sql.select` binds them.
"""

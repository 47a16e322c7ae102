"""Execution evaluates plans over one snapshot. Rows are references to tuples until their columns are gathered.

    plan ──> select: matches in the window ──> join | partners | aggregate ──> rows: columns, order, Arrow
                                          └──> many: the same for thousands of queries in one pass

Files and rooms, in reading order:

    ways         THE LIST: the implementations of each step, quickest first
    plan         each node makes rows of the rows of its input
    select       windows, and the tuples in them that match a clause
    rows         columns of SELECT, ORDER BY, record batches
    join         ways of joining sides, and parts that several ways share
    partners     outer joins, semi-joins and their like, joins of composite inputs, filters
    relations    subselects, set operations and constants as rows of the statement around them
    aggregate    folds: of rows, of whole chunks, of windows
    many         sets of queries of one plan, answered together
    ahead        folds and packs that background work makes before an invocation needs them

Imports go down: ahead > many, plan > ways > aggregate, partners > relations > join > rows > select.
Never here: a client, a clock, a thread of its own. The engine and admission never import this room.
Not for: the meaning of a statement (`psoup.sql`), structures of joins and states of aggregates (rooms of their own).
"""

"""Explanations of a query: the plan as nodes, the state of each source, and the cost of the next invocation.

    plan nodes ──> source: window, clause, form of results ──> factors: selectivity, index
               ──> join: order of sources, steps           ──> groups, folds: groups now, stored folds
               ──> spend: budgets that the next invocation would use

Files, in reading order:

    explain      all parts together
    source       a source: its window now, its clause, its results chunk by chunk
    source_facts the facts of a source, from its chunks
    factors      the boolean factors of WHERE, in words and counts
    sample       selectivity of each factor among the newest tuples
    chosen_ways  ways that an invocation would try, by the names of their modules
    join         rows of a join now, and its steps
    groups       groups of an aggregate now, and bytes of each
    folds        folds that an invocation would take, in memory and on disk
    spend        budgets that an invocation would spend
    kept         the kept answer of a COMPLETE query

Never here: an answer. EXPLAIN reads stored results, and a sample of tuples.
"""

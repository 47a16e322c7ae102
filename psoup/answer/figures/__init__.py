"""Figures: the cost of each query, and the bytes of each structure.

    counters of queries ──> query_costs ──> top_queries, page by page
    structures ──> bill: bytes, number of things, reclaimable bytes

Files, in reading order:

    query_costs       candidates, matches, share of the work, bytes
    top_queries       the queries that cost most, page by page
    arrival_shares    the share of the writer's time that each query takes as tuples arrive
    bill              bytes of each structure
    kept_figures      kept answers: their number, their bytes, and those given up
    table_figures     the versions of tables, and the rows that hold

Never here: timing. Costs are counts that the engine keeps; the service adds processor time.
"""

"""Helpers that tests of every area share: random schemas, data, queries and histories; two oracles; what was covered.

    values, expressions, predicates, queries, histories   draw a case (Hypothesis) and write it as SQL, twice
    oracle                                                the answer by DuckDB, a relational query run once
    model                                                 streams, watermarks and windows, naively
    coverage, budget, profiles                            what a run did, within how many seconds, from which seed

Nothing here shares code with the product beyond the words of `psoup.model` and `psoup.errors`.
"""

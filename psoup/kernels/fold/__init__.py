"""Folds: values into the states of aggregates, keys of groups into numbers.

    keys   ──group_numbers──> numbers ─┐
    values ────────────────────────────┴──group_states──> counts, sums, extremes ──wide_integers──> exact sums
    rows of many clauses ──segments──> groups of each clause

Files, in reading order:

    group_numbers    keys and texts of groups, numbered in order of arrival
    group_states     counts, sums, extremes and moments of numbered groups
    wide_integers    integers of several words: sums that are exact
    segments         rows of many clauses side by side; sorted and grouped within each
    frame_extremes   least and greatest keys of the frames of window functions

Invariant: a kernel adds to the states that it is given, so folds of parts can follow one another.
Never here: names of aggregates, types of SQL.
Not for: the meaning of an aggregate (`psoup.aggregates`).
"""

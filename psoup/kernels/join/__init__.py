"""Joins: pairs of rows of two sides, or tuples of several, and their columns as a record batch.

    sides ──pair_columns: keys──> hash_buckets ──> pair_columns, band_probe: pairs ──> pair_filter
                                      └──> multiway: tuples of several sides
    pairs ──pair_columns, code_columns, text_columns──> bytes of a record batch

Files, in reading order:

    arrays                           arguments that these kernels take together
    hash_buckets                     rows of a side by bucket of their key
    pair_columns, band_probe         keys of a side, pairs from buckets, columns of pairs
    range_pairs, pair_filter         pairs from ranges of places; pairs checked against more factors
    text_columns, code_columns       texts of pairs; columns of rows that codes name
    small_pairs, small_join          small sides in one call: pairs; the whole answer
    parallel_pairs                   larger sides by an equality, for two threads
    set_pairs, stored_pairs          pairs of many joins at once; pairs kept between closed chunks
    multiway                         several sides by one equality each
    outer_pairs, small_outer         rows of the left without a partner: merged into pairs; the whole answer

Invariant: no kernel writes behind its arrays; it says where it stopped, or that it lacks room.
Never here: the choice among these ways (`psoup.execution.join`).
Not for: conditions that are neither equalities nor bands (`psoup.joins.residual`).
"""

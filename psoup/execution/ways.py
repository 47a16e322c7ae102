"""The list of ways. A way is one implementation of a step of an answer, and each step lists its quickest way first.

    ANSWER   how an answer is shown          single_row small_join parallel_join join_messages …
    JOIN     how pairs of a join are found   kept_pairs small_pairs key_join band_join routed_join
    COUNT    how pairs of a join are counted kept_pairs small_pairs key_join join_rows
    GROUPS   how rows become groups          window_ends fold_rows
    BUCKETS  how rows become groups of HOP   combined_panes repeated_rows
    WINDOW   how a window is read            window_middle window_folds window_rows all_matches

`psoup.plan.way` chooses the first way that accepts the case. Each way has the name of its module, and EXPLAIN prints
it. All ways that accept a case give the same rows in the same order. A test runs each way on each case that it accepts.
"""

from __future__ import annotations

from psoup.execution.aggregate import (
    all_matches,
    combined_panes,
    fold_rows,
    repeated_rows,
    single_row,
    window_case,
    window_ends,
    window_folds,
    window_middle,
    window_rows,
)
from psoup.execution.aggregate.row_parts import GroupCase, GroupTable
from psoup.execution.aggregate.window_case import Ends, WindowCase
from psoup.execution.join import (
    band_join,
    join_messages,
    join_rows,
    kept_pairs,
    key_join,
    parallel_join,
    routed_join,
    small_join,
    small_pairs,
)
from psoup.execution.join.join_case import JoinCase, Pieces
from psoup.execution.partners import composed_messages, small_outer_join
from psoup.execution.rows import computed_rows, source_messages
from psoup.execution.rows.answer_case import AnswerCase, AnswerParts
from psoup.plan.way import Way, Ways

ANSWER: Ways[AnswerCase, AnswerParts] = Ways(
    "answer",
    Way(
        "single_row",
        needs="measures shown as they are, no GROUP BY; at most four chunks of matches beside the folds, in memory",
        gives="one row",
        cost="matches at the two ends of the window",
        run=single_row.single_row,
        serves=single_row.serves,
        accepts=single_row.accepts,
    ),
    Way(
        "small_join",
        needs="two sides, one equality or band, columns other than texts; at most 32,767 rows a side, in memory",
        gives="Arrow messages, from one kernel call",
        cost="rows of both sides + pairs",
        run=small_join.small_join,
        serves=small_join.serves,
        accepts=small_join.accepts,
        gives_up="a side or the pairs are too many for one call",
    ),
    Way(
        "parallel_join",
        needs="two sides, one equality, columns other than texts; at most 262,144 rows a side, in memory",
        gives="Arrow messages, gathered on two threads",
        cost="rows of both sides + pairs",
        run=parallel_join.parallel_join,
        serves=parallel_join.serves,
        accepts=parallel_join.accepts,
        gives_up="keys are far apart or NULL, or the pairs are too many to be held",
    ),
    Way(
        "small_outer_join",
        needs="a LEFT JOIN of two sides, one equality or band, columns other than texts; at most 32,767 rows a side",
        gives="Arrow messages, from one kernel call for the pairs",
        cost="rows of both sides + pairs",
        run=small_outer_join.small_outer_join,
        serves=small_outer_join.serves,
        accepts=small_outer_join.accepts,
        gives_up="a side or the pairs are too many for one call",
    ),
    Way(
        "join_messages",
        needs="a join, a SELECT list of columns, no ORDER BY; all sides in memory",
        gives="Arrow messages, gathered from the chunks",
        cost="the way of joining + rows * columns",
        run=join_messages.join_messages,
        serves=join_messages.serves,
        accepts=join_messages.accepts,
    ),
    Way(
        "composed_messages",
        needs="joins with rows without a partner, a SELECT list of columns, no ORDER BY; all sides in memory",
        gives="Arrow messages, gathered from the chunks",
        cost="the ways of joining + rows * columns",
        run=composed_messages.composed_messages,
        serves=composed_messages.serves,
        accepts=composed_messages.accepts,
    ),
    Way(
        "source_messages",
        needs="one stream, a SELECT list of columns, no ORDER BY",
        gives="Arrow messages, gathered from the chunks",
        cost="rows * columns",
        run=source_messages.source_messages,
        serves=source_messages.serves,
    ),
    Way(
        "computed_rows",
        needs="nothing",
        gives="columns, computed, sorted and grouped as the plan says",
        cost="the nodes of the plan",
        run=computed_rows.computed_rows,
    ),
)

JOIN: Ways[JoinCase, Pieces] = Ways(
    "join",
    Way(
        "kept_pairs",
        needs="pairs of this join that maintenance keeps",
        gives="all pairs, in the order of FROM",
        cost="kept pairs in the windows",
        run=kept_pairs.kept_pairs,
        accepts=kept_pairs.accepts,
        gives_up="the kept pairs are more than the matches, or much of the window has none",
    ),
    Way(
        "small_pairs",
        needs="two sides, one equality of columns; at most 16,384 rows a side, in memory",
        gives="all pairs as one piece, from one kernel call",
        cost="rows of both sides + pairs",
        run=small_pairs.small_pairs,
        serves=small_pairs.serves,
        accepts=small_pairs.accepts,
        gives_up="the pairs are too many for one call",
    ),
    Way(
        "key_join",
        needs="two sides in memory, equalities of columns, with bands of columns beside them or not",
        gives="pairs in pieces",
        cost="rows of both sides + pairs by the keys",
        run=key_join.key_join,
        serves=key_join.serves,
        accepts=key_join.accepts,
        gives_up="a sum leaves its type, or many rows have one key and no band is sorted",
    ),
    Way(
        "band_join",
        needs="two sides in memory, one band of columns",
        gives="pairs in pieces",
        cost="rows of the left side * log rows of the right side + pairs",
        run=band_join.band_join,
        serves=band_join.serves,
        accepts=band_join.accepts,
        gives_up="the right side is not sorted, or a sum leaves its type",
    ),
    Way(
        "routed_join",
        needs="nothing",
        gives="rows in pieces",
        cost="candidates of all steps",
        run=routed_join.routed_join,
    ),
)

COUNT: Ways[JoinCase, int] = Ways(
    "number of joined rows",
    Way(
        "kept_pairs",
        needs="pairs of this join that maintenance keeps, no other condition",
        gives="the number of rows",
        cost="kept pairs in the windows",
        run=kept_pairs.count_kept_pairs,
        serves=join_rows.has_no_rest,
        accepts=kept_pairs.accepts,
        gives_up="the kept pairs are more than the matches, or much of the window has none",
    ),
    Way(
        "small_pairs",
        needs="two sides, one equality of columns, no other condition; at most 16,384 rows a side, in memory",
        gives="the number of rows",
        cost="rows of both sides + pairs",
        run=small_pairs.count_small_pairs,
        serves=key_join.counts,
        accepts=small_pairs.accepts,
        gives_up="the pairs are too many for one call",
    ),
    Way(
        "key_join",
        needs="two sides in memory, one equality of columns, no other condition",
        gives="the number of rows, without the pairs",
        cost="rows of both sides",
        run=key_join.count_keys,
        serves=key_join.counts,
        accepts=key_join.accepts,
        gives_up="keys are far apart",
    ),
    Way(
        "join_rows",
        needs="nothing",
        gives="the number of rows, which are found for that",
        cost="the way of joining",
        run=join_rows.count_rows,
    ),
)

GROUPS: Ways[GroupCase, GroupTable] = Ways(
    "groups",
    Way(
        "window_ends",
        needs="no GROUP BY; measures of plain columns; at most four chunks of matches beside the folds, in memory",
        gives="a table of one row",
        cost="matches at the two ends of the window",
        run=window_ends.window_ends,
        accepts=window_ends.accepts,
    ),
    Way(
        "fold_rows",
        needs="nothing",
        gives="a table with a row for each group",
        cost="rows * measures",
        run=fold_rows.fold_rows,
    ),
)

BUCKETS: Ways[GroupCase, GroupTable] = Ways(
    "buckets of a hop",
    Way(
        "combined_panes",
        needs="aggregates whose states are exact for combined panes",
        gives="a table with a row for each group and bucket",
        cost="rows * measures + groups of panes * panes of a bucket",
        run=combined_panes.combined_panes,
        serves=combined_panes.serves,
    ),
    Way(
        "repeated_rows",
        needs="nothing",
        gives="a table with a row for each group and bucket",
        cost="rows * buckets of a tuple * measures",
        run=repeated_rows.repeated_rows,
    ),
)

WINDOW: Ways[WindowCase, Ends] = Ways(
    "window",
    Way(
        "window_middle",
        needs="aggregates whose states can be combined; the fold of the window's middle is kept",
        gives="the matches outside the middle, and its fold",
        cost="matches at the two ends of the window",
        run=window_middle.window_middle,
        serves=window_case.serves,
        accepts=window_middle.accepts,
        gives_up="matches outside the middle are not known, or have errors",
    ),
    Way(
        "window_folds",
        needs="aggregates whose states can be combined; the window contains whole chunks",
        gives="the matches of the two ends, and the fold of the chunks between them",
        cost="chunks that are not folded yet + matches at the two ends of the window",
        run=window_folds.window_folds,
        serves=window_case.serves,
        accepts=window_folds.accepts,
        gives_up="the clause is read for the first time, or the folds are too large",
    ),
    Way(
        "window_rows",
        needs="aggregates whose states can be combined",
        gives="all matches of the window",
        cost="matches",
        run=window_rows.window_rows,
        serves=window_case.serves,
        accepts=window_case.accepts_rows,
    ),
    Way(
        "all_matches",
        needs="nothing",
        gives="all matches of the window",
        cost="matches + tuples that no result covers",
        run=all_matches.all_matches,
    ),
)

STEPS = (WINDOW, ANSWER, JOIN, COUNT, GROUPS, BUCKETS)
"""All steps, in the order in which an invocation takes them."""
JOIN_WAYS = join_rows.JoinWays(JOIN, COUNT)

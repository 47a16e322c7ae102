"""Operators with state: the changes of a relation from the spans of the rows of its inputs.

    spans of rows (value, start, end) ──> an operator: state up to an instant ──> deltas (value, sign, instant)

Question: which rows enter or leave the result, and when?

Files, in reading order:

    spans            the input of an operator, its output, and the protocol of all operators
    buffers          the rows of a state, found by the instant at which they expire
    value_table      the values of a state, as numbers
    row_store        the columns of the rows of a state
    distinct         DISTINCT, and UNION
    semi_join        EXISTS, IN, NOT EXISTS, NOT IN: left_rows, key_ends, match_keys and changes are its parts
    band_semi_join   EXISTS and NOT EXISTS with a band: linked_rows is its part
    set_counts       EXCEPT and INTERSECT
    groups           GROUP BY: positions, running_states, distinct_states, recomputed_states are its parts

Never here: a thread, a clock, a snapshot, a plan. A state depends only on the rows that are still in the relations of
the inputs. So a new operator has the same state after one step over these rows.
"""

from psoup.delta.band_semi_join import BandSemiJoin
from psoup.delta.buffers import BufferKind
from psoup.delta.distinct import Distinct
from psoup.delta.groups import GroupMeasure, Groups
from psoup.delta.semi_join import SemiJoin
from psoup.delta.set_counts import SetCounts, SetKind
from psoup.delta.spans import FOREVER, Deltas, Operator, Spans, load, netted

__all__ = [
    "FOREVER",
    "BandSemiJoin",
    "BufferKind",
    "Deltas",
    "Distinct",
    "GroupMeasure",
    "Groups",
    "Operator",
    "SemiJoin",
    "SetCounts",
    "SetKind",
    "Spans",
    "load",
    "netted",
]

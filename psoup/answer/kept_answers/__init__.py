"""Kept answers: the answers of COMPLETE queries, which the next invocation brings up to date (PSoup-C).

    kept    tuple IDs of the rows, the Arrow messages sent last, and the tuple IDs that they cover
    now     [ new below ][ kept, cut at the window ][ new above ]    only the new parts are searched
            nothing came, nothing left ──> the same bytes again

Files, in reading order:

    kept_forms     plans: which answers are brought up to date, which are kept as they are, which are not kept
    kept_parts     messages as shared bytes, and new messages that are spliced from them
    kept_values    the values in the room of kept answers (`psoup.published.answer_room`)
    complete       the front door: a kept answer, one that is brought up to date, or a new one that is kept
    row_pieces     the kept rows of one stream in pieces; a change copies few of them
    stream_rows    the kept rows of one stream: what came and what left
    kept_selection the answer of a query over one stream, brought up to date
    kept_union     the answer of UNION ALL of selections, brought up to date
    placed_answers a join whose windows count rows, while no event comes at all
    last_answers   any other answer: the same bytes while its streams and tables have no new event

Never here: an answer that depends on what is kept. A kept answer may be dropped at any time.
"""

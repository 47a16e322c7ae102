"""Commands about tuples and their queries: `psoup follow`, `match`, `matches`, `results` and `why`.

              queries
    tuples    1 0 0 1      match: rows of a file     matches: a row of the picture
              0 1 0 1      results: the picture      why: one bit of it, with reasons

Question: which tuples satisfy which queries, and why?

Files, in reading order:

    matches    the queries of one tuple
    follow     the queries of new tuples, as they come
    match      the queries that the rows of a file would match
    results    the newest tuples against queries, as a picture
    why        reasons for a tuple in an answer, or outside of it

Never here: a call that the SDK lacks.
Not for: answers (`psoup_cli.commands.query`).
"""

"""Commands about copies of answers in a SQLite file: `psoup recharge`.

    recharge add ──> file ──recharge──> copies up to date ──show, history──> rows

Question: how does a program without a network read recent answers?

Files, in reading order:

    recharge          add, bring up to date, forget
    recharge_views    show, status and history, without a network

Never here: a rule about when to recharge (`psoup_recharge`).
Not for: copies in memory (`psoup_client.copies`).
"""

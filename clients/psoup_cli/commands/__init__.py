"""The commands, one module for each, in rooms by subject; `psoup_cli.app` registers them.

    psoup NAME ... ──app──> a function of a module here ──SDK──> service ──output──> lines on the terminal

Question: what does a command do with its arguments?

Rooms, in reading order:

    service      serve, demo, status, open, clock, promote, config
    streams      stream, push, producer, heartbeat, dump and load
    query        check, register, invoke, ask, sql, queries, explain, top, unregister
    tuples       match, matches, results, why
    copies       recharge
    access       admin, token, tenant, audit
    directory    doctor, backup and restore
    spark        feed, backfill, stand, cover

Never here: a call that the SDK lacks, a format of rows.
Not for: files of rows (`psoup_cli.files`), options that several commands share (`psoup_cli.common`).
"""
